//! Pairing, as whoever looks after the machine does it.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::machine::Bench;
use crate::stand_in::{PAIRING, StandIn};

fn answer(output: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 1, "one line, and nothing else: {output:?}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_machine_is_paired_once_and_says_with_whom() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let paired = bench.run(&["pair", PAIRING, "--server", server.url(), "--name", "the lab", "--json"]).await;
    assert_eq!(paired.status.code(), Some(0), "{paired:?}");
    assert_eq!(answer(&paired)["organizationId"], "acme");
    assert_eq!(server.seen().paired[0]["name"], "the lab");
    let file = bench.place().credentials();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for name in ["server", "executorId", "executorToken", "organizationId", "gatewayWsUrl"] {
        assert!(kept[name].is_string(), "{name}: {kept}");
    }
    let again = bench.run(&["pair", PAIRING, "--server", server.url()]).await;
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(1));
    assert!(told.contains(server.url()) && told.contains("acme") && told.contains("--replace"), "{told}");
    let replaced = bench.run(&["pair", PAIRING, "--server", server.url(), "--replace"]).await;
    assert_eq!(replaced.status.code(), Some(0), "{replaced:?}");
    assert!(!String::from_utf8_lossy(&replaced.stdout).contains("token"), "{replaced:?}");
    let status = bench.run(&["status", "--json"]).await;
    let status = answer(&status);
    assert_eq!(status["paired"]["server"], server.url());
    assert_eq!((&status["running"], &status["unsent"]), (&Value::Bool(false), &Value::Array(Vec::new())));
    let codex = status["engines"].as_array().unwrap().iter().find(|engine| engine["id"] == "gateway.codex.v2").unwrap();
    assert_eq!(codex["version"], "0.166.0");
    let missing = status["engines"].as_array().unwrap().iter().filter(|engine| engine["missing"].is_string());
    assert!(missing.count() > 0);
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", nobody.local_addr().unwrap());
    let secure = server.url().replace("http", "https");
    for (args, exit, code, word) in [
        (vec!["pair", "org.wrong", "--server", server.url()], 1, "PAIRING_TOKEN_INVALID", "new one"),
        (vec!["pair", "org.old", "--server", server.url()], 2, "PAIRING_TOKEN_EXPIRED", "expired"),
        (vec!["pair", PAIRING], 2, "BAD_REQUEST", "--server"),
        (vec!["pair", PAIRING, "--server", "kitbag"], 2, "BAD_REQUEST", "https://"),
        (vec!["pair", PAIRING, "--server", &nobody], 1, "FAILED", "127.0.0.1"),
        (vec!["pair", PAIRING, "--server", &secure], 1, "FAILED", "cannot be reached"),
        (vec!["pair", PAIRING, "--server", &format!("{}/elsewhere", server.url())], 1, "FAILED", "404"),
        (vec!["pair", "", "--server", server.url()], 2, "BAD_REQUEST", "empty"),
        (vec!["start"], 1, "NOT_PAIRED", "pair"),
    ] {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let output = bench.run(&args).await;
        let told = answer(&output);
        assert_eq!((output.status.code(), told["code"].as_str()), (Some(exit), Some(code)), "{args:?}: {told}");
        assert!(told["message"].as_str().unwrap().contains(word), "{args:?}: {told}");
    }
    assert!(!bench.place().credentials().exists());
}

#[tokio::test]
async fn the_server_of_the_data_folder_is_found() {
    let (bench, server) = (Bench::new(), StandIn::start().await);
    std::fs::create_dir_all(bench.data()).unwrap();
    let announced = serde_json::json!({ "url": server.url(), "token": "x", "pid": 1 });
    std::fs::write(bench.data().join("server.json"), announced.to_string()).unwrap();
    let paired = bench.run(&["pair", PAIRING]).await;
    assert!(paired.status.success(), "{paired:?}");
    assert!(!server.seen().paired[0]["name"].as_str().unwrap().is_empty());
}
