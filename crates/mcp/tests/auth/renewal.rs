//! Tokens come to an end: they are renewed before, by one, and when they are refused there is one more try.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kitbag_mcp::auth::{AuthError, Grant, Keeper, Kind, Proof, Refusal, RegisteredClient, Slot, Status};
use kitbag_mcp::connection::Tokens;
use kitbag_model::Secret;
use serde_json::json;

use crate::stand::{Odd, Stand};
use crate::support::Desk;

async fn signed_in() -> (Stand, Desk, String) {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    let token = desk.bearer().await.unwrap();
    (stand, desk, token)
}

async fn refused(desk: &Desk, token: &str, challenge: Option<&str>) -> Refusal {
    desk.auth.refused(&desk.server, Some(&Secret::new(token)), challenge, &desk.settings).await.unwrap()
}

#[tokio::test]
async fn it_is_renewed_ahead_of_its_end() {
    let (stand, desk, token) = signed_in().await;
    // An hour: not before fifty minutes, and five minutes before the end at the latest.
    desk.pass(3600 - 600);
    assert_eq!(desk.bearer().await.as_deref(), Some(token.as_str()));
    desk.pass(300);
    let renewed = desk.bearer().await.unwrap();
    assert_ne!(renewed, token);
    assert_eq!(desk.try_token(&renewed).await, 200);
    let asked = &stand.asked("/token")[1];
    assert_eq!(asked.form["grant_type"], "refresh_token");
    assert_eq!(asked.form["resource"], format!("{}/mcp", stand.url));
    // The refresh token was changed with it, and the new one is what is kept.
    desk.pass(3600);
    assert_ne!(desk.another_process().bearer().await.unwrap(), renewed);
}

#[tokio::test]
async fn not_everybody_at_the_same_moment() {
    let stand = Stand::start().await;
    let mut times = HashSet::new();
    for _ in 0..12 {
        let desk = Desk::at(&stand);
        desk.sign_in(None).await.unwrap();
        let kept: serde_json::Value = serde_json::from_str(&desk.kept(Kind::Tokens).await.unwrap()).unwrap();
        let at = kept["renew_at"].as_u64().unwrap() - 1_800_000_000;
        assert!((3600 - 450..=3600 - 300).contains(&at), "{at}");
        times.insert(at);
    }
    assert!(times.len() > 1, "{times:?}");
}

#[tokio::test]
async fn one_renews_and_nobody_else_waits() {
    let (stand, desk, token) = signed_in().await;
    let desk = Arc::new(desk);
    desk.pass(3600 - 100);
    // The token endpoint takes its time.
    stand.gate.forget_permits(usize::MAX);
    let first = tokio::spawn({
        let desk = desk.clone();
        async move { desk.bearer().await }
    });
    while stand.asked("/token").len() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..50 {
        assert_eq!(desk.bearer().await.as_deref(), Some(token.as_str()));
    }
    stand.gate.add_permits(1);
    let renewed = first.await.unwrap().unwrap();
    assert_ne!(renewed, token);
    assert_eq!(desk.bearer().await, Some(renewed));
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn when_it_is_over_all_wait_for_one() {
    let (stand, desk, token) = signed_in().await;
    let desk = Arc::new(desk);
    desk.pass(4000);
    stand.gate.forget_permits(usize::MAX);
    let all: Vec<_> = (0..50)
        .map(|_| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.bearer().await.unwrap() })
        })
        .collect();
    while stand.asked("/token").len() < 2 {
        tokio::task::yield_now().await;
    }
    stand.gate.add_permits(50);
    let mut found = HashSet::new();
    for one in all {
        found.insert(one.await.unwrap());
    }
    assert_eq!(found.len(), 1);
    assert!(!found.contains(&token));
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn while_nobody_answers_a_good_token_is_used() {
    let (stand, desk, token) = signed_in().await;
    stand.odd("/token", Odd::Answer(503, vec![], String::new()));
    desk.pass(3600 - 100);
    for _ in 0..5 {
        assert_eq!(desk.bearer().await.as_deref(), Some(token.as_str()));
    }
    assert_eq!(stand.asked("/token").len(), 2, "and it is not asked at every turn");
    desk.pass(60);
    desk.bearer().await.unwrap();
    assert_eq!(stand.asked("/token").len(), 3);
    // A token that is over is no token, and that is no reason to have somebody sign in again.
    desk.pass(100);
    assert!(matches!(desk.try_bearer().await, Err(AuthError::Unreachable { .. })));
    assert!(desk.kept(Kind::Tokens).await.is_some());
    let asked = stand.asked("/token").len();
    assert!(matches!(desk.try_bearer().await, Err(AuthError::Unreachable { .. })));
    assert_eq!(stand.asked("/token").len(), asked);
    stand.set(|world| world.odd.clear());
    desk.pass(60);
    assert!(desk.bearer().await.is_some());
}

