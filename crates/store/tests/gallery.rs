//! What is published, on both databases: who sees it, who may change it, and whose a name is.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;

use kitbag_model::{
    ContentHash, Definition, GallerySummary, GalleryTool, Install, McpServer, OrgId, Permissions, PublicSlug,
    Publication, PythonNeeds, RawLaunch, SourceType, ToolsetId, Visibility,
};
use kitbag_store::{PublishError, Store};
use kitbag_testkit::cluster::{APP, SUPERUSER, run, try_run};
use kitbag_testkit::database::add_organization;
use kitbag_testkit::{TestDatabase, on_both};

async fn install(store: &Store, org: &OrgId, id: &str) -> ToolsetId {
    let id: ToolsetId = id.parse().unwrap();
    let install = Install {
        definition: Definition {
            id: id.clone(),
            name: "App".parse().unwrap(),
            version: "1.0.0".parse().unwrap(),
            description: None,
            tools: Vec::new(),
            overrides: Vec::new(),
            servers: vec![server(id.as_str())],
            containers: Vec::new(),
            skills: Vec::new(),
            python: PythonNeeds::default(),
            permissions: Permissions::default(),
        },
        skills: Vec::new(),
        files: Vec::new(),
        source_type: SourceType::Zip,
        source_ref: None,
        generation: None,
        user_mcp: false,
        visibility: Visibility::Org,
        adopted_from: None,
        by: None,
    };
    let mut tx = store.write(org).await.unwrap();
    tx.install_toolset(&install, None).await.unwrap();
    tx.commit().await.unwrap();
    id
}

fn server(id: &str) -> McpServer {
    McpServer {
        id: id.parse().unwrap(),
        launch: RawLaunch { command: Some("nopx".to_owned()), ..RawLaunch::default() }.check().unwrap(),
        enabled: true,
        requires_confirmation: None,
        description: None,
    }
}

fn publication(toolset: &ToolsetId, slug: &str) -> Publication {
    let tool = |id: &str| GalleryTool { id: id.to_owned(), name: id.to_owned(), description: None };
    Publication {
        slug: slug.parse().unwrap(),
        toolset: toolset.clone(),
        name: format!("Called {slug}"),
        description: Some("For tests".to_owned()),
        version: "1.0.0".to_owned(),
        summary: GallerySummary { tools: vec![tool("read"), tool("write")], ..GallerySummary::default() },
        bundle: ContentHash::of(b"bundle"),
        bundle_size: 6,
    }
}

async fn publish(store: &Store, org: &OrgId, toolset: &ToolsetId, slug: &str) -> Result<(), PublishError> {
    let mut tx = store.write(org).await?;
    tx.publish_toolset(&publication(toolset, slug), None).await?;
    Ok(tx.commit().await?)
}

async fn unpublish(store: &Store, org: &OrgId, toolset: &ToolsetId) -> Option<Option<ContentHash>> {
    let mut tx = store.write(org).await.unwrap();
    let bundle = tx.unpublish_toolset(toolset, Visibility::Private, None).await.unwrap();
    tx.commit().await.unwrap();
    bundle
}

async fn slugs(store: &Store) -> Vec<String> {
    let published = store.gallery().await.unwrap().published().await.unwrap();
    published.into_iter().map(|(slug, _)| slug.to_string()).collect()
}

fn slug(text: &str) -> PublicSlug {
    text.parse().unwrap()
}

