//! Pins, single servers and secrets on both databases.
#![allow(clippy::unwrap_used, missing_docs)]

use std::pin::Pin;

use kitbag_model::pin::waiting_hash;
use kitbag_model::{
    Acceptance, AgreedRevision, CallError, CallErrorCode, CallStatus, ChatId, Content, ContentHash, Definition,
    Install, Launch, McpServer, McpToolName, NewChat, NewMessage, NewToolCall, OrgId, Override, OverrideKey, Parent,
    Permissions, PinPolicy, PinState, Pinned, PythonNeeds, RawLaunch, Role, ServerKey, SourceType, Timestamp,
    ToolCallId, ToolSelectors, Visibility,
};
use kitbag_store::{AcceptError, InstallError, Store, StoreError, WriteTx};
use kitbag_testkit::on_both;
use serde_json::json;

fn launch(command: &str) -> Launch {
    RawLaunch { command: Some(command.to_owned()), ..RawLaunch::default() }.check().unwrap()
}

fn server(id: &str, command: &str) -> McpServer {
    let (id, launch) = (id.parse().unwrap(), launch(command));
    McpServer { id, launch, enabled: true, requires_confirmation: None, description: None }
}

fn key(text: &str) -> ServerKey {
    text.parse().unwrap()
}

fn to_install(id: &str, user_mcp: bool) -> Install {
    Install {
        definition: Definition {
            id: id.parse().unwrap(),
            name: id.parse().unwrap(),
            version: "1.0.0".parse().unwrap(),
            description: None,
            tools: Vec::new(),
            overrides: Vec::new(),
            servers: vec![server(id, "npx"), server("other", "npx")][..if user_mcp { 1 } else { 2 }].to_vec(),
            containers: Vec::new(),
            skills: Vec::new(),
            python: PythonNeeds::default(),
            permissions: Permissions::default(),
        },
        skills: Vec::new(),
        files: Vec::new(),
        source_type: SourceType::Local,
        source_ref: None,
        generation: None,
        user_mcp,
        visibility: Visibility::Org,
        adopted_from: None,
        by: None,
    }
}

async fn install(store: &Store, org: &OrgId, id: &str, user_mcp: bool) {
    let new = to_install(id, user_mcp);
    let mut tx = store.write(org).await.unwrap();
    let replaces = tx.toolset(&new.definition.id).await.unwrap().map(|_| None);
    tx.install_toolset(&new, replaces.as_ref()).await.unwrap();
    tx.commit().await.unwrap();
}

fn list(tools: &[(&str, &str)]) -> Vec<(McpToolName, Pinned)> {
    let one = |(name, description): &(&str, &str)| {
        let definition = json!({ "name": name, "description": description, "inputSchema": { "z": 1, "a": [] } });
        (name.parse().unwrap(), Pinned::new(definition.as_object().unwrap().clone()))
    };
    tools.iter().map(one).collect()
}

async fn see(tx: &mut WriteTx, server: &str, tools: &[(&str, &str)]) -> kitbag_model::Sight {
    tx.see_tools(&key(server), &list(tools)).await.unwrap().unwrap()
}

/// Each pin as `name state` with `waits` and `gone`.
async fn pins(tx: &mut WriteTx, server: &str) -> Vec<String> {
    let one = |pin: &kitbag_model::Pin| {
        let marks = [(pin.is_waiting(), " waits"), (!pin.listed, " gone")];
        let marks: String = marks.iter().filter(|(yes, _)| *yes).map(|(_, mark)| *mark).collect();
        format!("{} {}{marks}", pin.tool, pin.state)
    };
    tx.pins(&key(server)).await.unwrap().iter().map(one).collect()
}

async fn call(tx: &mut WriteTx, chat: ChatId, tool: &str) -> ToolCallId {
    let content = Content::try_from(json!("a call")).unwrap();
    let message = NewMessage { parent: Parent::ActiveLeaf, role: Role::Tool, content };
    let new = NewToolCall {
        id: ToolCallId::generate(),
        chat_id: chat,
        message_id: tx.add_message(chat, &message).await.unwrap().id,
        tool_id: tool.parse().unwrap(),
        generation: None,
        args: serde_json::Map::new(),
        expires_at: None,
        asked_by: "x".to_owned(),
        idempotency: None,
        node: "n".to_owned(),
    };
    tx.insert_call(&new).await.unwrap().id
}

type Crossed = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;
type Crossing = fn(WriteTx, ServerKey, ServerKey, usize) -> Crossed;

