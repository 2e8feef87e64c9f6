//! Two thousand tools as they are met with: fifty services of ten trades, each an MCP server with five kinds of things and what is done with them.
//! Services of one trade have the same things, so that a question must be understood to the end.

mod questions;

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use kitbag_testkit::Server;
use kitbag_testkit::model::{Anthropic, StandIn};
use reqwest::Method;
use serde_json::{Value, json};

use questions::QUESTIONS;

const NEWEST: &str = "2026-07-28";

/// A thing, and what is said of it.
type Thing = (&'static str, &'static str);

/// Services of one trade, and the things that they have.
struct Trade {
    services: [&'static str; 5],
    things: [Thing; 5],
}

const TRADES: [Trade; 10] = [
    Trade {
        services: ["github", "gitlab", "bitbucket", "gitea", "azure_devops"],
        things: [
            ("issue", "Issues are bug reports and feature requests of a repository."),
            ("pull_request", "Pull requests propose code to be reviewed and merged."),
            ("branch", "Branches are lines of commits in a repository."),
            ("release", "Releases are tagged versions with notes and binaries."),
            ("webhook", "Webhooks call an address whenever something happens."),
        ],
    },
    Trade {
        services: ["slack", "discord", "teams", "mattermost", "zulip"],
        things: [
            ("message", "Messages are what people write to each other."),
            ("channel", "Channels are rooms for a team or a topic."),
            ("thread", "Threads hold the replies to a message."),
            ("reaction", "Reactions are emoji that people put on a message."),
            ("user_group", "User groups can be mentioned together."),
        ],
    },
    Trade {
        services: ["gmail", "outlook", "fastmail", "zoho_mail", "proton_mail"],
        things: [
            ("email", "Emails have recipients, a subject and a body."),
            ("draft", "Drafts are emails that were not sent yet."),
            ("label", "Labels sort the mailbox."),
            ("attachment", "Attachments are files that came with an email."),
            ("filter", "Filters are rules for what arrives, spam too."),
        ],
    },
    Trade {
        services: ["google_calendar", "outlook_calendar", "caldav", "calendly", "cal_com"],
        things: [
            ("event", "Events are meetings and appointments with a time and guests."),
            ("invitation", "Invitations ask guests whether they attend."),
            ("reminder", "Reminders tell somebody before an event begins."),
            ("availability", "Availability is when somebody is free or busy."),
            ("room", "Rooms are meeting rooms that can be booked."),
        ],
    },
    Trade {
        services: ["google_drive", "dropbox", "onedrive", "box", "nextcloud"],
        things: [
            ("file", "Files are documents, pictures and anything else that is stored."),
            ("folder", "Folders hold files and other folders."),
            ("permission", "Permissions say with whom something is shared."),
            ("revision", "Revisions are older versions of a file."),
            ("comment", "Comments are remarks beside a file."),
        ],
    },
    Trade {
        services: ["salesforce", "hubspot", "pipedrive", "zoho_crm", "close"],
        things: [
            ("contact", "Contacts are people with a phone number and an address."),
            ("deal", "Deals are sales under way, with a stage and an amount."),
            ("company", "Companies are the customers that contacts work for."),
            ("lead", "Leads may become customers one day."),
            ("activity", "Activities are calls, meetings and notes with a customer."),
        ],
    },
    Trade {
        services: ["jira", "linear", "asana", "trello", "clickup"],
        things: [
            ("task", "Tasks are tickets with an assignee, a due date and a status."),
            ("project", "Projects hold the tasks of one goal."),
            ("sprint", "Sprints are iterations of a team."),
            ("board", "Boards show tasks as cards in columns."),
            ("milestone", "Milestones are dates by which something is to be done."),
        ],
    },
    Trade {
        services: ["postgres", "mysql", "mongodb", "snowflake", "bigquery"],
        things: [
            ("table", "Tables have rows and columns."),
            ("saved_query", "Saved queries are SQL statements with a name."),
            ("index", "Indexes make lookups fast."),
            ("schema", "Schemas are namespaces with their definitions."),
            ("backup", "Backups are copies from which data can be restored."),
        ],
    },
    Trade {
        services: ["stripe", "paypal", "square", "adyen", "braintree"],
        things: [
            ("payment", "Payments are charges of a card or an account."),
            ("customer", "Customers are who pays."),
            ("invoice", "Invoices are bills with lines and a due date."),
            ("refund", "Refunds give money back."),
            ("subscription", "Subscriptions are paid for again and again under a plan."),
        ],
    },
    Trade {
        services: ["aws", "gcp", "azure", "digitalocean", "hetzner"],
        things: [
            ("virtual_machine", "Virtual machines are servers with an image and a size."),
            ("volume", "Volumes are disks that are attached to machines."),
            ("network", "Networks connect machines, with subnets and firewalls."),
            ("dns_record", "DNS records lead from a domain's name to an address."),
            ("snapshot", "Snapshots are images of a disk at one moment."),
        ],
    },
];

/// What is done with a thing, what is said of that, and its arguments.
const DEEDS: [(&str, &str, &[&str]); 8] = [
    ("list", "List all {things} of {service}, page by page.", &["page", "page_size", "sort"]),
    ("get", "Get one {thing} of {service} with all its details.", &["id", "fields"]),
    ("search", "Search {things} in {service} by words.", &["text", "limit"]),
    ("create", "Create a {thing} in {service}.", &["name", "body", "owner"]),
    ("update", "Update fields of a {thing} in {service}.", &["id", "changes"]),
    ("delete", "Delete a {thing} from {service} for good.", &["id"]),
    ("archive", "Archive a {thing} of {service}, so that it is no longer shown.", &["id", "reason"]),
    ("export", "Export {things} from {service} to a CSV file.", &["format", "since"]),
];

fn services() -> impl Iterator<Item = &'static str> {
    TRADES.iter().flat_map(|trade| trade.services)
}

