//! `kill -9` while toolsets are imported and uninstalled: afterwards there is one version or the other, whole, or none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Server, TestDatabase, on_both, sha256};
use reqwest::{Method, header};
use rustix::process::Signal;
use serde_json::Value;

use crate::crash_workspace::kills;
use crate::serve;

const TOOLSETS: &str = "/v1/orgs/local/toolsets";
/// At least so often a server is killed on each database; more with `KITBAG_KILLS`.
const KILLS: usize = 32;

/// A version of the toolset: what is sent, and what must be there when it is installed.
struct Version {
    number: &'static str,
    bundle: Vec<u8>,
    files: BTreeMap<String, String>,
    tools: Vec<String>,
}

fn version(number: &'static str, count: usize) -> Version {
    let tools: Vec<String> = (0..count % 7 + 1).map(|tool| format!("t{tool}")).collect();
    let listed: String = tools.iter().map(|id| format!("  - {{id: {id}, entrypoint: 't:f'}}\n")).collect();
    let manifest = format!(
        "id: app\nname: App\nversion: '{number}'\ntools:\n{listed}mcp_servers: [{{id: s{count}, command: x}}]\n\
         tool_overrides: [{{tool_id: t0, name_override: From {number}}}]\n"
    );
    let mut files = BTreeMap::from([
        ("toolset.yaml".to_owned(), manifest.into_bytes()),
        ("tools/t.py".to_owned(), format!("# {number}\ndef f(workspace): pass\n").into_bytes()),
        ("large.bin".to_owned(), number.bytes().cycle().take(300_000).collect()),
    ]);
    files.extend(
        (0..count).map(|file| (format!("data/{file}.txt"), format!("{number} {file}").repeat(50).into_bytes())),
    );
    let mut archive = ArchiveWriter::new(Vec::new());
    for (path, content) in &files {
        archive.file(&path.parse().unwrap(), false, &mut content.as_slice()).unwrap();
    }
    let files = files.into_iter().map(|(path, content)| (path, sha256(&content))).collect();
    Version { number, bundle: archive.finish().unwrap(), files, tools }
}

/// What somebody asks for, again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Import(usize),
    Uninstall,
}

fn request(server: &Server, versions: &[Version], act: Act) -> reqwest::RequestBuilder {
    match act {
        Act::Import(which) => server
            .request(Method::POST, &format!("{TOOLSETS}/import?force=true"))
            .header(header::CONTENT_TYPE, "application/zip")
            .body(versions[which].bundle.clone()),
        Act::Uninstall => server.request(Method::DELETE, &format!("{TOOLSETS}/app")),
    }
}

/// The rows and the files are those of one version, or there are none. Which.
async fn whole(server: &Server, database: &TestDatabase, versions: &[Version], exports: &[Vec<u8>]) -> Act {
    let kept = database.files_of_toolset("local", "app").await;
    for folder in ["toolsets/.staged", "inbox"] {
        let mut left: Vec<_> = std::fs::read_dir(database.data().join(folder))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect();
        if database.bucket().is_some() && !kept.is_empty() {
            // The copy of what is installed is no leaving, if there is one.
            let copy = database.folder_of_toolset("local", "app").await;
            left.retain(|path| *path != copy);
        }
        assert!(left.is_empty(), "{folder}: {left:?}");
    }
    let answer = server.get(&format!("{TOOLSETS}/app")).await;
    let tools = server.get("/v1/orgs/local/tools?limit=200").await.expect(200);
    let listed: Vec<&Value> =
        tools["items"].as_array().unwrap().iter().filter(|tool| tool["toolsetId"] == "app").collect();
    if answer.status == 404 {
        let place = database.data().join("toolsets/app");
        assert!(kept.is_empty() && !place.exists() && listed.is_empty(), "rows are gone and files are not");
        return Act::Uninstall;
    }
    let shown = answer.expect(200);
    let which = versions.iter().position(|version| shown["version"] == version.number).unwrap();
    let version = &versions[which];
    let mut said = BTreeMap::new();
    let mut query = "?limit=200".to_owned();
    loop {
        let part = server.get(&format!("{TOOLSETS}/app/files{query}")).await.expect(200);
        for file in part["items"].as_array().unwrap() {
            said.insert(file["path"].as_str().unwrap().to_owned(), file["sha256"].as_str().unwrap().to_owned());
        }
        let Some(cursor) = part["nextCursor"].as_str() else { break };
        query = format!("?limit=200&cursor={cursor}");
    }
    assert_eq!(said, version.files, "the rows are not those of {}", version.number);
    let kept: BTreeMap<String, String> = kept.into_iter().map(|(path, file)| (path, file.sha256)).collect();
    assert_eq!(kept, version.files, "the files are not those of {}", version.number);
    let ids: Vec<&str> = listed.iter().map(|tool| tool["id"].as_str().unwrap().trim_start_matches("app:")).collect();
    assert_eq!(ids, version.tools);
    assert_eq!(listed[0]["name"], format!("From {}", version.number));
    let servers = shown["mcpServers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{servers:?}");
    let export = server.request(Method::GET, &format!("{TOOLSETS}/app/export")).send().await.unwrap();
    assert_eq!(export.status(), 200);
    assert!(export.bytes().await.unwrap() == exports[which], "the export of {} is another", version.number);
    Act::Import(which)
}

