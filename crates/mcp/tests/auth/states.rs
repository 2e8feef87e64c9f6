//! A state is good for one person, one server, one time, ten minutes.

use kitbag_mcp::auth::{AuthError, Callback, Server};

use crate::stand::Stand;
use crate::support::{BACK, Desk, ME};

#[tokio::test]
async fn it_is_good_for_once() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    desk.finish(callback.clone()).await.unwrap();
    assert!(matches!(desk.finish(callback).await, Err(AuthError::UnknownState)));
    assert_eq!(stand.asked("/token").len(), 1);
    // Also when it is handed in twice at the same moment, by two processes.
    let other = desk.another_process();
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    let (one, two) = tokio::join!(desk.finish(callback.clone()), other.finish(callback));
    assert_eq!(u8::from(one.is_ok()) + u8::from(two.is_ok()), 1);
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn it_is_good_for_ten_minutes() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    desk.pass(599);
    desk.finish(callback).await.unwrap();
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    desk.pass(600);
    assert!(matches!(desk.finish(callback).await, Err(AuthError::Expired)));
    assert_eq!(stand.asked("/token").len(), 1);
}

#[tokio::test]
async fn it_is_good_for_who_began_it() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    // Somebody sends a link with their own sign-in to another person, who would then work with their account.
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    assert!(matches!(
        desk.auth.finish(&"local".parse().unwrap(), "victim", callback).await,
        Err(AuthError::OtherPerson)
    ));
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    assert!(matches!(desk.auth.finish(&"acme".parse().unwrap(), ME, callback).await, Err(AuthError::UnknownState)));
    assert!(stand.asked("/token").is_empty());
}

#[tokio::test]
async fn it_belongs_to_one_server() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    let other = Server { key: "tools~two".parse().unwrap(), ..desk.server.clone() };
    let started = desk.auth.begin(&other, ME, None, BACK, &desk.settings).await.unwrap();
    // The random part of one with the server of the other.
    let (random, _) = callback.state.split_once('.').unwrap();
    let (_, server) = started.state.split_once('.').unwrap();
    let mixed = Callback { state: format!("{random}.{server}"), ..callback.clone() };
    assert!(matches!(desk.finish(mixed).await, Err(AuthError::UnknownState)));
    // That cost neither of them its sign-in.
    desk.finish(callback).await.unwrap();
    desk.finish(desk.browse(&started).await).await.unwrap();
}

#[tokio::test]
async fn a_later_one_takes_its_place() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let first = desk.browse(&desk.begin(None).await.unwrap()).await;
    let second = desk.browse(&desk.begin(None).await.unwrap()).await;
    assert!(matches!(desk.finish(first).await, Err(AuthError::UnknownState)));
    desk.finish(second).await.unwrap();
}

#[tokio::test]
async fn what_is_none_is_refused() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let started = desk.begin(None).await.unwrap();
    let (random, server) = started.state.split_once('.').unwrap();
    for state in ["", ".", "x", "x.%%%", &format!("{random}."), &format!(".{server}"), &format!("{random}x.{server}")] {
        let callback = Callback { state: state.to_owned(), code: Some("code".into()), ..Callback::default() };
        assert!(matches!(desk.finish(callback).await, Err(AuthError::UnknownState)), "{state}");
    }
    let callback = Callback { code: None, ..desk.browse(&started).await };
    assert!(matches!(desk.finish(callback).await, Err(AuthError::NoCode)));
    assert!(stand.asked("/token").is_empty());
}

#[tokio::test]
async fn what_is_kept_does_not_open_it() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let started = desk.begin(None).await.unwrap();
    let kept = desk.kept(kitbag_mcp::auth::Kind::SignIn).await.unwrap();
    assert!(!kept.contains(&started.state) && !kept.contains(started.state.split_once('.').unwrap().0));
}
