//! Every route, asked by everybody. What is expected follows from what the document declares (`x-permission`), so a new route is
//! covered the day it is made, and one that lets in others than it says fails here.

use kitbag_testkit::database::{add_organization, add_token};
use kitbag_testkit::{Server, on_both};
use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, PASSWORD, invited, owner, sign_in};
use crate::serve;

/// An id that names nothing, as all ids do that Kitbag makes.
const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// What stands for the parameters of paths. None of it is there: what is asked for here changes nothing.
const PARAMETERS: &[(&str, &str)] = &[
    ("{chat}", NOTHING),
    ("{callId}", NOTHING),
    ("{token}", NOTHING),
    ("{user}", NOTHING),
    ("{invitation}", NOTHING),
    ("{session}", NOTHING),
    ("{run}", NOTHING),
    ("{turn}", NOTHING),
    ("{event}", "1"),
    ("{builder}", NOTHING),
    ("{attempt}", "1"),
    ("{executor}", NOTHING),
    ("{sha256}", "nothing"),
    ("{id}", "nothing"),
    ("{skill}", "nothing"),
    ("{slug}", "nothing"),
    ("{name}", "llm.nothing"),
    ("{issuer}", "nothing"),
    ("{identity}", "nothing"),
    ("{key}", "nothing"),
    ("{path}", "nothing.txt"),
    ("{toolId}", "nothing:nothing"),
    ("{serverKey}", "nothing~nothing"),
];

/// A path with something for each of its parameters.
fn filled(path: &str, org: &str) -> String {
    let path = PARAMETERS.iter().fold(path.replace("{org}", org), |path, (name, value)| path.replace(name, value));
    assert!(!path.contains('{'), "a new parameter: say in PARAMETERS of {} what stands for it in {path}", file!());
    path
}

/// One operation of the document.
struct Operation {
    method: Method,
    path: String,
    permission: String,
}

impl Operation {
    fn all(document: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let permission = operation["x-permission"].as_str();
                all.push(Self {
                    method: method.to_uppercase().parse().unwrap(),
                    path: path.clone(),
                    permission: permission.unwrap_or_else(|| panic!("{method} {path} does not say who may")).to_owned(),
                });
            }
        }
        assert!(all.len() > 90, "only {} operations were found", all.len());
        all
    }

    fn name(&self) -> String {
        format!("{} {} ({})", self.method, self.path, self.permission)
    }
}

/// Somebody who asks.
#[derive(Clone, Copy)]
enum Who<'a> {
    Nobody,
    Token(&'a str),
    Browser(&'a Browser<'a>),
}

/// What a request's body is: one that is read as nothing, or one that cannot be read at all. Who may not ask is told so before
/// anybody looks at it.
#[derive(Clone, Copy, PartialEq)]
enum Body {
    Empty,
    Broken,
}

struct Heard {
    status: u16,
    text: String,
}

impl Who<'_> {
    fn request(self, server: &Server, method: Method, path: &str) -> RequestBuilder {
        match self {
            Who::Nobody => server.anonymous(method, path),
            Who::Token(token) => server.anonymous(method, path).bearer_auth(token),
            Who::Browser(browser) => server
                .anonymous(method, path)
                .header(header::COOKIE, &browser.cookie)
                .header("sec-fetch-site", "same-origin"),
        }
    }

    async fn ask(self, server: &Server, operation: &Operation, org: &str, body: Body) -> Heard {
        let path = filled(&operation.path, org);
        let text = if body == Body::Empty { "{}" } else { "{\"" };
        let request = self.request(server, operation.method.clone(), &path);
        let answer = request.header(header::CONTENT_TYPE, "application/json").body(text).send().await.unwrap();
        let status = answer.status().as_u16();
        // What goes well may have no end.
        let text = if status < 400 { String::new() } else { answer.text().await.unwrap() };
        Heard { status, text }
    }
}

impl Heard {
    #[track_caller]
    fn is(&self, status: u16, code: &str, who: &str, operation: &Operation) {
        let said: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let heard = (self.status, said["code"].as_str().unwrap_or_default());
        assert_eq!(heard, (status, code), "{who}: {}: {}", operation.name(), self.text);
    }

    #[track_caller]
    fn is_let_in(&self, who: &str, operation: &Operation) {
        assert!(![401, 403].contains(&self.status), "{who} may: {}: {}", operation.name(), self.text);
        assert!(self.status < 500, "{who}: {}: {}", operation.name(), self.text);
    }
}