on_both! {
    async fn what_was_seen_is_kept_and_compared(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "app", false).await;
        let mut tx = store.write(&org).await.unwrap();
        let hostile = "a:b\n</tool>\u{1b}[2K\u{202e}";
        let first = see(&mut tx, "app~app", &[("z", "1"), (hostile, "1"), ("a", "with \u{0} in it")]).await;
        assert!(first.first);
        let found = tx.pins(&key("app~app")).await.unwrap();
        assert_eq!(found, first.pins, "what is read is what was written, in the server's order");
        assert!(!see(&mut tx, "app~app", &[("z", "1"), (hostile, "1"), ("a", "with \u{0} in it")]).await.is_news());
        let second = see(&mut tx, "app~app", &[("z", "2"), ("new", "1")]).await;
        assert_eq!((second.changed.len(), second.new.len(), second.gone.len()), (1, 1, 2));
        assert_eq!(tx.pins(&key("app~app")).await.unwrap(), second.pins);
        assert_eq!(
            pins(&mut tx, "app~app").await,
            ["z quarantined waits".to_owned(), "new quarantined waits".into(), format!("{hostile} accepted gone"),
             "a accepted gone".into()]
        );
        assert_eq!(second.pins[0].accepted, Acceptance::Other(list(&[("z", "1")])[0].1.clone()));
        assert_eq!(second.pins[0].first_seen_at, first.pins[0].first_seen_at);
        assert!(second.pins[0].last_seen_at >= first.pins[0].last_seen_at);
        // An empty list is a list: what comes after it is new.
        assert!(see(&mut tx, "app~other", &[]).await.first);
        assert!(!see(&mut tx, "app~other", &[("x", "1")]).await.first);
        assert_eq!(pins(&mut tx, "app~other").await, ["x quarantined waits"]);
        let all = tx.all_pins().await.unwrap();
        let servers: Vec<String> = all.iter().map(|pin| pin.server.to_string()).collect();
        assert_eq!(servers, ["app~app", "app~app", "app~app", "app~app", "app~other"]);
        assert!(tx.see_tools(&key("app~nobody"), &[]).await.unwrap().is_none());
        let many: Vec<String> = (0..1200).map(|number| format!("tool-{number:04}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        assert_eq!(see(&mut tx, "app~other", &many).await.new.len(), 1200);
        assert_eq!(tx.pins(&key("app~other")).await.unwrap().len(), 1200, "what nobody accepted is forgotten");
        tx.commit().await.unwrap();
        // Another organisation sees none of it.
        let other = kitbag_testkit::database::add_organization(&store, "other").await;
        assert!(store.read(&other).await.unwrap().all_pins().await.unwrap().is_empty());
        assert!(store.write(&other).await.unwrap().see_tools(&key("app~app"), &[]).await.unwrap().is_none());
    }

    async fn a_yes_is_for_what_was_shown(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "app", false).await;
        let mut tx = store.write(&org).await.unwrap();
        let (app, a, b): (_, McpToolName, McpToolName) = (key("app~app"), "a".parse().unwrap(), "b".parse().unwrap());
        see(&mut tx, "app~app", &[("a", "1"), ("b", "1")]).await;
        let shown = see(&mut tx, "app~app", &[("a", "2"), ("b", "2")]).await.pins;
        see(&mut tx, "app~app", &[("a", "3"), ("b", "2")]).await;
        assert!(matches!(tx.accept_pin(&app, &a, &shown[0].seen.sha256).await, Err(AcceptError::Differs)));
        assert!(matches!(tx.accept_all(&app, Some(&waiting_hash(&shown))).await, Err(AcceptError::Differs)));
        assert_eq!(pins(&mut tx, "app~app").await, ["a quarantined waits", "b quarantined waits"]);
        tx.accept_pin(&app, &b, &shown[1].seen.sha256).await.unwrap();
        assert_eq!(pins(&mut tx, "app~app").await, ["a quarantined waits", "b accepted"]);
        let none: McpToolName = "none".parse().unwrap();
        for (server, tool) in [(&app, &none), (&key("app~other"), &a), (&key("app~gone"), &a)] {
            let found = tx.accept_pin(server, tool, &ContentHash::of(b"")).await;
            assert!(matches!(found, Err(AcceptError::NotFound)), "{server} {tool}: {found:?}");
        }
        let now = tx.pins(&app).await.unwrap();
        assert_eq!(tx.accept_all(&app, Some(&waiting_hash(&now))).await.unwrap(), 1);
        assert_eq!(tx.accept_all(&app, None).await.unwrap(), 0);
        assert!(!see(&mut tx, "app~app", &[("a", "3"), ("b", "2")]).await.is_news());
        assert_eq!(pins(&mut tx, "app~app").await, ["a accepted", "b accepted"]);
    }

    async fn what_was_agreed_on_with_a_server(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "mine", true).await;
        let (mine, now) = (key("mine~mine"), Timestamp::now());
        let read = async |tx: &mut WriteTx, key: &ServerKey| {
            tx.installed(&key.toolset).await.unwrap().unwrap().server(key.server.as_str()).unwrap().clone()
        };
        let mut tx = store.write(&org).await.unwrap();
        let before = read(&mut tx, &mine).await;
        assert_eq!((before.last_revision(now), before.is_relaunched()), (None, false), "nothing is known");
        let agreed = AgreedRevision { revision: "2025-11-25".to_owned(), launch: launch("npx").fingerprint(), at: now, offers: Some(vec!["prompts".to_owned()]) };
        assert!(tx.remember_revision(&mine, &agreed).await.unwrap());
        assert!(!tx.remember_revision(&key("mine~gone"), &agreed).await.unwrap());
        let kept = read(&mut tx, &mine).await;
        assert_eq!((kept.agreed.as_ref(), kept.last_revision(now), kept.is_relaunched()), (Some(&agreed), Some("2025-11-25"), false));
        assert_eq!(kept.last_offers(), Some(&["prompts".to_owned()][..]));
        // The same launch may bring a newer program, so it does not hold for ever.
        assert_eq!(kept.last_revision(now.plus_seconds(8 * 24 * 60 * 60)), None);
        // It goes along with a new name, and is worth nothing for another launch.
        let other = key("new~new");
        assert!(tx.rename_server(&mine, &other).await.unwrap());
        assert_eq!(read(&mut tx, &other).await.last_revision(now), Some("2025-11-25"));
        assert!(tx.replace_server(&other.toolset, &server("new", "uvx")).await.unwrap());
        let changed = read(&mut tx, &other).await;
        assert_eq!((changed.last_revision(now), changed.last_offers(), changed.is_relaunched()), (None, None, true));
        assert!(tx.replace_server(&other.toolset, &server("new", "npx")).await.unwrap());
        assert!(!read(&mut tx, &other).await.is_relaunched());
    }

    async fn the_policy_of_a_server(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "app", false).await;
        install(&store, &org, "mine", true).await;
        let mut tx = store.write(&org).await.unwrap();
        for (server, said, after) in [
            ("app~app", None, "a quarantined waits"),
            ("app~other", Some(PinPolicy::Warn), "a accepted waits"),
            ("mine~mine", None, "a accepted"),
        ] {
            assert!(tx.set_pin_policy(&key(server), said).await.unwrap());
            see(&mut tx, server, &[("a", "1")]).await;
            see(&mut tx, server, &[("a", "2")]).await;
            assert_eq!(pins(&mut tx, server).await, [after], "{server}");
        }
        let app = key("app~app");
        for (policy, after) in [
            (Some(PinPolicy::Warn), "a accepted waits"),
            (Some(PinPolicy::Quarantine), "a quarantined waits"),
            (Some(PinPolicy::Accept), "a accepted"),
            (None, "a accepted"),
        ] {
            tx.set_pin_policy(&app, policy).await.unwrap();
            assert_eq!(pins(&mut tx, "app~app").await, [after]);
            assert_eq!(tx.installed(&app.toolset).await.unwrap().unwrap().server("app").unwrap().pin_policy, policy);
        }
        assert!(!tx.set_pin_policy(&key("app~gone"), None).await.unwrap());
        // A new version of the bundle keeps what a person said and what was seen.
        tx.set_pin_policy(&app, Some(PinPolicy::Warn)).await.unwrap();
        tx.enable_server(&app, Some(false)).await.unwrap();
        tx.commit().await.unwrap();
        install(&store, &org, "app", false).await;
        let mut tx = store.write(&org).await.unwrap();
        let installed = tx.installed(&app.toolset).await.unwrap().unwrap();
        let kept = installed.server("app").unwrap();
        assert_eq!((kept.pin_policy, kept.is_enabled()), (Some(PinPolicy::Warn), false));
        assert!(kept.tools_seen_at.is_some());
        assert_eq!(installed.pin_policy(installed.server("other").unwrap()), PinPolicy::Warn);
        assert_eq!(pins(&mut tx, "app~app").await, ["a accepted"]);
        assert!(!tx.enable_server(&key("app~gone"), None).await.unwrap());
    }

    async fn a_changed_declaration_voids_trust(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "app", false).await;
        let app = key("app~app");
        let mut tx = store.write(&org).await.unwrap();
        tx.trust(&app.toolset, "app", &server("app", "npx").fingerprint()).await.unwrap();
        tx.trust(&app.toolset, "other", &server("other", "npx").fingerprint()).await.unwrap();
        let trusted = async |tx: &mut WriteTx| {
            let installed = tx.installed(&app.toolset).await.unwrap().unwrap();
            installed.servers.iter().map(|one| one.is_trusted()).collect::<Vec<_>>()
        };
        let described = McpServer { description: Some("x".parse().unwrap()), ..server("app", "npx") };
        assert!(tx.replace_server(&app.toolset, &described).await.unwrap());
        assert_eq!(trusted(&mut tx).await, [true, true]);
        let silent = McpServer { requires_confirmation: Some(false), ..server("app", "npx") };
        tx.replace_server(&app.toolset, &silent).await.unwrap();
        assert_eq!(trusted(&mut tx).await, [false, true], "asking less needs a new yes");
        tx.replace_server(&app.toolset, &described).await.unwrap();
        assert_eq!(trusted(&mut tx).await, [false, true], "and so does what was changed and changed back");
        tx.replace_server(&app.toolset, &server("other", "curl")).await.unwrap();
        assert_eq!(trusted(&mut tx).await, [false, false]);
        assert!(!tx.replace_server(&app.toolset, &server("gone", "npx")).await.unwrap());
    }

    async fn a_rename_takes_everything_along(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "old", true).await;
        install(&store, &org, "taken", true).await;
        let (from, to) = (key("old~old"), key("new~new"));
        let mut tx = store.write(&org).await.unwrap();
        tx.trust(&from.toolset, "old", &server("old", "npx").fingerprint()).await.unwrap();
        for pattern in ["old:read", "*:write", "older:x"] {
            let over = Override { name: Some(pattern.to_owned()), ..Override::default() };
            tx.set_override(&from.toolset, &OverrideKey::parse(pattern, &from.toolset).unwrap(), &over).await.unwrap();
        }
        see(&mut tx, "old~old", &[("read", "1")]).await;
        tx.enable_server(&from, Some(false)).await.unwrap();
        let selectors = ["mcp:old~old:read".to_owned(), "-toolset:old".into(), "toolset:taken".into()];
        let selectors = Some(ToolSelectors::try_from(&selectors[..]).unwrap());
        let chat = tx.create_chat(&NewChat { title: None, tool_selectors: selectors, of_run: false }).await.unwrap();
        let (over, running) = (call(&mut tx, chat.id, "mcp:old~old:read").await, call(&mut tx, chat.id, "mcp:old~old:x").await);
        let other = call(&mut tx, chat.id, "mcp:old~older:read").await;
        for finished in [over, other] {
            let why = CallError::new(CallErrorCode::Cancelled, "why");
            assert!(tx.end_call(chat.id, finished, CallStatus::Running, &why).await.unwrap().is_some());
        }
        let before = tx.installed(&from.toolset).await.unwrap().unwrap();
        tx.commit().await.unwrap();

        let mut tx = store.write(&org).await.unwrap();
        assert!(matches!(tx.rename_server(&from, &key("taken~taken")).await, Err(StoreError::Exists)));
        drop(tx);
        let mut tx = store.write(&org).await.unwrap();
        assert!(tx.rename_server(&from, &to).await.unwrap());
        tx.commit().await.unwrap();
        let mut tx = store.write(&org).await.unwrap();
        assert!(tx.installed(&from.toolset).await.unwrap().is_none());
        let after = tx.installed(&to.toolset).await.unwrap().unwrap();
        assert_eq!((after.toolset.user_mcp, after.toolset.installed_at), (true, before.toolset.installed_at));
        assert_eq!(after.servers.len(), 1);
        assert!(after.servers[0].is_trusted() && !after.servers[0].is_enabled());
        let keys: Vec<&str> = after.user_overrides.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["*:write", "new:read", "older:x"]);
        let pin = &tx.pins(&to).await.unwrap()[0];
        assert_eq!((pin.server.to_string().as_str(), pin.state), ("new~new", PinState::Accepted));
        for (id, tool) in [(over, "mcp:new~new:read"), (running, "mcp:old~old:x"), (other, "mcp:old~older:read")] {
            assert_eq!(tx.tool_call(chat.id, id).await.unwrap().unwrap().tool_id.to_string(), tool);
        }
        let chat = tx.chat(chat.id).await.unwrap().unwrap();
        assert_eq!(chat.tool_selectors.unwrap(), ["mcp:new~new:read", "-toolset:new", "toolset:taken"]);
        assert!(!tx.rename_server(&from, &to).await.unwrap_or(false));
    }

    async fn nobody_waits_for_each_other_for_ever(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        install(&store, &org, "mine", true).await;
        let (mine, other) = (key("mine~mine"), key("other~other"));
        let rounds = if store.kind() == "postgres" { 150 } else { 20 };
        // What one of these finds may be gone, or there already. It is never told to come again.
        let crossing: [Crossing; 6] = [
            |mut tx, mine, _, n| Box::pin(async move {
                tx.see_tools(&mine, &list(&[("a", &n.to_string()), (&format!("t{n}"), "x")])).await?;
                tx.commit().await
            }),
            |mut tx, mine, _, n| Box::pin(async move {
                if tx.lock_server(&mine).await? {
                    tx.replace_server(&mine.toolset, &server("mine", if n % 2 == 0 { "npx" } else { "uvx" })).await?;
                    tx.describe_toolset(&mine.toolset, &"Called".parse().unwrap(), None).await?;
                }
                tx.commit().await
            }),
            |mut tx, mine, _, n| Box::pin(async move {
                tx.set_pin_policy(&mine, (n % 2 == 0).then_some(PinPolicy::Warn)).await?;
                tx.enable_server(&mine, None).await?;
                tx.commit().await
            }),
            |mut tx, mine, _, _| Box::pin(async move {
                tx.trust(&mine.toolset, mine.server.as_str(), &ContentHash::of(b"x")).await?;
                tx.uninstall_toolset(&mine.toolset).await?;
                tx.commit().await
            }),
            |mut tx, mine, other, _| Box::pin(async move {
                if tx.lock_server(&mine).await? {
                    tx.rename_server(&mine, &other).await?;
                }
                tx.commit().await
            }),
            |mut tx, mine, other, _| Box::pin(async move {
                if tx.lock_server(&other).await? {
                    tx.rename_server(&other, &mine).await?;
                } else {
                    let new = to_install("mine", true);
                    let replaces = tx.toolset(&mine.toolset).await?.map(|_| None);
                    match tx.install_toolset(&new, replaces.as_ref()).await {
                        Err(InstallError::Store(error)) => return Err(error),
                        // Somebody else was faster.
                        Err(_) => return Ok(()),
                        Ok(()) => {}
                    }
                }
                tx.commit().await
            }),
        ];
        let mut all = tokio::task::JoinSet::new();
        for one in crossing {
            let (store, org, mine, other) = (store.clone(), org.clone(), mine.clone(), other.clone());
            all.spawn(async move {
                for n in 0..rounds {
                    let tx = store.write(&org).await.unwrap();
                    match one(tx, mine.clone(), other.clone(), n).await {
                        Ok(()) | Err(StoreError::Exists | StoreError::Reference) => {}
                        Err(error) => panic!("round {n}: {error}"),
                    }
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    }

    async fn secrets(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let mut tx = store.write(&org).await.unwrap();
        tx.put_secret("oauth", "b", &[0, 255, 1]).await.unwrap();
        tx.put_secret("oauth", "a", b"first").await.unwrap();
        tx.put_secret("oauth", "a", b"second").await.unwrap();
        tx.put_secret("organisation", "a", b"other").await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = store.write(&org).await.unwrap();
        assert_eq!(tx.secret("oauth", "a").await.unwrap().as_deref(), Some(&b"second"[..]));
        assert_eq!(tx.secret("oauth", "c").await.unwrap(), None);
        let all = tx.secrets_of_kind("oauth").await.unwrap();
        assert_eq!(all, [("a".to_owned(), b"second".to_vec()), ("b".to_owned(), vec![0, 255, 1])]);
        assert!(tx.delete_secret("oauth", "a").await.unwrap());
        assert!(!tx.delete_secret("oauth", "a").await.unwrap());
        assert_eq!(tx.secret("organisation", "a").await.unwrap().as_deref(), Some(&b"other"[..]));
        let other = kitbag_testkit::database::add_organization(&store, "other");
        drop(tx);
        assert!(store.read(&other.await).await.unwrap().secrets_of_kind("organisation").await.unwrap().is_empty());
    }
}