#[tokio::test]
async fn what_cannot_be_renewed_ends() {
    let (stand, desk, token) = signed_in().await;
    stand.set(|world| world.refresh.clear());
    desk.pass(3600 - 100);
    assert_eq!(desk.bearer().await.as_deref(), Some(token.as_str()));
    assert!(matches!(desk.auth.status(&desk.server).await.unwrap(), Status::SignedIn { renews: false, .. }));
    desk.pass(100);
    assert_eq!(desk.bearer().await, None);
    assert_eq!(desk.auth.status(&desk.server).await.unwrap(), Status::SignedOut);
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn another_process_may_have_been_faster() {
    let (stand, desk, _) = signed_in().await;
    let other = desk.another_process();
    desk.pass(3600);
    let renewed = other.bearer().await.unwrap();
    // What this one remembers is over, and its refresh token is used up; what is kept counts.
    assert_eq!(desk.bearer().await, Some(renewed));
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once() {
    let (stand, desk, token) = signed_in().await;
    desk.pass(60);
    stand.set(|world| world.good.clear());
    assert_eq!(refused(&desk, &token, Some("Bearer error=\"invalid_token\"")).await, Refusal::Renewed);
    let second = desk.bearer().await.unwrap();
    assert_ne!(second, token);
    // Another request was under way with the first one.
    assert_eq!(refused(&desk, &token, None).await, Refusal::Renewed);
    assert_eq!(desk.bearer().await.as_deref(), Some(second.as_str()));
    // The new one is no better: that is no loop.
    assert_eq!(refused(&desk, &second, None).await, Refusal::SignIn { scopes: vec![] });
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn nothing_to_renew_with_means_a_person() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    assert_eq!(
        desk.auth.refused(&desk.server, None, Some("Bearer scope=\"a b\""), &desk.settings).await.unwrap(),
        Refusal::SignIn { scopes: vec!["a".into(), "b".into()] }
    );
    stand.set(|world| world.gives_refresh = false);
    desk.sign_in(None).await.unwrap();
    let token = desk.bearer().await.unwrap();
    desk.pass(60);
    assert_eq!(refused(&desk, &token, None).await, Refusal::SignIn { scopes: vec![] });
}

#[tokio::test]
async fn a_step_up_asks_a_person_for_what_is_missing() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    desk.sign_in(Some("Bearer scope=\"read\"")).await.unwrap();
    let token = desk.bearer().await.unwrap();
    let header = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    assert_eq!(refused(&desk, &token, Some(header)).await, Refusal::SignIn { scopes: vec!["write".into()] });
    // For what it is good for it is still used, and what is missing is known.
    assert_eq!(desk.bearer().await.as_deref(), Some(token.as_str()));
    let Status::SignedIn { missing, scopes, .. } = desk.auth.status(&desk.server).await.unwrap() else { panic!() };
    assert_eq!((missing, scopes), (vec!["write".to_owned()], vec!["read".to_owned()]));
    // Also by who begins without a challenge, and after a renewal.
    desk.pass(3600);
    desk.bearer().await.unwrap();
    desk.sign_in(None).await.unwrap();
    assert_eq!(stand.asked("/authorize")[1].form["scope"], "read write");
    let Status::SignedIn { missing, .. } = desk.auth.status(&desk.server).await.unwrap() else { panic!() };
    assert!(missing.is_empty());
    // If that was not enough, it never is.
    let token = desk.bearer().await.unwrap();
    assert_eq!(refused(&desk, &token, Some(header)).await, Refusal::NotAllowed { scopes: vec!["write".into()] });
}

#[tokio::test]
async fn odd_lifetimes_do_no_harm() {
    for (life, over_after) in [
        (json!("3600"), Some(3600)),
        (json!(1.5), Some(1)),
        (json!(0), Some(0)),
        (json!(-5), Some(0)),
        (json!(1e300), None),
        (json!(u64::MAX), None),
        (json!(null), None),
        (json!("soon"), None),
    ] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        stand.set(|world| {
            world.expires_in = life.clone();
            world.gives_refresh = false;
        });
        desk.sign_in(None).await.unwrap();
        match over_after {
            Some(seconds) => {
                desk.pass(seconds);
                assert_eq!(desk.bearer().await, None, "{life}");
            }
            None => {
                desk.pass(1_000_000);
                assert!(desk.bearer().await.is_some(), "{life}");
            }
        }
    }
}