on_both! {
    async fn every_route_lets_in_whom_it_says_and_nobody_else(database: TestDatabase) {
        let server = serve(&database);
        let operations = Operation::all(&server.get("/openapi.json").await.expect(200));
        let boss = owner(&server, "acme").await;
        let admin = invited(&boss, "acme", "admin@acme.example", "admin").await;
        let member = invited(&boss, "acme", "member@acme.example", "member").await;
        let rival = owner(&server, "rival").await;
        let tokens = "/v1/orgs/acme/tokens";
        let secret = |made: Value| made["secret"].as_str().unwrap().to_owned();
        let agent = secret(member.post(tokens, json!({ "name": "agent", "scopes": ["use"] })).await.expect(201));
        let manager = json!({ "name": "manager", "scopes": ["use", "manage"] });
        let managing = secret(admin.post(tokens, manager.clone()).await.expect(201));
        let foreign = secret(rival.post("/v1/orgs/rival/tokens", manager).await.expect(201));
        let store = database.open().await;
        let third = add_organization(&store, "third").await;
        let of_nobody = add_token(&store, &third, "use manage").await;
        let (agent, managing) = (Who::Token(&agent), Who::Token(&managing));
        let (at_page, admin) = (Who::Browser(&member), Who::Browser(&admin));
        let strangers = [
            ("another organisation's owner", Who::Browser(&rival)),
            ("their token", Who::Token(&foreign)),
            ("another organisation's token", Who::Token(&of_nobody)),
        ];

        for operation in &operations {
            let ask = async |who: Who<'_>, body| who.ask(&server, operation, "acme", body).await;
            let permission = operation.permission.as_str();
            if permission == "public" {
                ask(Who::Nobody, Body::Empty).await.is_let_in("nobody", operation);
                continue;
            }
            ask(Who::Nobody, Body::Broken).await.is(401, "UNAUTHORIZED", "nobody", operation);
            ask(Who::Token("kitbag_nonsense"), Body::Broken).await.is(401, "UNAUTHORIZED", "nonsense", operation);

            let of_an_organisation = operation.path.contains("{org}");
            let wanted = ["use", "own", "decide", "manage", "machine"].contains(&permission);
            assert_eq!(of_an_organisation, wanted, "{} is of one organisation, or of none", operation.name());
            if !of_an_organisation {
                // A session that this may end.
                let fresh = match permission {
                    "person" => Some(sign_in(&server, "member@acme.example", PASSWORD).await.ok().unwrap()),
                    _ => None,
                };
                let (person, operator) = (Who::Browser(fresh.as_ref().unwrap_or(&member)), Who::Token(&server.token));
                match permission {
                    "signed-in" => {
                        ask(agent, Body::Empty).await.is_let_in("a token", operation);
                        ask(person, Body::Empty).await.is_let_in("a person", operation);
                    }
                    "person" => {
                        ask(managing, Body::Broken).await.is(403, "FORBIDDEN", "a token", operation);
                        ask(operator, Body::Broken).await.is(403, "FORBIDDEN", "the operator's token", operation);
                        ask(person, Body::Empty).await.is_let_in("a person", operation);
                    }
                    "operator" => {
                        for (name, who) in strangers.iter().chain(&[("an admin", admin), ("an admin's token", managing)]) {
                            ask(*who, Body::Broken).await.is(403, "FORBIDDEN", name, operation);
                        }
                        ask(operator, Body::Empty).await.is_let_in("the operator", operation);
                    }
                    // Its own token opens nothing else, and nothing else opens this.
                    "executor" => {
                        for (name, who) in strangers.iter().chain(&[("an admin", admin), ("an admin's token", managing)]) {
                            ask(*who, Body::Broken).await.is(401, "UNAUTHORIZED", name, operation);
                        }
                        ask(operator, Body::Broken).await.is(401, "UNAUTHORIZED", "the operator", operation);
                    }
                    other => panic!("{}: {other:?} is no permission", operation.name()),
                }
                continue;
            }

            // One that is somebody else's, and one that is nobody's.
            for (name, who) in strangers.iter().chain(&[("the operator", Who::Token(&server.token))]) {
                let there = ask(*who, Body::Broken).await;
                there.is(404, "NOT_FOUND", name, operation);
                let missing = who.ask(&server, operation, "nowhere", Body::Broken).await;
                assert_eq!(there.status, missing.status);
                assert_eq!(there.text.replace("acme", "ORG"), missing.text.replace("nowhere", "ORG"), "{name}: {}", operation.name());
            }
            match permission {
                "use" => {
                    ask(at_page, Body::Empty).await.is_let_in("a member", operation);
                    ask(agent, Body::Empty).await.is_let_in("a member's token", operation);
                }
                "own" => {
                    ask(agent, Body::Broken).await.is(403, "FORBIDDEN", "a member's token", operation);
                    ask(at_page, Body::Broken).await.is(403, "FORBIDDEN", "a member, about others", operation);
                }
                "decide" => {
                    ask(agent, Body::Broken).await.is(403, "FORBIDDEN", "a member's token", operation);
                    ask(at_page, Body::Empty).await.is_let_in("a member", operation);
                }
                _ => {
                    ask(agent, Body::Broken).await.is(403, "FORBIDDEN", "a member's token", operation);
                    ask(at_page, Body::Broken).await.is(403, "FORBIDDEN", "a member", operation);
                }
            }
            if permission == "machine" {
                ask(admin, Body::Empty).await.is(403, "FORBIDDEN", "an admin elsewhere", operation);
                let own = Who::Token(&server.token).ask(&server, operation, "local", Body::Empty).await;
                own.is_let_in("the operator, in their own", operation);
                continue;
            }
            ask(admin, Body::Empty).await.is_let_in("an admin", operation);
            ask(managing, Body::Empty).await.is_let_in("an admin's token", operation);
        }
        // All of it was asked by people who are still what they were.
        assert_eq!(boss.get("/v1/orgs/acme/members").await.expect(200)["items"].as_array().unwrap().len(), 3);
    }

    /// The routes that the document does not have: the protocol's own, and the page's.
    async fn the_other_routes_too(database: TestDatabase) {
        let server = serve(&database);
        let boss = owner(&server, "acme").await;
        let member = invited(&boss, "acme", "member@acme.example", "member").await;
        let rival = owner(&server, "rival").await;
        let make = async |browser: &Browser<'_>, org: &str, scopes: Value| {
            let made = browser.post(&format!("/v1/orgs/{org}/tokens"), json!({ "name": "t", "scopes": scopes })).await.expect(201);
            made["secret"].as_str().unwrap().to_owned()
        };
        let agent = make(&member, "acme", json!(["use"])).await;
        let manages = make(&boss, "acme", json!(["manage"])).await;
        let foreign = make(&rival, "rival", json!(["use", "manage"])).await;
        let people = [
            Who::Nobody, Who::Token(&foreign), Who::Browser(&rival), Who::Token(&agent), Who::Browser(&member),
            Who::Token(&manages), Who::Browser(&boss),
        ];
        // What each of them hears; 0 is anything but a refusal.
        for (method, path, heard) in [
            ("POST", "/mcp", [401, 0, 0, 0, 0, 403, 0]),
            ("POST", "/v1/orgs/{org}/mcp", [401, 404, 404, 0, 0, 403, 0]),
            ("POST", "/v1/orgs/{org}/toolsets/{id}/mcp", [401, 404, 404, 0, 0, 403, 0]),
            ("POST", "/v1/orgs/{org}/mcp-servers/{serverKey}/mcp", [401, 404, 404, 0, 0, 403, 0]),
            ("GET", "/v1/orgs/{org}/mcp", [401, 404, 404, 0, 0, 403, 0]),
            ("DELETE", "/v1/orgs/{org}/mcp", [401, 404, 404, 0, 0, 403, 0]),
            ("GET", "/sse", [401, 0, 0, 0, 0, 403, 0]),
            ("POST", "/messages", [401, 0, 0, 0, 0, 403, 0]),
            ("GET", "/oauth/start/{org}/{serverKey}", [401, 404, 404, 403, 403, 0, 0]),
            ("GET", "/oauth/callback/{org}", [0, 0, 0, 0, 0, 0, 0]),
            ("GET", "/openapi.json", [0, 0, 0, 0, 0, 0, 0]),
            ("GET", "/docs/", [0, 0, 0, 0, 0, 0, 0]),
        ] {
            let operation = Operation { method: method.parse().unwrap(), path: path.to_owned(), permission: "by hand".to_owned() };
            for (who, (at, expected)) in people.iter().zip(heard.iter().enumerate()) {
                let answer = who.ask(&server, &operation, "acme", Body::Empty).await;
                match expected {
                    0 => answer.is_let_in(&format!("number {at}"), &operation),
                    _ => assert_eq!(answer.status, *expected, "number {at}: {}: {}", operation.name(), answer.text),
                }
                if *expected == 404 {
                    let missing = who.ask(&server, &operation, "nowhere", Body::Empty).await;
                    assert_eq!(answer.text.replace("acme", "ORG"), missing.text.replace("nowhere", "ORG"), "{}", operation.name());
                }
            }
        }
    }
}