on_both! {
    async fn a_name_is_one_organisations_for_good(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let globex = add_organization(&store, "globex").await;
        let (ours, second) = (install(&store, &acme, "app").await, install(&store, &acme, "second").await);
        let theirs = install(&store, &globex, "app").await;
        publish(&store, &acme, &ours, "weather").await.unwrap();
        let entry = store.gallery().await.unwrap().entry(&slug("weather")).await.unwrap().unwrap();
        assert_eq!((entry.card.name.as_str(), entry.card.tool_count, &entry.toolset), ("Called weather", 2, &ours));
        assert_eq!(entry.summary, publication(&ours, "weather").summary);
        let row = store.read(&acme).await.unwrap().toolset(&ours).await.unwrap().unwrap();
        assert_eq!((row.visibility, row.public_slug), (Visibility::Public, Some(slug("weather"))));
        assert_eq!(row.published_at, Some(entry.card.published_at));

        // While it is published nobody gets it, not even another toolset of the same organisation; and no toolset has two names.
        for (org, toolset) in [(&globex, &theirs), (&acme, &second)] {
            assert!(matches!(publish(&store, org, toolset, "weather").await, Err(PublishError::Taken)));
            let row = store.read(org).await.unwrap().toolset(toolset).await.unwrap().unwrap();
            assert_eq!(row.visibility, Visibility::Org, "nothing of it stays");
        }
        assert!(matches!(publish(&store, &acme, &ours, "other").await, Err(PublishError::NotThere)));
        assert!(matches!(publish(&store, &globex, &ours.as_str().replace("app", "none").parse().unwrap(), "other").await, Err(PublishError::NotThere)));
        // Another organisation takes nothing back.
        assert_eq!(unpublish(&store, &globex, &theirs).await, Some(None));
        assert_eq!(slugs(&store).await, ["weather"]);

        assert_eq!(unpublish(&store, &acme, &ours).await, Some(Some(ContentHash::of(b"bundle"))));
        assert!(slugs(&store).await.is_empty());
        assert!(store.gallery().await.unwrap().entry(&slug("weather")).await.unwrap().is_none());
        assert!(!store.gallery().await.unwrap().needs(&ContentHash::of(b"bundle")).await.unwrap());
        let row = store.read(&acme).await.unwrap().toolset(&ours).await.unwrap().unwrap();
        assert_eq!((row.visibility, row.public_slug, row.published_at), (Visibility::Private, None, None));
        // A name that was taken back is still nobody else's, and answers others as before.
        assert!(matches!(publish(&store, &globex, &theirs, "weather").await, Err(PublishError::Taken)));
        publish(&store, &acme, &second, "weather").await.unwrap();
        assert_eq!(slugs(&store).await, ["weather"]);
        assert_eq!(unpublish(&store, &acme, &"none".parse().unwrap()).await, None);
    }

    async fn of_two_that_reach_for_a_name_at_once_one_gets_it(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let globex = add_organization(&store, "globex").await;
        let (ours, theirs) = (install(&store, &acme, "app").await, install(&store, &globex, "app").await);
        for round in 0..10 {
            let name = format!("name-{round}");
            let (a, b) = tokio::join!(publish(&store, &acme, &ours, &name), publish(&store, &globex, &theirs, &name));
            match (&a, &b) {
                (Ok(()), Err(PublishError::Taken)) => unpublish(&store, &acme, &ours).await,
                (Err(PublishError::Taken), Ok(())) => unpublish(&store, &globex, &theirs).await,
                _ => panic!("{a:?} {b:?}"),
            };
        }
    }

    /// Nothing is left in the gallery that nobody could take back any more.
    async fn what_is_published_goes_with_its_toolset_and_its_organisation(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let globex = add_organization(&store, "globex").await;
        let (ours, theirs) = (install(&store, &acme, "app").await, install(&store, &globex, "app").await);
        publish(&store, &acme, &ours, "weather").await.unwrap();
        publish(&store, &globex, &theirs, "garden").await.unwrap();
        let mut tx = store.write(&acme).await.unwrap();
        assert!(tx.uninstall_toolset(&ours).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(slugs(&store).await, ["garden"]);
        assert!(matches!(publish(&store, &globex, &theirs, "weather").await, Err(PublishError::NotThere)));
        unpublish(&store, &globex, &theirs).await;
        assert!(matches!(publish(&store, &globex, &theirs, "weather").await, Err(PublishError::Taken)), "it stays reserved");
    }

    /// A server that a person added gets another id, and its toolset with it.
    async fn a_published_toolset_that_is_renamed_stays_published(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let app = install(&store, &acme, "app").await;
        publish(&store, &acme, &app, "weather").await.unwrap();
        let mut tx = store.write(&acme).await.unwrap();
        assert!(tx.rename_server(&"app~app".parse().unwrap(), &"new~new".parse().unwrap()).await.unwrap());
        tx.commit().await.unwrap();
        let entry = store.gallery().await.unwrap().entry(&slug("weather")).await.unwrap().unwrap();
        assert_eq!(entry.toolset.as_str(), "new");
        assert_eq!(unpublish(&store, &acme, &entry.toolset).await, Some(Some(entry.bundle)));
        assert!(slugs(&store).await.is_empty());
    }

    async fn a_list_goes_on_where_it_ended(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let mut expected = BTreeSet::new();
        for number in 0..23 {
            let toolset = install(&store, &acme, &format!("app-{number}")).await;
            let name = format!("name-{number:02}");
            publish(&store, &acme, &toolset, &name).await.unwrap();
            expected.insert(name);
        }
        let mut found: Vec<kitbag_model::GalleryCard> = Vec::new();
        loop {
            let last = found.last().map(|card| (card.published_at, &card.slug));
            let page = store.gallery().await.unwrap().cards(last, 5).await.unwrap();
            assert!(page.items.len() <= 5);
            found.extend(page.items);
            if !page.has_more { break }
        }
        assert!(found.is_sorted_by_key(|card| std::cmp::Reverse((card.published_at, card.slug.clone()))));
        let slugs: Vec<String> = found.iter().map(|card| card.slug.to_string()).collect();
        assert_eq!(slugs.len(), 23);
        assert_eq!(slugs.into_iter().collect::<BTreeSet<_>>(), expected);
        let all = store.gallery().await.unwrap().with_words().await.unwrap();
        assert_eq!(all.iter().map(|(card, _)| card).collect::<Vec<_>>(), found.iter().collect::<Vec<_>>());
        assert_eq!(all[0].1, "read\nwrite");
        assert_eq!(store.gallery().await.unwrap().bundles().await.unwrap(), [ContentHash::of(b"bundle")]);
    }
}

/// The rows of the facts' table, as a connection of the app role meets them.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_itself_shows_what_is_published_and_lets_nobody_else_change_it() {
    let database = TestDatabase::postgres().await;
    let (store, acme) = database.open_with("acme").await;
    let globex = add_organization(&store, "globex").await;
    let app = install(&store, &acme, "app").await;
    let (second, third) = (install(&store, &acme, "second").await, install(&store, &globex, "third").await);
    publish(&store, &acme, &app, "weather").await.unwrap();
    publish(&store, &acme, &second, "reserved").await.unwrap();
    publish(&store, &globex, &third, "garden").await.unwrap();
    unpublish(&store, &acme, &second).await;
    let mut connection = database.connect(APP).await;
    for (org, sql, expected) in [
        ("", "SELECT FROM gallery_toolsets", Ok(2)),
        ("globex", "SELECT FROM gallery_toolsets WHERE slug = 'weather'", Ok(1)),
        ("globex", "SELECT FROM gallery_toolsets WHERE slug = 'reserved'", Ok(0)),
        ("globex", "SELECT FROM toolsets WHERE visibility = 'public'", Ok(1)),
        ("", "SELECT FROM toolsets", Ok(0)),
        ("globex", "UPDATE gallery_toolsets SET name = 'mine' WHERE slug = 'weather'", Ok(0)),
        ("globex", "UPDATE gallery_toolsets SET organization_id = 'globex' WHERE slug = 'weather'", Ok(0)),
        ("globex", "DELETE FROM gallery_toolsets WHERE slug = 'weather'", Ok(0)),
        ("globex", "DELETE FROM gallery_toolsets WHERE slug = 'reserved'", Ok(0)),
        ("", "UPDATE gallery_toolsets SET name = 'mine'", Ok(0)),
        ("", "DELETE FROM gallery_toolsets", Ok(0)),
        ("globex", "INSERT INTO gallery_toolsets (slug, organization_id) VALUES ('new', 'acme')", Err("42501")),
        (
            "globex",
            "INSERT INTO gallery_toolsets (slug, organization_id) VALUES ('reserved', 'globex') ON CONFLICT (slug) DO NOTHING",
            Ok(0),
        ),
        ("acme", "SELECT FROM gallery_toolsets WHERE slug = 'reserved'", Ok(1)),
        ("acme", "UPDATE gallery_toolsets SET name = 'ours' WHERE slug = 'weather'", Ok(1)),
        ("acme", "DELETE FROM toolsets WHERE id = 'app'", Err("23503")),
    ] {
        run(&mut connection, "BEGIN").await;
        run(&mut connection, &format!("SELECT set_config('kitbag.org', '{org}', true)")).await;
        let outcome = try_run(&mut connection, sql)
            .await
            .map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned());
        run(&mut connection, "ROLLBACK").await;
        assert_eq!(outcome.as_ref().copied().map_err(String::as_str), expected, "{org:?}: {sql}");
    }
    // An organisation that is deleted takes along what it published.
    run(&mut database.connect(SUPERUSER).await, "DELETE FROM organizations WHERE id = 'acme'").await;
    assert_eq!(slugs(&store).await, ["garden"]);
}

