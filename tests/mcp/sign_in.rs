//! A server that wants somebody to sign in: the link, the way back, tokens that nobody reads, and the way out.

use std::path::Path;
use std::process::Stdio;

use kitbag_testkit::database::add_token;
use kitbag_testkit::{Answer, Program, Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::kit::{TOOLS, add, ask, at, connected, new_chat, put, text, tool, until_so, until_status};
use crate::serve;

/// What every token of the stand-in has in it.
const MARK: &str = "0f8fad5bd9cb";

/// The key of a client that signs.
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJ9np+gnI4MyunyXDOCPA3GK2dL08Oud93DPPY15XjYShRANCAAS7xLPt/H1iLNBLZsmSs2pRqVhqumbDsRjnSZESjcc+7fkxHbR1yVM4d0d+rwCi6/Cp5LG32lhR4dpQQviKsWZe
-----END PRIVATE KEY-----
";

/// The server behind the door, and what it was asked.
pub(crate) struct Door {
    pub(crate) url: String,
    folder: TempDir,
    _child: Child,
}

impl Door {
    #[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
    pub(crate) async fn open() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/twins/wants_sign_in.py");
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("python3");
        command.arg(script).arg(folder.path().join("asked")).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        Self { url: format!("http://127.0.0.1:{}/mcp", line.trim()), folder, _child: child }
    }

    /// What it was asked of this kind.
    pub(crate) fn asked(&self, what: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("asked")).unwrap_or_default();
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|one| one["what"] == what).collect()
    }
}

/// A person with a browser, who follows a link to where it ends. The last page.
async fn browse(server: &Server, link: &str) -> String {
    let (mut at, mut cookies) = (link.to_owned(), Vec::new());
    for _ in 0..6 {
        // The page's own cookie comes along to the program; whoever else is asked knows nothing of it.
        let request = match at.strip_prefix(&server.url) {
            Some(path) if path.contains("?ticket=") => server.anonymous(Method::GET, path),
            Some(path) if path.starts_with("/oauth/start/") => server.request(Method::GET, path),
            Some(path) => server.anonymous(Method::GET, path).header("cookie", cookies.join("; ")),
            None => elsewhere(server, &at),
        };
        let answer = request.send().await.unwrap();
        cookies.extend(cookie(&answer));
        match answer.headers().get("location") {
            Some(next) => at = next.to_str().unwrap().to_owned(),
            None => return answer.text().await.unwrap(),
        }
    }
    panic!("{link} leads nowhere");
}

/// The cookie that an answer sets: its name and value.
fn cookie(answer: &reqwest::Response) -> Option<String> {
    let set = answer.headers().get("set-cookie")?.to_str().unwrap();
    Some(set.split(';').next().unwrap().to_owned())
}

/// A request to somebody else.
fn elsewhere(server: &Server, url: &str) -> reqwest::RequestBuilder {
    let (client, request) = server.anonymous(Method::GET, "/").build_split();
    let mut request = request.unwrap();
    *request.url_mut() = url.parse().unwrap();
    reqwest::RequestBuilder::from_parts(client, request)
}

/// Whether a text is in any file below a folder.
fn is_in_files(folder: &Path, word: &str) -> bool {
    let has = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .any(|path| if path.is_dir() { is_in_files(&path, word) } else { has(&path) })
}

