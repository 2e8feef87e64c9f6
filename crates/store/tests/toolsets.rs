//! Installed toolsets on both databases.
#![allow(clippy::unwrap_used, missing_docs)]

use kitbag_model::{
    Audience, ContentHash, Definition, FileKind, Install, McpServer, OrgId, Override, OverrideKey, Permissions,
    PythonNeeds, PythonTool, RawLaunch, Skill, SkillRef, SourceType, ToolsetFile, Visibility, renderer,
};
use kitbag_store::{InstallError, Store};
use kitbag_testkit::on_both;
use serde_json::json;

fn key(text: &str) -> OverrideKey {
    OverrideKey::parse(text, &"app".parse().unwrap()).unwrap()
}

fn named(name: &str) -> Override {
    Override { name: Some(name.to_owned()), ..Override::default() }
}

fn server(id: &str, command: &str) -> McpServer {
    let launch = RawLaunch {
        command: Some(command.to_owned()),
        args: vec!["-y".to_owned(), "${PACKAGE}".to_owned()],
        env: [("API_KEY".to_owned(), "${ENV:MY_KEY}".to_owned())].into(),
        ..RawLaunch::default()
    };
    McpServer {
        id: id.parse().unwrap(),
        launch: launch.check().unwrap(),
        enabled: true,
        requires_confirmation: None,
        description: None,
    }
}

fn tool(id: &str) -> PythonTool {
    PythonTool {
        id: id.parse().unwrap(),
        entrypoint: "tools.files:write_file".parse().unwrap(),
        name: Some("Write".parse().unwrap()),
        description: None,
        input_schema: Some(json!({ "type": "object", "z": 1, "a": 2 }).as_object().unwrap().clone()),
        requires_confirmation: None,
        enabled: true,
    }
}

fn install(version: &str, generation: &str) -> Install {
    let rendering = renderer::check(Some("code"), Some(&json!({ "file": "$args.path" }))).unwrap();
    let skill = SkillRef { id: "style".parse().unwrap(), path: "skills/style".parse().unwrap(), enabled: true };
    Install {
        definition: Definition {
            id: "app".parse().unwrap(),
            name: "App".parse().unwrap(),
            version: version.parse().unwrap(),
            description: None,
            tools: vec![tool("z_last"), tool("a_first")],
            overrides: vec![(key("z_last"), Override { rendering, ..Override::default() }), (key("srv:*"), named("S"))],
            servers: vec![server("srv", "npx"), server("other", "uvx")],
            containers: Vec::new(),
            skills: vec![skill.clone()],
            python: PythonNeeds::default(),
            permissions: Permissions { network: true, listen: false },
        },
        skills: vec![Skill { reference: skill, listed: true, name: "Style".into(), description: Some("How".into()) }],
        files: (0..1200)
            .map(|number| ToolsetFile {
                path: format!("assets/{number:05}").parse().unwrap(),
                kind: FileKind::Asset,
                sha256: ContentHash::of(&[]),
                size: 0,
                executable: number == 7,
            })
            .collect(),
        source_type: SourceType::Zip,
        source_ref: Some("app.zip".to_owned()),
        generation: Some(generation.to_owned()),
        user_mcp: false,
        visibility: Visibility::Org,
        adopted_from: None,
        by: None,
    }
}

async fn put(store: &Store, org: &OrgId, new: &Install, replaces: Option<&str>) -> Result<(), InstallError> {
    let mut tx = store.write(org).await.unwrap();
    let replaces = replaces.map(|generation| Some(generation.to_owned()));
    tx.install_toolset(new, replaces.as_ref()).await?;
    tx.commit().await.unwrap();
    Ok(())
}

