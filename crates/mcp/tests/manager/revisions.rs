//! The revision of the protocol that was agreed on: remembered, told, and forgotten.

use std::path::Path;

use kitbag_mcp::manager::{Change, Configured, Status};

use crate::kit::{Kit, count, key, kill, questions};

fn twin(kit: &Kit, methods: &Path, more: &[&str]) -> Configured {
    let flags = [&["--methods", methods.to_str().unwrap()], more].concat();
    kit.twin("app~a", &flags)
}

/// What was told about revisions until the server was connected.
async fn agreed(kit: &mut Kit) -> Vec<Change> {
    let mut agreed = Vec::new();
    loop {
        match kit.next().await {
            told @ Change::Agreed { .. } => agreed.push(told),
            Change::Status { status: Status::Connected, .. } => return agreed,
            Change::Status { .. } | Change::Tools { .. } | Change::Told { .. } => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_agreed_on_is_told_and_kept_for_the_next_connection() {
    let mut kit = Kit::new(|_| ());
    let methods = kit.starts("methods");
    let server = twin(&kit, &methods, &[]);
    kit.configure(&[&server]);
    let told = agreed(&mut kit).await;
    let [Change::Agreed { org, key: of, launch, revision, offers }] = &told[..] else { panic!("{told:?}") };
    assert_eq!((org, of, revision.as_str()), (&kit.org, &key("app~a"), "2025-11-25"));
    assert_eq!(*offers, ["logging", "tools"]);
    assert_eq!(*launch, server.launch.fingerprint());
    kill(kit.pid("app~a").await);
    assert!(agreed(&mut kit).await.is_empty(), "nothing is new");
    assert_eq!(questions(&methods), ["server/discover", "initialize", "initialize"]);
    // Whoever connects it by hand wants to know.
    kit.manager.reconnect(&kit.org, &key("app~a")).unwrap();
    assert!(agreed(&mut kit).await.is_empty());
    assert_eq!(questions(&methods)[3..], ["server/discover", "initialize"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_configuration_remembers_is_used() {
    let mut kit = Kit::new(|_| ());
    let methods = kit.starts("methods");
    let offers = Some(vec!["logging".to_owned(), "tools".to_owned()]);
    let server = Configured { revision: Some("2025-11-25".to_owned()), offers, ..twin(&kit, &methods, &[]) };
    kit.configure(&[&server]);
    assert!(agreed(&mut kit).await.is_empty(), "it is remembered");
    assert_eq!(questions(&methods), ["initialize"]);
    // Another of the same connection, for which it is not.
    kit.configure(&[&server, &Configured { key: key("app~b"), revision: None, ..server.clone() }]);
    assert!(matches!(&agreed(&mut kit).await[..], []));
    assert!(matches!(kit.next().await, Change::Tools { .. }));
    assert!(matches!(kit.next().await, Change::Agreed { key: of, .. } if of == key("app~b")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_did_not_hold_is_forgotten_at_the_next_try() {
    let mut kit = Kit::new(|_| ());
    let (methods, starts) = (kit.starts("methods"), kit.starts("starts"));
    let server = twin(&kit, &methods, &["--timid", "--starts", starts.to_str().unwrap()]);
    kit.configure(&[&Configured { revision: Some("2026-07-28".to_owned()), ..server }]);
    let told = agreed(&mut kit).await;
    assert!(matches!(&told[..], [Change::Agreed { revision, .. }] if revision == "2025-11-25"), "{told:?}");
    assert_eq!(questions(&methods), ["server/discover", "server/discover", "initialize"]);
    assert_eq!(count(&starts), 3);
}
