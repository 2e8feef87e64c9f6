//! Secrets of an organisation: given, replaced and forgotten, never read; and sealed anew when the master key is another.

use std::fs;

use kitbag_testkit::{Program, Server, TestDatabase, on_both};
use serde_json::json;

use crate::browsers::{invited, owner};
use crate::{BINARY, serve};

const SECRETS: &str = "/v1/orgs/acme/secrets";
const VALUE: &str = "sk-ant-a-value-that-nobody-must-see";

/// The names and bytes of what organisations gave.
async fn sealed(database: &TestDatabase) -> Vec<(String, Vec<u8>)> {
    let all = database.sealed().await.into_iter();
    all.filter(|(kind, ..)| kind == "organization").map(|(_, name, bytes)| (name, bytes)).collect()
}

on_both! {
    async fn secrets_are_given_and_never_read(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        let member = invited(&ada, "acme", "member@acme.example", "member").await;
        let anthropic = format!("{SECRETS}/llm.anthropic");
        assert_eq!(ada.get(SECRETS).await.expect(200), json!({ "items": [], "nextCursor": null }));
        ada.delete(&anthropic).await.expect_error(404, "NOT_FOUND");
        for wrong in ["", " x", "x\n", "schlüssel", &"x".repeat(4097)] {
            let refused = ada.put(&anthropic, json!({ "value": wrong })).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert!(wrong.trim().len() < 2 || !refused.body.to_string().contains(wrong.trim()), "{refused:?}");
        }
        ada.put(&anthropic, json!({ "value": VALUE, "more": 1 })).await.expect_error(400, "BAD_REQUEST");
        let unknown = ada.put(&format!("{SECRETS}/llm.nobody"), json!({ "value": VALUE })).await;
        unknown.expect_error(404, "NOT_FOUND");
        assert!(unknown.body["message"].as_str().unwrap().contains("llm.openai"), "{unknown:?}");
        member.get(SECRETS).await.expect_error(403, "FORBIDDEN");
        member.put(&anthropic, json!({ "value": VALUE })).await.expect_error(403, "FORBIDDEN");

        ada.put(&anthropic, json!({ "value": VALUE })).await.expect(204);
        ada.put(&format!("{SECRETS}/llm.openai"), json!({ "value": "another" })).await.expect(204);
        bob.put("/v1/orgs/bolt/secrets/llm.anthropic", json!({ "value": "theirs" })).await.expect(204);
        let listed = ada.get(SECRETS).await.expect(200);
        let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["llm.anthropic", "llm.openai"]);
        assert!(listed["items"][0]["updatedBy"].as_str().unwrap().starts_with("owner@acme.example (user "), "{listed}");
        let part = ada.get(&format!("{SECRETS}?limit=1")).await.expect(200);
        let next = part["nextCursor"].as_str().unwrap();
        let rest = ada.get(&format!("{SECRETS}?limit=1&cursor={next}")).await.expect(200);
        assert_eq!((&rest["items"][0]["name"], &rest["nextCursor"]), (&json!("llm.openai"), &json!(null)));

        let kept = sealed(&database).await;
        assert_eq!(kept.len(), 3);
        assert!(kept.iter().all(|(_, bytes)| !bytes.windows(6).any(|part| part == &VALUE.as_bytes()[..6])));
        ada.put(&anthropic, json!({ "value": "replaced" })).await.expect(204);
        ada.delete(&format!("{SECRETS}/llm.openai")).await.expect(204);
        assert_eq!(sealed(&database).await.len(), 2);
        let store = database.open().await;
        let lines = store.read(&"acme".parse().unwrap()).await.unwrap().audit_trail(10).await.unwrap();
        let told: Vec<_> = lines.iter().map(|line| (line.action.as_str(), line.subject.as_str())).take(4).collect();
        assert_eq!(told, [
            ("secret.deleted", "llm.openai"), ("secret.set", "llm.anthropic"), ("secret.set", "llm.openai"), ("secret.set", "llm.anthropic"),
        ]);
        assert!(!format!("{lines:?}").contains(VALUE) && !server.log().contains(VALUE));
    }

    async fn a_new_master_key_takes_over(database: TestDatabase) {
        let key_file = database.data().join("master.key");
        let program = Program::on(BINARY, &database);
        let reseal = || program.run(&["admin", "reseal", "--json"]);
        let server = serve(&database);
        for org in ["acme", "bolt"] {
            let path = format!("/v1/orgs/{org}/secrets/llm.anthropic");
            owner(&server, org).await.put(&path, json!({ "value": VALUE })).await.expect(204);
        }
        let old = fs::read_to_string(&key_file).unwrap();
        let before = sealed(&database).await;
        let nothing = reseal();
        assert_eq!((nothing.code, nothing.json()["resealed"].clone()), (Some(0), json!(0)), "{}", nothing.stderr);

        // A server that does not know the new key cannot seal with it, and says so.
        let new = "0123456789abcdef".repeat(4);
        fs::write(&key_file, format!("# the new one\n{new}\n{old}")).unwrap();
        let early = reseal();
        assert_eq!(early.code, Some(1), "{}", early.stdout);
        assert!(early.stderr.contains("start it again") || early.stdout.contains("start it again"), "{}{}", early.stdout, early.stderr);
        drop(server);

        let done = reseal();
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
        assert_eq!((&done.json()["resealed"], &done.json()["all"]), (&json!(2), &json!(2)));
        let after = sealed(&database).await;
        assert!(before.iter().zip(&after).all(|(old, new)| old.1[..9] != new.1[..9]), "each names another key");
        assert_eq!(reseal().json()["resealed"], 0, "there is nothing left to do");

        // The old key is needed no more: whatever is sealed opens without it.
        fs::write(&key_file, format!("{new}\n")).unwrap();
        let alone = reseal();
        assert_eq!((alone.code, alone.json()["all"].clone()), (Some(0), json!(2)), "{}", alone.stderr);
        let server = serve(&database);
        server.post("/v1/orgs/local/server/reseal", &json!({})).await.expect(200);
        drop(server);

        fs::write(&key_file, old).unwrap();
        let wrong = reseal();
        assert_eq!(wrong.code, Some(1));
        let told = format!("{}{}", wrong.stdout, wrong.stderr);
        assert!(told.contains("organization llm.anthropic of acme: it was sealed with the master key"), "{told}");
        assert_eq!(sealed(&database).await, after, "what does not open is left alone");
    }

    async fn only_the_operator_reseals(database: TestDatabase) {
        let server = Server::start(BINARY, &database, &[]);
        let ada = owner(&server, "acme").await;
        ada.post("/v1/orgs/acme/server/reseal", json!({})).await.expect_error(403, "FORBIDDEN");
        ada.post("/v1/orgs/acme/server/retain", json!({})).await.expect_error(403, "FORBIDDEN");
        ada.post("/v1/orgs/local/server/reseal", json!({})).await.expect_error(404, "NOT_FOUND");
    }
}
