//! What one organisation's lists cost on a server that has many, against the same lists on a server that has one, in one run.
//!
//! Both servers are the real program on real PostgreSQL with row-level security. One has an organisation with 50 toolsets of 20 tools;
//! the other has 200 such. The requests are the same and go to both in turn, so what else this machine does falls on both alike.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::time::Instant;

use kitbag_model::{
    ContentHash, Definition, FileKind, Install, OrgId, Permissions, PythonNeeds, PythonTool, SourceType, ToolsetFile,
    Visibility,
};
use kitbag_store::Store;
use kitbag_testkit::cluster::{SUPERUSER, run};
use kitbag_testkit::database::add_token;
use kitbag_testkit::{Server, TestDatabase};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const ORGANISATIONS: usize = 200;
const TOOLSETS: usize = 50;
const TOOLS: usize = 20;
const ROUNDS: usize = 60;

/// The organisation that asks.
const ORG: &str = "one";

const NEWEST: &str = "2026-07-28";

/// Every row of the organisation once more, for the others.
const COPY: &str = "DO $$ DECLARE t TEXT; columns TEXT; BEGIN
    INSERT INTO organizations SELECT 'org-' || n, now() FROM generate_series(2, {organisations}) n;
    FOREACH t IN ARRAY ARRAY['organization_settings', 'toolsets', 'toolset_files', 'tools', 'tool_descriptions'] LOOP
        SELECT string_agg(quote_ident(column_name), ', ') INTO columns FROM information_schema.columns
            WHERE table_schema = 'public' AND table_name = t AND column_name <> 'organization_id';
        EXECUTE format('INSERT INTO %I (organization_id, %s) SELECT ''org-'' || n, %s FROM %I, generate_series(2, {organisations}) n
            WHERE organization_id = ''one''', t, columns, columns, t);
    END LOOP; END $$";

/// A server with so many organisations.
struct Side {
    server: Server,
    token: String,
    // The data folder goes with it.
    _database: TestDatabase,
}

impl Side {
    async fn new(organisations: usize) -> Self {
        let database = TestDatabase::postgres().await;
        let (store, org) = database.open_with(ORG).await;
        fill(&store, &org).await;
        let token = add_token(&store, &org, "use manage").await;
        store.close().await;
        let mut superuser = database.connect(SUPERUSER).await;
        if organisations > 1 {
            run(&mut superuser, &COPY.replace("{organisations}", &organisations.to_string())).await;
        }
        run(&mut superuser, "ANALYZE").await;
        let server = Server::start(env!("CARGO_BIN_EXE_kitbag"), &database, &["--log", "error"]);
        Self { server, token, _database: database }
    }

    fn request(&self, wanted: &Wanted) -> RequestBuilder {
        let request = self.server.anonymous(wanted.method.clone(), wanted.path).bearer_auth(&self.token);
        match &wanted.message {
            None => request,
            Some(message) => {
                let request = request.header("accept", "application/json, text/event-stream");
                request.header("mcp-protocol-version", NEWEST).header("mcp-method", "tools/list").json(message)
            }
        }
    }

    /// How long an answer took, in milliseconds, and its bytes.
    async fn ask(&self, wanted: &Wanted) -> (f64, usize) {
        let start = Instant::now();
        let answer = self.request(wanted).send().await.unwrap();
        let status = answer.status();
        let body = answer.bytes().await.unwrap();
        assert!(status.is_success(), "{}: {}", wanted.name, String::from_utf8_lossy(&body));
        (start.elapsed().as_secs_f64() * 1000.0, body.len())
    }
}

/// What is asked for.
struct Wanted {
    name: &'static str,
    method: Method,
    path: &'static str,
    message: Option<Value>,
}

fn wanted() -> Vec<Wanted> {
    let get = |name, path| Wanted { name, method: Method::GET, path, message: None };
    let params = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
    } });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params });
    vec![
        get("list_toolsets", "/v1/orgs/one/toolsets?limit=200"),
        get("list_tools", "/v1/orgs/one/tools?limit=200"),
        get("resolve_tools", "/v1/orgs/one/tools/resolve"),
        Wanted { name: "tools/list at /mcp", method: Method::POST, path: "/v1/orgs/one/mcp", message: Some(list) },
    ]
}

/// Toolsets as an import leaves them, and what was found in their code. Their names are of one length: those that were installed at the same moment
/// have no order, and each part of a list should have the same length on both sides.
async fn fill(store: &Store, org: &OrgId) {
    let schema =
        json!({ "type": "object", "properties": { "path": { "type": "string" }, "lines": { "type": "integer" } } });
    let schema = schema.as_object().unwrap();
    let mut tx = store.write(org).await.unwrap();
    for number in 0..TOOLSETS {
        let tool = |tool: usize| PythonTool {
            id: format!("tool_{tool}").parse().unwrap(),
            entrypoint: format!("tools.t{number:02}:tool_{tool}").parse().unwrap(),
            name: Some(format!("Tool {tool}").parse().unwrap()),
            description: Some(format!("Does number {tool} of what can be done with a file.").parse().unwrap()),
            input_schema: None,
            requires_confirmation: None,
            enabled: true,
        };
        let tools: Vec<PythonTool> = (0..TOOLS).map(tool).collect();
        let described = json!({ "tools": tools.iter().map(|tool| json!({
            "entrypoint": tool.entrypoint.to_string(), "problem": null, "name": null, "description": "What the code says.",
            "requires_confirmation": false, "category": null, "input_schema": schema, "output_schema": null,
        })).collect::<Vec<_>>() });
        let files = format!("g{number}");
        let install = Install {
            definition: Definition {
                id: format!("toolset-{number:02}").parse().unwrap(),
                name: format!("Toolset {number:02}").parse().unwrap(),
                version: "1.0.0".parse().unwrap(),
                description: None,
                tools,
                overrides: Vec::new(),
                servers: Vec::new(),
                containers: Vec::new(),
                skills: Vec::new(),
                python: PythonNeeds::default(),
                permissions: Permissions::default(),
            },
            skills: Vec::new(),
            files: vec![ToolsetFile {
                path: format!("tools/t{number:02}.py").parse().unwrap(),
                kind: FileKind::Python,
                sha256: ContentHash::of(&[]),
                size: 0,
                executable: false,
            }],
            source_type: SourceType::Zip,
            source_ref: None,
            generation: Some(files.clone()),
            user_mcp: false,
            visibility: Visibility::Org,
            adopted_from: None,
            by: None,
        };
        tx.install_toolset(&install, None).await.unwrap();
        tx.set_tool_description(&install.definition.id, &files, &described.to_string()).await.unwrap();
    }
    tx.commit().await.unwrap();
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::main]
async fn main() {
    let (one, many) = (Side::new(1).await, Side::new(ORGANISATIONS).await);
    println!(
        "one organisation of {ORGANISATIONS}, each with {TOOLSETS} toolsets of {TOOLS} tools, against one alone; p50 of {ROUNDS}"
    );
    for wanted in wanted() {
        let (mut alone, mut among) = (Vec::new(), Vec::new());
        // The first requests wake connections and fill caches.
        for round in 0..ROUNDS + 5 {
            let ((first, size), (second, same)) = (one.ask(&wanted).await, many.ask(&wanted).await);
            assert_eq!(size, same, "{}: both answer alike", wanted.name);
            if round >= 5 {
                alone.push(first);
                among.push(second);
            }
        }
        let (alone, among) = (median(alone), median(among));
        println!("{:<20} {alone:>8.2} ms alone {among:>8.2} ms among many   ratio {:.2}", wanted.name, among / alone);
    }
}