on_both! {
    async fn somebody_signs_in_and_out(database: TestDatabase) {
        let door = Door::open().await;
        let server = serve(&database);
        let chat = new_chat(&server).await;
        add(&server, "door", json!({ "url": door.url })).await;
        let shown = until_status(&server, "door", "requires_auth").await;
        let link = shown["authUrl"].as_str().unwrap().to_owned();
        assert_eq!(link, format!("{}/oauth/start/local/door~door", server.url));
        assert!(shown["error"].is_string(), "{shown}");
        ask(&server, &chat, "mcp:door~door:whoami", json!({})).await.expect_error(409, "MCP_SERVER_NOT_CONNECTED");
        // Only who manages sees the link or follows it.
        let user = add_token(&database.open().await, &kitbag_model::OrgId::local(), "use").await;
        let theirs = Answer::of(server.anonymous(Method::GET, &at("door")).bearer_auth(&user)).await.expect(200);
        assert_eq!((&theirs["status"], &theirs["authUrl"]), (&json!("requires_auth"), &Value::Null));
        Answer::of(server.anonymous(Method::GET, "/oauth/start/local/door~door").bearer_auth(&user)).await.expect_error(403, "FORBIDDEN");
        Answer::of(server.anonymous(Method::GET, "/oauth/start/local/door~door")).await.expect_error(401, "UNAUTHORIZED");
        Answer::of(server.anonymous(Method::POST, &format!("{}/sign-in", at("door"))).bearer_auth(&user)).await.expect_error(403, "FORBIDDEN");

        // By the API: what is asked for is shown before anybody goes there.
        let started = server.post(&format!("{}/sign-in", at("door")), &json!({})).await.expect(200);
        assert_eq!((&started["issuer"], &started["scopes"]), (&json!(door.url.trim_end_matches("/mcp")), &json!(["read"])), "{started}");
        let page = browse(&server, started["authorizeUrl"].as_str().unwrap()).await;
        assert!(page.contains("Signed in to door~door"), "{page}");
        let shown = connected(&server, "door").await;
        assert_eq!((&shown["authUrl"], &shown["error"], &shown["toolCount"]), (&Value::Null, &Value::Null, &json!(1)));
        assert_eq!(text(&server, &chat, "mcp:door~door:whoami", json!({})).await, "you are in, whoami");
        assert_eq!(door.asked("register").len(), 1);

        // An answer is good once, and one that nobody asked for is none.
        let forged = server.anonymous(Method::GET, "/oauth/callback/local?state=x&code=y").send().await.unwrap();
        assert_eq!(forged.status(), 400);

        // What is kept is sealed.
        let kept = database.sealed().await;
        assert!(kept.iter().any(|(kind, name, _)| kind == "oauth_tokens" && name == "door~door"), "{kept:?}");
        for (kind, _, sealed) in &kept {
            assert!(!sealed.windows(MARK.len()).any(|window| window == MARK.as_bytes()), "{kind} can be read");
        }
        assert!(!is_in_files(database.data(), MARK), "a token is in a file");
        for path in [at("door"), TOOLS.to_owned()] {
            assert!(!server.get(&path).await.expect(200).to_string().contains(MARK));
        }

        // They outlive the program.
        drop(server);
        let server = serve(&database);
        connected(&server, "door").await;
        assert_eq!(text(&server, &chat, "mcp:door~door:whoami", json!({})).await, "you are in, whoami");
        assert_eq!(door.asked("authorize").len(), 1);

        // Out: the other side is told, and nothing is left here.
        server.delete(&format!("{}/sign-in", at("door"))).await.expect(204);
        until_status(&server, "door", "requires_auth").await;
        assert_eq!(door.asked("revoke").len(), 2, "both tokens are given back");
        // Its tools are known, and not on offer.
        assert_eq!(tool(&server, "mcp:door~door:whoami").await["available"], false);
        let listed = server.get(&format!("{TOOLS}?available=true&limit=200")).await.expect(200);
        assert!(!listed.to_string().contains("mcp:door"), "{listed}");
        ask(&server, &chat, "mcp:door~door:whoami", json!({})).await.expect_error(409, "MCP_SERVER_NOT_CONNECTED");
        assert!(!database.sealed().await.iter().any(|(kind, ..)| kind == "oauth_tokens"));
        // And in again, by the link that the server shows.
        let page = browse(&server, &format!("{}/oauth/start/local/door~door", server.url)).await;
        assert!(page.contains("Signed in"), "{page}");
        connected(&server, "door").await;
        assert_eq!(door.asked("register").len(), 2, "the way back leads to another port now");
    }

    async fn a_sign_in_ends_with_its_server(database: TestDatabase) {
        let door = Door::open().await;
        let server = serve(&database);
        let sign_in = async |id: &str| {
            until_status(&server, id, "requires_auth").await;
            let page = browse(&server, &format!("{}/oauth/start/local/{id}~{id}", server.url)).await;
            assert!(page.contains("Signed in"), "{page}");
            connected(&server, id).await;
        };
        // Under another name it is another server: what was signed for the first is not used for it.
        add(&server, "door", json!({ "url": door.url })).await;
        sign_in("door").await;
        put(&server, &at("door"), json!({ "id": "gate" })).await.expect(200);
        until_status(&server, "gate", "requires_auth").await;
        assert_eq!(database.sealed().await, []);
        until_so("both tokens are given back", || door.asked("revoke").len() == 2).await;
        sign_in("gate").await;
        server.delete(&at("gate")).await.expect(204);
        assert_eq!(database.sealed().await, []);
        until_so("both tokens are given back", || door.asked("revoke").len() == 4).await;
        // One of that name that comes later starts with nothing.
        add(&server, "gate", json!({ "url": door.url })).await;
        until_status(&server, "gate", "requires_auth").await;
        // A toolset that is uninstalled, too.
        sign_in("gate").await;
        server.delete("/v1/orgs/local/toolsets/gate").await.expect(204);
        assert_eq!(database.sealed().await, []);
        until_so("both tokens are given back", || door.asked("revoke").len() == 6).await;
    }

    /// A link with somebody else's answer signs nobody in.
    async fn only_the_browser_that_began_a_sign_in_ends_it(database: TestDatabase) {
        let door = Door::open().await;
        let server = serve(&database);
        add(&server, "door", json!({ "url": door.url })).await;
        until_status(&server, "door", "requires_auth").await;
        // Until the answer is on its way back: where it goes, and with which cookie.
        let begin = async || {
            let started = server.post(&format!("{}/sign-in", at("door")), &json!({})).await.expect(200);
            let link = started["authorizeUrl"].as_str().unwrap().strip_prefix(&server.url).unwrap().to_owned();
            let sent = server.anonymous(Method::GET, &link).send().await.unwrap();
            let set = sent.headers()["set-cookie"].to_str().unwrap().to_owned();
            for word in ["; Path=/oauth/callback/local;", " HttpOnly;", " SameSite=Lax;", " Max-Age=600"] {
                assert!(set.contains(word), "{set}");
            }
            // The link is good once.
            Answer::of(server.anonymous(Method::GET, &link)).await.expect_error(401, "UNAUTHORIZED");
            let page = sent.headers()["location"].to_str().unwrap();
            let back = elsewhere(&server, page).send().await.unwrap().headers()["location"].to_str().unwrap().to_owned();
            (back.strip_prefix(&server.url).unwrap().to_owned(), cookie(&sent).unwrap())
        };
        let (first, others) = begin().await;
        for with in ["", "kitbag=1", &format!("{}=x", others.split('=').next().unwrap())] {
            let (back, _) = if with.is_empty() { (first.clone(), String::new()) } else { begin().await };
            let refused = server.anonymous(Method::GET, &back).header("cookie", with).send().await.unwrap();
            assert_eq!(refused.status(), 400, "{with:?}");
            // It is used up: not even the right one can end it now.
        }
        let late = server.anonymous(Method::GET, &first).header("cookie", &others).send().await.unwrap();
        assert_eq!(late.status(), 400);
        // The cookie of another sign-in, under the name of this one.
        let (back, own) = begin().await;
        let forged = format!("{}={}", own.split('=').next().unwrap(), others.split('=').nth(1).unwrap());
        assert_eq!(server.anonymous(Method::GET, &back).header("cookie", forged).send().await.unwrap().status(), 400);
        assert!(door.asked("token").is_empty(), "no code was used");
        until_status(&server, "door", "requires_auth").await;
        let (back, own) = begin().await;
        let done = server.anonymous(Method::GET, &back).header("cookie", format!("other=1; {own}")).send().await.unwrap();
        assert_eq!(done.status(), 200);
        assert!(done.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        connected(&server, "door").await;
    }

    async fn an_authorization_server_that_is_slow_keeps_nobody_waiting(database: TestDatabase) {
        let door = Door::open().await;
        let server = serve(&database);
        add(&server, "door", json!({ "url": door.url })).await;
        until_status(&server, "door", "requires_auth").await;
        browse(&server, &format!("{}/oauth/start/local/door~door", server.url)).await;
        connected(&server, "door").await;
        let busy = door.folder.path().join("busy");
        std::fs::write(&busy, "").unwrap();
        server.delete(&at("door")).await.expect(204);
        // The first of the two tokens is on its way at the most, and nothing is left here.
        assert!(door.asked("revoke").len() < 2);
        assert_eq!(database.sealed().await, []);
        std::fs::remove_file(busy).unwrap();
        until_so("both tokens are given back", || door.asked("revoke").len() == 2).await;
    }

    async fn what_is_started_has_nothing_to_sign_in_to(database: TestDatabase) {
        let server = serve(&database);
        add(&server, "twin", crate::kit::twin(&[])).await;
        for method in [Method::POST, Method::DELETE] {
            let answer = Answer::of(server.request(method, &format!("{}/sign-in", at("twin")))).await;
            answer.expect_error(409, "CONFLICT");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_command_line() {
    let database = TestDatabase::sqlite();
    let program = Program::on(crate::BINARY, &database);
    let mcp = |args: &[&str]| tokio::task::block_in_place(|| program.run(&[&["mcp"], args].concat()));
    let door = Door::open().await;
    assert_eq!(mcp(&["add", "door", "--url", &door.url]).code, Some(0));
    // The browser needs somewhere to come back to.
    let alone = mcp(&["sign-in", "door"]);
    assert!(alone.code == Some(1) && alone.stderr.contains("kitbag serve"), "{alone:?}");
    let server = serve(&database);
    add(&server, "twin", crate::kit::twin(&[])).await;
    connected(&server, "twin").await;
    until_status(&server, "door", "requires_auth").await;
    let line = |list: &str, of: &str| list.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    let list = mcp(&["list"]).stdout;
    assert!(line(&list, "SERVER").split_whitespace().eq(["SERVER", "STATUS", "TOOLS", "STARTS"]), "{list}");
    assert!(line(&list, "door~door").contains("requires_auth  ?"), "{list}");
    assert!(line(&list, "twin~twin").contains("connected      14"), "{list}");
    let shown = mcp(&["show", "door"]).stdout;
    assert!(shown.contains("requires_auth (the server wants somebody to sign in) since "), "{shown}");
    assert!(shown.contains("/oauth/start/local/door~door"), "{shown}");

    let nobody = mcp(&["sign-in", "door", "--wait", "1"]);
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert!(
        nobody.stderr.contains("signs you in, for: read") && nobody.stderr.contains("nobody signed in"),
        "{nobody:?}"
    );
    let begun = mcp(&["sign-in", "door", "--wait", "0", "--json"]).json();
    browse(&server, begun["authorizeUrl"].as_str().unwrap()).await;
    let done = mcp(&["sign-in", "door"]);
    assert!(done.code == Some(0) && done.stdout.contains("signed in to door~door"), "{done:?}");
    assert!(line(&mcp(&["list"]).stdout, "door~door").contains("connected  1 "));
    let out = mcp(&["sign-out", "door"]);
    assert!(out.code == Some(0) && out.stdout.contains("signed out of door"), "{out:?}");
    until_status(&server, "door", "requires_auth").await;
    assert_eq!(door.asked("revoke").len(), 2);
    // A client that somebody registered, whose secret is in a file.
    let secret = database.data().join("secret");
    std::fs::write(&secret, "m4chine-s3cret\n").unwrap();
    let client = mcp(&["client", "door", "--id", "machine", "--secret-file", secret.to_str().unwrap(), "--machine"]);
    assert!(client.code == Some(0) && client.stdout.contains("the client that you named"), "{client:?}");
    connected(&server, "door").await;
    let key = database.data().join("key.pem");
    std::fs::write(&key, KEY).unwrap();
    let with_key = ["client", "door", "--id", "signer", "--key-file", key.to_str().unwrap(), "--machine"];
    let signer = mcp(&[&with_key[..], &["--algorithm", "ES256"]].concat());
    assert_eq!(signer.code, Some(0), "{signer:?}");
    connected(&server, "door").await;
    assert_eq!(door.asked("token").pop().unwrap()["algorithm"], "ES256");
    assert_eq!(mcp(&with_key).code, Some(2), "how it signs must be said");
    assert_eq!(mcp(&["client", "door", "--forget"]).code, Some(0));
    until_status(&server, "door", "requires_auth").await;
    for wrong in [
        &["client", "door"][..],
        &["client", "door", "--id", "x", "--machine"],
        &["client", "door", "--forget", "--id", "x"],
    ] {
        assert_eq!(mcp(wrong).code, Some(2), "{wrong:?}");
    }
    let started = mcp(&["sign-in", "twin"]);
    assert!(started.code == Some(1) && started.stderr.contains("nothing to sign in to"), "{started:?}");
}

on_both! {
    async fn a_client_that_was_registered_by_hand(database: TestDatabase) {
        let door = Door::open().await;
        let server = serve(&database);
        let chat = new_chat(&server).await;
        add(&server, "door", json!({ "url": door.url })).await;
        until_status(&server, "door", "requires_auth").await;
        let client = format!("{}/client", at("door"));
        // The machine signs in by itself.
        let machine = json!({ "clientId": "machine", "clientSecret": "m4chine-s3cret", "grant": "machine", "scopes": ["read", "write"] });
        assert_eq!(put(&server, &client, machine.clone()).await.expect(204), Value::Null);
        connected(&server, "door").await;
        assert_eq!(text(&server, &chat, "mcp:door~door:whoami", json!({})).await, "you are in, whoami");
        let asked = door.asked("token");
        assert_eq!((&asked[0]["grant"], &asked[0]["client"]), (&json!("client_credentials"), &json!("machine")), "{asked:?}");
        assert!(door.asked("register").is_empty() && door.asked("authorize").is_empty());
        // Nothing of it is shown, logged or readable.
        let kept = database.sealed().await;
        assert!(kept.iter().any(|(kind, name, _)| kind == "oauth_settings" && name == "door~door"));
        assert!(!is_in_files(database.data(), "m4chine-s3cret"));
        assert!(!server.get(&at("door")).await.expect(200).to_string().contains("m4chine"));
        // It is still there after a restart, and goes along with a new name.
        drop(server);
        let server = serve(&database);
        connected(&server, "door").await;
        put(&server, &at("door"), json!({ "id": "gate" })).await.expect(200);
        connected(&server, "gate").await;
        let client = format!("{}/client", at("gate"));
        // A person signs in as a client that somebody registered.
        put(&server, &client, json!({ "clientId": "given", "clientSecret": "g1ven-s3cret" })).await.expect(204);
        until_status(&server, "gate", "requires_auth").await;
        browse(&server, &format!("{}/oauth/start/local/gate~gate", server.url)).await;
        connected(&server, "gate").await;
        assert_eq!(door.asked("authorize").last().unwrap()["client"], "given");
        assert!(door.asked("register").is_empty());
        // A machine that signs instead. Whether the signature is right is tested where it is made.
        put(&server, &client, json!({ "clientId": "signer", "privateKey": KEY, "algorithm": "ES256", "grant": "machine" })).await.expect(204);
        connected(&server, "gate").await;
        let asked = door.asked("token").pop().unwrap();
        assert_eq!((&asked["client"], &asked["algorithm"], &asked["grant"]), (&json!("signer"), &json!("ES256"), &json!("client_credentials")));
        let inside = KEY.lines().nth(1).unwrap();
        assert!(!is_in_files(database.data(), inside) && !server.get(&at("gate")).await.expect(200).to_string().contains(inside));
        // A wrong secret is no way in.
        put(&server, &client, json!({ "clientId": "machine", "clientSecret": "wr0ng", "grant": "machine" })).await.expect(204);
        let shown = crate::kit::until(&server, &at("gate"), |shown| shown["status"] == "requires_auth" || shown["status"] == "error").await;
        assert!(!shown.to_string().contains("wr0ng"), "{shown}");
        // Bad input says what is wrong and repeats nothing.
        for (body, word) in [
            (json!({}), "clientId"),
            (json!({ "clientId": "" }), "clientId"),
            (json!({ "clientId": 7 }), "texts"),
            (json!({ "clientId": "a", "clientSecret": ["hunter2"] }), "texts"),
            (json!({ "clientId": "a", "clientSecret": "hunter2\n" }), "clientSecret"),
            (json!({ "clientId": "a", "grant": "machine" }), "clientSecret"),
            (json!({ "clientId": "a", "grant": "robot" }), "grant"),
            (json!({ "clientId": "a", "scopes": ["a b"] }), "scopes"),
            (json!({ "clientId": "a", "issuer": "nowhere" }), "issuer"),
            (json!({ "clientId": "a", "privateKey": { "d": "hunter2" }, "algorithm": "ES256" }), "texts"),
            (json!({ "clientId": "a", "privateKey": "hunter2", "algorithm": "ES256" }), "privateKey"),
            (json!({ "clientId": "a", "privateKey": KEY, "algorithm": "RS256" }), "privateKey"),
            (json!({ "clientId": "a", "privateKey": KEY }), "algorithm"),
            (json!({ "clientId": "a", "algorithm": "ES256" }), "privateKey"),
            (json!({ "clientId": "a", "privateKey": KEY, "algorithm": "none" }), "algorithm"),
            (json!({ "clientId": "a", "clientSecret": "hunter2", "privateKey": KEY, "algorithm": "ES256" }), "privateKey"),
            (json!({ "clientId": "a", "more": 1 }), "more"),
        ] {
            let refused = put(&server, &client, body).await;
            refused.expect_error(400, "BAD_REQUEST");
            let said = refused.body.to_string();
            assert!(said.contains(word) && !said.contains("hunter2"), "{said}");
        }
        let user = add_token(&database.open().await, &kitbag_model::OrgId::local(), "use").await;
        Answer::of(server.anonymous(Method::PUT, &client).bearer_auth(&user).json(&machine)).await.expect_error(403, "FORBIDDEN");
        // Forgotten, Kitbag registers itself; removed, nothing is left.
        server.delete(&client).await.expect(204);
        until_status(&server, "gate", "requires_auth").await;
        browse(&server, &format!("{}/oauth/start/local/gate~gate", server.url)).await;
        connected(&server, "gate").await;
        assert_eq!(door.asked("register").len(), 1);
        put(&server, &client, machine).await.expect(204);
        server.delete(&at("gate")).await.expect(204);
        assert_eq!(database.sealed().await, []);
        for secret in ["m4chine-s3cret", "g1ven-s3cret", "wr0ng", MARK] {
            assert!(!server.log().contains(secret), "{secret} is in the log");
        }
        let store = database.open().await;
        let lines = store.read(&kitbag_model::OrgId::local()).await.unwrap().audit_trail(200).await.unwrap();
        assert!(lines.iter().any(|line| line.action == "mcp_server.client_changed" && line.subject == "door~door"));
        let of_audit = format!("{lines:?}");
        assert!(!of_audit.contains("s3cret"), "{of_audit}");
    }
}