/// The tools of a service, as its server lists them.
fn tools(service: &str) -> Vec<Value> {
    let things = TRADES.iter().find(|trade| trade.services.contains(&service)).map(|trade| trade.things);
    let every = things.into_iter().flatten().flat_map(|thing| DEEDS.iter().map(move |deed| (thing, deed)));
    every
        .map(|((thing, about), (deed, says, arguments))| {
            let words = thing.replace('_', " ");
            let says = says.replace("{things}", &format!("{words}s")).replace("{thing}", &words);
            let says = says.replace("{service}", &service.replace('_', " "));
            let properties = arguments.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" })));
            json!({
                "name": format!("{deed}_{thing}"), "description": format!("{says} {about}"),
                "inputSchema": { "type": "object", "properties": properties.collect::<serde_json::Map<_, _>>() },
            })
        })
        .collect()
}

/// Serves all of them, each below its name. It says where.
async fn serve() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/{service}/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

async fn answer(Path(service): Path<String>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    if request["id"].is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match request["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": [NEWEST], "capabilities": { "tools": {} },
            "ttlMs": 0, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": service, "version": "1" } },
        }),
        "tools/list" => {
            json!({ "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public", "tools": tools(&service) })
        }
        _ => json!({ "resultType": "complete" }),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

/// Installs all of them, and waits until their tools are known.
pub(crate) async fn install(server: &Server) {
    let url = serve().await;
    let servers = "/v1/orgs/local/mcp-servers";
    for service in services() {
        let body = json!({ "id": service, "serverType": "streamable-http", "url": format!("{url}/{service}/mcp"), "requiresConfirmation": false });
        server.post(servers, &body).await.expect(201);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    for service in services() {
        while server.get(&format!("{servers}/{service}~{service}")).await.expect(200)["toolCount"] != 40 {
            assert!(Instant::now() < deadline, "the tools of {service} are not known");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What came of a question.
#[derive(Debug)]
#[allow(dead_code, reason = "not all that use it look at everything")]
pub(crate) struct Answered {
    pub(crate) question: &'static str,
    pub(crate) wanted: String,
    /// Where it was found among the first five, from 0.
    pub(crate) rank: Option<usize>,
    pub(crate) found: Vec<String>,
}

/// A turn in which the model searches for everything at once.
pub(crate) async fn ask_all(server: &Server, models: &StandIn, chat: &str) -> Vec<Answered> {
    let mut reply = Anthropic::new();
    for (number, (question, ..)) in QUESTIONS.iter().enumerate() {
        let arguments = json!({ "query": question, "limit": 5 }).to_string();
        reply = reply.tool_call(&format!("toolu_{number}"), "search_tools", &[&arguments]);
    }
    models.messages(reply.ends("tool_use"));
    models.messages(Anthropic::new().text(&["That is all."]).ends("end_turn"));
    let path = format!("/v1/orgs/local/chats/{chat}/stream");
    let answer =
        server.request(Method::POST, &path).json(&json!({ "content": "Find everything." })).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    // The stream ends with the turn; what it leaves is in its message.
    answer.bytes().await.unwrap();
    let messages = server.get(&format!("/v1/orgs/local/chats/{chat}/messages")).await.expect(200);
    let blocks = messages["items"][1]["content"].as_array().unwrap().clone();
    let searches = blocks.iter().filter(|block| block["type"] == "tool_search");
    let answered: Vec<Answered> = QUESTIONS
        .iter()
        .zip(searches)
        .map(|((question, service, tool), block)| {
            let names = block["found"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
            let (found, wanted) = (names.collect::<Vec<_>>(), format!("mcp__{service}__{tool}"));
            Answered { question, rank: found.iter().position(|name| *name == wanted), wanted, found }
        })
        .collect();
    assert_eq!(answered.len(), QUESTIONS.len());
    answered
}