async fn exports(server: &Server, versions: &[Version]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for which in 0..versions.len() {
        let done = Answer::of(request(server, versions, Act::Import(which))).await;
        assert!(done.status.is_success(), "{done:?}");
        let out = server.request(Method::GET, &format!("{TOOLSETS}/app/export")).send().await.unwrap();
        all.push(out.bytes().await.unwrap().to_vec());
    }
    all
}

on_both! {
    async fn a_toolset_is_one_version_or_the_other(database: TestDatabase) {
        // In a bucket each file is a request, and a kill meets one of them all the same.
        let (more, fewer) = if database.bucket().is_some() { (240, 210) } else { (600, 450) };
        let versions = [version("1.0.0", more), version("2.0.0", fewer)];
        let kills = kills().max(KILLS);
        let mut server = serve(&database);
        let exports = exports(&server, &versions).await;
        let began = Instant::now();
        Answer::of(request(&server, &versions, Act::Import(1))).await.expect(200);
        let took = began.elapsed();
        // What was acknowledged last.
        let mut last = Act::Import(1);
        let (mut cut_off, mut seen) = (0, Vec::new());
        for round in 0..kills {
            let acts: &[Act] = match round % 3 {
                0 | 1 => &[Act::Import(0), Act::Import(1)],
                _ => &[Act::Import(0), Act::Uninstall, Act::Import(1)],
            };
            let begun = AtomicUsize::new(0);
            let mut under_way = None;
            let work = async {
                for act in acts.iter().cycle() {
                    under_way = Some(*act);
                    begun.fetch_add(1, Ordering::Relaxed);
                    let Ok(answer) = request(&server, &versions, *act).send().await else { return };
                    let status = answer.status().as_u16();
                    if answer.bytes().await.is_err() { return }
                    assert!(matches!(status, 200 | 201 | 204), "{act:?}: {status}");
                    (last, under_way) = (*act, None);
                }
            };
            // Anywhere in the first, second or third of them: the moments are spread over the time that one takes.
            let kill = async {
                while begun.load(Ordering::Relaxed) <= round % 3 {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
                tokio::time::sleep(took.mul_f64((round * 37 % 100) as f64 / 100.0)).await;
                server.signal(Signal::KILL);
            };
            tokio::join!(work, kill);
            server.wait();
            server = serve(&database);
            let now = whole(&server, &database, &versions, &exports).await;
            assert!(now == last || Some(now) == under_way, "there is {now:?} after {last:?}, and {under_way:?} was under way");
            cut_off += usize::from(under_way.is_some());
            (last, under_way) = (now, None);
            let _ = under_way;
            seen.push(now);
        }
        assert!(cut_off >= kills / 2, "only {cut_off} of {kills} kills met something under way");
        assert!(seen.contains(&Act::Import(0)) && seen.contains(&Act::Import(1)), "{seen:?}");
    }

    async fn what_comes_at_once_comes_one_after_the_other(database: TestDatabase) {
        let versions = [version("1.0.0", 30), version("2.0.0", 20)];
        let server = serve(&database);
        let exports = exports(&server, &versions).await;
        for round in 0..6 {
            let acts = [Act::Import(0), Act::Import(1), Act::Import(0), if round % 2 == 0 { Act::Uninstall } else { Act::Import(1) }];
            let mut all = tokio::task::JoinSet::new();
            for act in acts {
                all.spawn(Answer::of(request(&server, &versions, act)));
            }
            for answer in all.join_all().await {
                let fine = answer.status.is_success() || answer.body["code"] == "CONFLICT" || answer.body["code"] == "TOOLSET_NOT_FOUND";
                assert!(fine, "{answer:?}");
            }
            whole(&server, &database, &versions, &exports).await;
        }
    }
}

/// What nobody knows in the folder of half-made things goes away at the start, whatever it is, and does not stop it.
#[tokio::test]
async fn strangers_among_what_is_staged_go_away() {
    let database = TestDatabase::sqlite();
    let versions = [version("1.0.0", 5)];
    let server = serve(&database);
    let exports = exports(&server, &versions).await;
    drop(server);
    let staged = database.data().join("toolsets/.staged");
    std::fs::create_dir_all(staged.join("01890a5d-ac96-774b-bcce-b302099a8057/a")).unwrap();
    std::fs::create_dir_all(staged.join("old-x")).unwrap();
    for file in ["a-file", "gone-app", "gone-nobody", "gone-NOT AN ID", "01890a5d-ac96-774b-bcce-b302099a8057/a/b"] {
        std::fs::write(staged.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink(database.data(), staged.join("link")).unwrap();
    let server = serve(&database);
    assert_eq!(whole(&server, &database, &versions, &exports).await, Act::Import(0));
    assert!(!server.log().contains("\"ERROR\""), "{}", server.log());
}