/// Whatever is published, a page of it costs what the page has.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_five_thousand_reads_little_of_the_rest() {
    let database = TestDatabase::postgres().await;
    let (store, _) = database.open_with("acme").await;
    let mut superuser = database.connect(SUPERUSER).await;
    run(
        &mut superuser,
        "INSERT INTO toolsets (organization_id, id, name, version, enabled, user_mcp, installed_at, updated_at, source_type,
             manifest_version, visibility, public_slug)
         SELECT 'acme', 'app-' || n, 'n', '1.0.0', true, false, now(), now(), 'zip', '1', 'public', 'name-' || n
         FROM generate_series(1, 5000) n",
    )
    .await;
    run(
        &mut superuser,
        "INSERT INTO gallery_toolsets (slug, organization_id, published_at, toolset_id, name, version, tool_count, server_count,
             skill_count, words, summary, bundle_sha256, bundle_size)
         SELECT 'name-' || n, 'acme', timestamptz '2026-01-01' + n * interval '1 minute', 'app-' || n, 'n', '1.0.0', 0, 0, 0, '',
             '{}', 'h', 0
         FROM generate_series(1, 5000) n",
    )
    .await;
    run(&mut superuser, "ANALYZE gallery_toolsets").await;
    let read =
        "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables WHERE relname = 'gallery_toolsets'";
    let before: i64 = sqlx::query_scalar(read).fetch_one(&mut superuser).await.unwrap();
    let first = store.gallery().await.unwrap().cards(None, 50).await.unwrap();
    assert_eq!((first.items[0].slug.as_str(), first.items.len(), first.has_more), ("name-5000", 50, true));
    let middle = ("2026-01-02T00:00:00.000Z".parse().unwrap(), &slug("name-1440"));
    let second = store.gallery().await.unwrap().cards(Some(middle), 50).await.unwrap();
    assert_eq!(second.items[0].slug.as_str(), "name-1439");
    // A connection tells what it read when it ends.
    store.close().await;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        run(&mut superuser, "SELECT pg_stat_clear_snapshot()").await;
        let after: i64 = sqlx::query_scalar(read).fetch_one(&mut superuser).await.unwrap();
        if after - before >= 102 {
            assert!(after - before < 1000, "{} rows were read for two pages of fifty", after - before);
            return;
        }
        assert!(std::time::Instant::now() < end, "the database does not tell what was read");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