on_both! {
    async fn what_is_installed_is_read_back(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let new = install("1.0.0", "g1");
        put(&store, &org, &new, None).await.unwrap();
        let mut tx = store.read(&org).await.unwrap();
        let found = tx.installed(&new.definition.id).await.unwrap().unwrap();
        assert_eq!(found.merged(), new.definition);
        assert_eq!(found.skills[0].skill, new.skills[0]);
        assert_eq!((found.toolset.enabled, found.toolset.source_ref.as_deref()), (true, Some("app.zip")));
        assert_eq!(tx.all_installed().await.unwrap(), [found]);
        let mut files = Vec::new();
        loop {
            let after = files.last().map(|file: &ToolsetFile| file.path.clone());
            let page = tx.toolset_files(&new.definition.id, after.as_ref(), 500).await.unwrap();
            files.extend(page.items);
            if !page.has_more { break }
        }
        assert_eq!(files, new.files);
        drop(tx);
        // Another organisation has its own, or none.
        let other = kitbag_testkit::database::add_organization(&store, "other").await;
        assert!(store.read(&other).await.unwrap().installed(&new.definition.id).await.unwrap().is_none());
        put(&store, &other, &install("2.0.0", "x"), None).await.unwrap();
        let mut tx = store.read(&org).await.unwrap();
        assert_eq!(tx.toolset(&new.definition.id).await.unwrap().unwrap().version, new.definition.version);
    }

    async fn a_new_version_keeps_what_a_person_said(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let new = install("1.0.0", "g1");
        let id = new.definition.id.clone();
        put(&store, &org, &new, None).await.unwrap();
        let mut tx = store.write(&org).await.unwrap();
        tx.set_override(&id, &key("z_last"), &named("Mine")).await.unwrap();
        tx.set_override(&id, &key("z_last"), &named("Mine, again")).await.unwrap();
        tx.set_override(&id, &key("not_there_yet"), &named("Later")).await.unwrap();
        assert!(tx.enable_toolset(&id, false).await.unwrap());
        for one in &new.definition.servers {
            tx.trust(&id, one.id.as_str(), &one.fingerprint()).await.unwrap();
        }
        let now = tx.installed(&id).await.unwrap().unwrap();
        tx.trust(&id, "", &now.fingerprint()).await.unwrap();
        tx.commit().await.unwrap();
        let before = store.read(&org).await.unwrap().installed(&id).await.unwrap().unwrap();
        assert!(before.is_trusted() && before.servers.iter().all(kitbag_model::InstalledServer::is_trusted));

        let mut newer = install("1.1.0", "g2");
        newer.definition.servers = vec![server("third", "uvx"), server("srv", "another")];
        newer.definition.tools.truncate(1);
        newer.files.truncate(3);
        put(&store, &org, &newer, Some("g1")).await.unwrap();
        let after = store.read(&org).await.unwrap().installed(&id).await.unwrap().unwrap();
        assert_eq!(after.toolset.installed_at, before.toolset.installed_at);
        assert!(!after.toolset.enabled);
        let user: Vec<_> = after.user_overrides.iter().map(|(key, over)| (key.as_str(), over.name.as_deref())).collect();
        assert_eq!(user, [("app:not_there_yet", Some("Later")), ("app:z_last", Some("Mine, again"))]);
        assert_eq!(after.bundle_overrides, newer.definition.overrides);
        let trusted: Vec<_> = after.servers.iter().map(|one| (one.server.id.as_str(), one.is_trusted())).collect();
        assert_eq!(trusted, [("third", false), ("srv", false)], "a changed launch is not trusted");
        assert!(after.is_trusted());
        assert_eq!(after.servers[1].created_at, before.servers[0].created_at);
        // Trust in a server that went and came back is gone.
        put(&store, &org, &install("1.2.0", "g3"), Some("g2")).await.unwrap();
        let back = store.read(&org).await.unwrap().installed(&id).await.unwrap().unwrap();
        let trusted: Vec<_> = back.servers.iter().map(|one| (one.server.id.as_str(), one.is_trusted())).collect();
        // And so is trust in a launch that was changed and changed back: the yes was void, and nobody said it again.
        assert_eq!(trusted, [("srv", false), ("other", false)]);
    }

    async fn of_two_who_install_one_wins(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        put(&store, &org, &install("1.0.0", "g1"), None).await.unwrap();
        assert!(matches!(put(&store, &org, &install("9.0.0", "x"), None).await, Err(InstallError::Conflict)));
        put(&store, &org, &install("1.1.0", "g2"), Some("g1")).await.unwrap();
        assert!(matches!(put(&store, &org, &install("9.0.0", "x"), Some("g1")).await, Err(InstallError::Conflict)));
        let mut tx = store.write(&org).await.unwrap();
        let id = "app".parse().unwrap();
        assert!(tx.uninstall_toolset(&id).await.unwrap());
        assert!(!tx.uninstall_toolset(&id).await.unwrap());
        tx.commit().await.unwrap();
        assert!(matches!(put(&store, &org, &install("9.0.0", "x"), Some("g2")).await, Err(InstallError::Conflict)));
        assert!(store.read(&org).await.unwrap().all_installed().await.unwrap().is_empty());
    }

    async fn lists_are_cut_and_sorted(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        for (id, user_mcp) in [("b", false), ("a", true), ("c_c", false), ("c-c", true)] {
            let mut new = install("1.0.0", "g");
            new.definition.id = id.parse().unwrap();
            new.definition.overrides.clear();
            new.user_mcp = user_mcp;
            put(&store, &org, &new, None).await.unwrap();
        }
        let mut tx = store.read(&org).await.unwrap();
        for (filter, ids) in [(None, vec!["a", "b", "c-c", "c_c"]), (Some(true), vec!["a", "c-c"]), (Some(false), vec!["b", "c_c"])] {
            let mut found: Vec<String> = Vec::new();
            loop {
                let after = found.last().map(|id| id.parse().unwrap());
                let page = tx.toolsets(Audience::Everything, filter, after.as_ref(), 1).await.unwrap();
                found.extend(page.items.iter().map(|toolset| toolset.id.to_string()));
                if !page.has_more { break }
            }
            assert_eq!(found, ids);
        }
        let order: Vec<_> = tx.all_installed().await.unwrap().iter().map(|one| one.toolset.id.to_string()).collect();
        assert_eq!(order, ["b", "a", "c_c", "c-c"]);
    }

    async fn builtin_tools_take_overrides(database: TestDatabase) {
        let (store, org) = database.open_with("acme").await;
        let key = OverrideKey::parse("run_command", &kitbag_model::ToolsetId::builtin()).unwrap();
        let mut tx = store.write(&org).await.unwrap();
        tx.set_builtin_override(&key, &named("Shell")).await.unwrap();
        tx.set_builtin_override(&key, &Override { enabled: Some(false), ..Override::default() }).await.unwrap();
        let found = tx.builtin_overrides().await.unwrap();
        assert_eq!(found, [(key.clone(), Override { enabled: Some(false), ..Override::default() })]);
        assert!(tx.clear_builtin_override(&key).await.unwrap());
        assert!(!tx.clear_builtin_override(&key).await.unwrap());
    }
}
