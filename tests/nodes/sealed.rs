//! The seal by which nodes know each other is good for one node, one request, and a moment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_model::Secret;
use kitbag_testkit::{Answer, Server};
use kitbag_vault::Vault;
use reqwest::Method;

use crate::kit::{Installation, MASTER_KEY, begin, new_chat, nodes};

const PING: &str = "/internal/nodes/ping";

/// Makes seals as nodes do.
struct Seals {
    vault: Vault,
    _folder: tempfile::TempDir,
}

impl Seals {
    fn new(key: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::open(folder.path(), Some(&Secret::new(key.to_owned()))).unwrap();
        Self { vault, _folder: folder }
    }

    /// A seal that was made so many seconds ago, or will be.
    fn seal(&self, target: &str, method: &Method, path: &str, age: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let at = match u64::try_from(age) {
            Ok(age) => now - Duration::from_secs(age),
            Err(_) => now + Duration::from_secs(age.unsigned_abs()),
        };
        let plain = format!("{} somebody ", at.as_millis());
        URL_SAFE_NO_PAD.encode(self.vault.seal(&["node", target, method.as_str(), path], plain.as_bytes()))
    }
}

async fn names(installation: &Installation) -> Vec<String> {
    installation.database.texts("SELECT id FROM nodes ORDER BY id").await
}

/// Asks with a seal.
async fn ask(server: &Server, method: Method, path: &str, seal: &str) -> Answer {
    Answer::of(server.anonymous(method, path).header("x-kitbag-node", seal)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_overheard_is_good_for_nothing_else() {
    let (installation, [first, second]) = nodes::<2>().await;
    let names = names(&installation).await;
    let seals = Seals::new(MASTER_KEY);
    // Ids grow: the first came first.
    let good = seals.seal(&names[0], &Method::GET, PING, 0);
    ask(&first, Method::GET, PING, &good).await.expect(204);
    let chat = new_chat(&first).await;
    let begun = begin(&first, &chat, "sleep 600").await;
    let call = begun.rsplit('/').next().unwrap();
    let cancel = format!("/internal/nodes/cancel-call?org=local&chat={chat}&call={call}");
    let refused = [
        ("another node", ask(&second, Method::GET, PING, &good).await),
        ("another path", ask(&first, Method::GET, "/internal/nodes/servers?org=local", &good).await),
        ("another query", ask(&first, Method::GET, &format!("{PING}?org=local"), &good).await),
        ("another method", ask(&first, Method::POST, &cancel, &good).await),
        ("a client's request", ask(&first, Method::GET, "/v1/orgs/local/chats", &good).await),
    ];
    for (what, answer) in refused {
        assert_eq!(answer.status, 403, "{what}: {answer:?}");
    }
    // By whichever clock is ahead; half a minute is what clocks may differ by.
    for (age, status) in [(30, 204), (-30, 204), (90, 403), (-90, 403)] {
        let seal = seals.seal(&names[0], &Method::GET, PING, age);
        assert_eq!(ask(&first, Method::GET, PING, &seal).await.status, status, "made {age} seconds ago");
    }
    let foreign = Seals::new(&MASTER_KEY.replace('6', "7")).seal(&names[0], &Method::GET, PING, 0);
    ask(&first, Method::GET, PING, &foreign).await.expect_error(403, "FORBIDDEN");
    // With the one that it needs, it is done.
    assert_eq!(first.get(&begun).await.expect(200)["status"], "running");
    let seal = seals.seal(&names[0], &Method::POST, &cancel, 0);
    let done = ask(&first, Method::POST, &cancel, &seal).await;
    assert!(done.status.is_success(), "{done:?}");
    assert_eq!(crate::kit::over(&first, &begun).await["error"]["code"], "CANCELLED");
}
