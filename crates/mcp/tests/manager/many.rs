//! Many at once: nobody waits for the slowest, and equals share.

use std::time::Duration;

use kitbag_mcp::manager::{Configured, Start, Status};
use kitbag_model::OrgId;
use serde_json::json;

use crate::kit::{Kit, call, count, key, known, lives};

#[tokio::test(flavor = "multi_thread")]
async fn fifty_of_which_one_hangs() {
    let mut kit = Kit::new(|settings| {
        settings.starts = 4;
        settings.place = Duration::from_millis(500);
    });
    let names: Vec<String> = (0..50).map(|n| format!("app~s{n:02}")).collect();
    let servers: Vec<Configured> = names
        .iter()
        .map(|name| {
            let flags: &[&str] = if name == "app~s07" { &["--hang", name] } else { &["--name", name] };
            kit.twin(name, flags)
        })
        .collect();
    kit.configure(&servers.iter().collect::<Vec<_>>());
    // Nothing was waited for: all are there, and none can be connected yet, as nothing else had a turn on this thread.
    let states = kit.manager.states(&kit.org);
    assert_eq!(states.len(), 50);
    let mut waiting: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "app~s07").collect();
    while !waiting.is_empty() {
        let told = kit.next().await;
        if let kitbag_mcp::manager::Change::Status { key: of, status: Status::Connected, .. } = told {
            waiting.retain(|name| key(name) != of);
        }
    }
    for state in kit.manager.states(&kit.org) {
        if state.key == key("app~s07") {
            assert_eq!((state.status, state.live, state.tools.len()), (Status::Connecting, false, 0));
        } else {
            assert!(state.live && state.tools.len() > 5 && state.pid.is_some(), "{state:?}");
        }
    }
    assert_eq!(kit.call("app~s49", "echo", json!({ "text": "hello" })).await.unwrap(), "hello");
    kit.manager.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_gives_its_place_back() {
    let mut kit = Kit::new(|settings| {
        settings.starts = 1;
        settings.place = Duration::from_millis(100);
    });
    kit.configure(&[&kit.twin("app~a", &["--hang"]), &kit.twin("app~b", &[])]);
    kit.until("app~b", Status::Connected).await;
    assert_eq!(kit.state("app~a").status, Status::Connecting);
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_launches_of_one_organisation_share_a_connection() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    let flags = ["--starts", starts.to_str().unwrap()];
    kit.values.set(&kit.org, "WHERE", starts.to_str().unwrap());
    let (a, b) = (kit.twin("app~a", &flags), kit.twin("other~b", &["--starts", "${WHERE}"]));
    let different = kit.twin("app~c", &["--starts", starts.to_str().unwrap(), "--different"]);
    let elsewhere = Configured { folder: Some(kit.folder.path().to_owned()), ..kit.twin("app~d", &flags) };
    kit.configure(&[&a, &b, &different, &elsewhere]);
    for name in ["app~a", "other~b", "app~c", "app~d"] {
        kit.manager.settled(&kit.org, &key(name), crate::kit::NEVER).await;
        assert_eq!(kit.state(name).status, Status::Connected, "{name}");
    }
    let shared = kit.pid("app~a").await;
    assert_eq!(kit.pid("other~b").await, shared);
    assert_ne!(kit.pid("app~c").await, shared);
    assert_ne!(kit.pid("app~d").await, shared);
    assert_eq!(count(&starts), 3);
    // Another organisation has its own, whatever it is.
    let other: OrgId = "other".parse().unwrap();
    kit.manager.configure(&other, vec![Configured { org: other.clone(), ..a.clone() }]);
    let theirs: i32 = call(&kit.manager, &other, "app~a", "pid", json!({})).await.unwrap().parse().unwrap();
    assert_ne!(theirs, shared);
    // It ends with the last that needs it.
    kit.configure(&[&b]);
    assert_eq!(kit.pid("other~b").await, shared);
    assert!(kit.manager.state(&kit.org, &key("app~a")).is_none());
    kit.configure(&[]);
    kit.manager.shut_down().await;
    assert!(!lives(shared) && !lives(theirs));
    assert_eq!(count(&starts), 4);
    kit.told();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_again_changes_nothing() {
    let mut kit = Kit::new(|_| ());
    let starts = kit.starts("starts");
    let server = kit.twin("app~a", &["--starts", starts.to_str().unwrap()]);
    kit.configure(&[&server]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    kit.told();
    kit.configure(&[&server]);
    let learned = Configured { known: vec![crate::kit::known("x")], ..server };
    kit.configure(&[&learned]);
    assert_eq!(kit.pid("app~a").await, pid);
    assert!(kit.told().is_empty());
    assert!(kit.state("app~a").tools.len() > 1, "what is live wins");
    assert_eq!(count(&starts), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_done_to_them_in_whatever_order_they_are_as_wanted_in_the_end() {
    let mut kit = Kit::new(|settings| {
        settings.idle = Some(Duration::from_millis(30));
        settings.backoff.longest = Duration::from_millis(50);
        settings.wait = Duration::from_millis(200);
    });
    let names = ["app~a", "app~b", "app~c", "app~d"];
    let variants: Vec<Configured> = names
        .iter()
        .flat_map(|name| {
            let (one, other) = (kit.twin(name, &[]), kit.twin(name, &["--other"]));
            let lazy = Configured { start: Start::Lazily, known: vec![known("pid")], ..one.clone() };
            let off = Configured { enabled: false, ..one.clone() };
            let crashing = kit.twin(name, &["--crash"]);
            [one, other, lazy, off, crashing]
        })
        .collect();
    let mut calls = tokio::task::JoinSet::new();
    // Always the same order, but one that nobody would think of.
    let mut random = 12_345_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..150 {
        let name = names[next(names.len())];
        match next(5) {
            0 | 1 => {
                let wanted: Vec<_> = (0..names.len()).filter_map(|n| variants.chunks(5).nth(n)?.get(next(6))).collect();
                kit.configure(&wanted);
            }
            2 => drop(kit.manager.reconnect(&kit.org, &key(name))),
            3 => drop(kit.manager.disconnect(&kit.org, &key(name))),
            _ => {
                let (manager, org) = (kit.manager.clone(), kit.org.clone());
                calls.spawn(async move { drop(call(&manager, &org, name, "pid", json!({})).await) });
            }
        }
        tokio::time::sleep(Duration::from_millis(next(8) as u64)).await;
    }
    while calls.join_next().await.is_some() {}
    kit.configure(&[]);
    let wanted: Vec<_> = variants.chunks(5).map(|variants| &variants[1]).collect();
    kit.configure(&wanted);
    let mut pids = Vec::new();
    for name in names {
        let state = kit.manager.settled(&kit.org, &key(name), crate::kit::NEVER).await.unwrap();
        assert_eq!(state.status, Status::Connected, "{state:?}");
        pids.push(state.pid);
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "they are equal, so they share");
    kit.manager.shut_down().await;
    kit.told();
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_ends_the_whole_tree() {
    let mut kit = Kit::new(|_| ());
    kit.configure(&[&kit.twin("app~a", &[])]);
    kit.until("app~a", Status::Connected).await;
    let pid = kit.pid("app~a").await;
    let child: i32 = kit.call("app~a", "spawn", json!({})).await.unwrap().parse().unwrap();
    assert!(lives(pid) && lives(child));
    kit.manager.shut_down().await;
    assert!(!lives(pid) && !lives(child));
    assert_eq!(kit.until("app~a", Status::Disconnected).await, "it is not needed any more");
    kit.configure(&[&kit.twin("app~b", &[])]);
    assert!(kit.manager.state(&kit.org, &key("app~b")).is_none(), "nothing is connected afterwards");
}