#[tokio::test]
async fn a_connection_asks_and_is_told() {
    let (stand, desk, token) = signed_in().await;
    let tokens = desk.auth.tokens(desk.server.clone(), desk.settings.clone());
    assert_eq!(tokens.bearer().await, Some(token.clone()));
    desk.pass(60);
    stand.set(|world| world.good.clear());
    assert!(tokens.refused(None).await);
    let second = tokens.bearer().await.unwrap();
    assert_ne!(second, token);
    // A request that was under way with the first token comes back only now. It is worth repeating with the second.
    assert!(tokens.refused(None).await);
    assert_eq!(tokens.bearer().await, Some(second));
    assert!(!tokens.refused(Some("Bearer error=\"insufficient_scope\", scope=\"more\"".into())).await);
    assert!(matches!(tokens.verdict(), Some(Ok(Refusal::SignIn { .. }))));
    assert_eq!(stand.asked("/token").len(), 2);
}

#[tokio::test]
async fn who_gives_up_half_way_does_not_take_the_new_token_along() {
    let (stand, desk, token) = signed_in().await;
    desk.pass(4000);
    stand.gate.forget_permits(usize::MAX);
    let (auth, server, settings) = (desk.auth.clone(), desk.server.clone(), desk.settings.clone());
    let waiting = tokio::spawn(async move { auth.bearer(&server, &settings).await });
    while stand.asked("/token").len() < 2 {
        tokio::task::yield_now().await;
    }
    // The call that wanted it is cancelled, while the authorization server has used up the refresh token.
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    stand.gate.add_permits(1);
    let renewed = desk.bearer().await.unwrap();
    assert_ne!(renewed, token);
    assert_eq!(stand.asked("/token").len(), 2);
    assert!(desk.kept(Kind::Tokens).await.unwrap().contains(&renewed));
}

#[tokio::test]
async fn a_browser_that_goes_away_does_not_take_the_tokens_along() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    stand.gate.forget_permits(usize::MAX);
    let auth = desk.auth.clone();
    let waiting = tokio::spawn(async move { auth.finish(&"local".parse().unwrap(), "me", callback).await });
    while stand.asked("/token").is_empty() {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    stand.gate.add_permits(1);
    while desk.kept(Kind::Tokens).await.is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_kept_is_not_lost() {
    let (stand, desk, token) = signed_in().await;
    desk.pass(4000);
    desk.keeper.full.store(true, Ordering::SeqCst);
    assert!(matches!(desk.try_bearer().await, Err(AuthError::Keeper(_))));
    // It is told once; the token is there.
    let renewed = desk.bearer().await.unwrap();
    assert_ne!(renewed, token);
    // What is kept has a refresh token that is used up, and is not what counts.
    desk.keeper.full.store(false, Ordering::SeqCst);
    desk.pass(4000);
    let again = desk.bearer().await.unwrap();
    assert!(again != renewed && desk.kept(Kind::Tokens).await.unwrap().contains(&again));
    assert_eq!(stand.asked("/token").len(), 3);
}

#[tokio::test]
async fn what_cannot_be_read_any_more_is_as_good_as_nothing() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for kind in [Kind::Tokens, Kind::Client, Kind::SignIn] {
        let slot = Slot { org: "local".parse().unwrap(), server: desk.server.key.clone(), kind };
        desk.keeper.save(&slot, b"{\"of\":\"another version\"}".to_vec()).await.unwrap();
    }
    assert_eq!(desk.bearer().await, None);
    assert_eq!(desk.auth.status(&desk.server).await.unwrap(), Status::SignedOut);
    desk.sign_in(None).await.unwrap();
    assert!(desk.bearer().await.is_some());
}

#[tokio::test]
async fn a_machine_that_gets_no_answer_does_not_ask_at_every_turn() {
    let stand = Stand::start().await;
    let mut desk = Desk::at(&stand);
    let proof = Proof::Secret(Secret::new("oil"));
    desk.settings.registered = Some(RegisteredClient { id: "robot".into(), proof, issuer: None });
    desk.settings.grant = Grant::Machine;
    stand.set(|world| world.clients.insert("robot".into(), Some("oil".into())));
    stand.odd("/token", Odd::Answer(500, vec![], String::new()));
    for _ in 0..5 {
        assert!(matches!(desk.try_bearer().await, Err(AuthError::Unreachable { .. })));
    }
    assert_eq!(stand.asked("/token").len(), 1);
    stand.set(|world| world.odd.clear());
    desk.pass(60);
    assert!(desk.bearer().await.is_some());
}
