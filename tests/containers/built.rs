//! What the steps of a recipe may: reach no network unless their container may, and never this machine's own.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kitbag_testkit::TestDatabase;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{IMAGE, TOOLSETS, bundle, call, engine, import, new_chat, serve};

/// Kitbag is killed while an image is built and another one of its tools runs: the next start builds it anew, and nothing of the first try stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_it_builds_builds_when_it_starts_again() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let mut server = serve(&database, &podman, &[]);
    let recipe = format!("FROM {IMAGE}\nRUN [\"/bin/busybox\", \"sleep\", \"4\"]\n");
    let yaml = "id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    build: box\n    tools: [{id: say, command: [/bin/tool, nothing], input_schema: {type: object}}]\n";
    import(&server, "?trust=true", bundle(&[("toolset.yaml", yaml), ("box/Containerfile", &recipe)])).await.expect(201);
    let end = Instant::now() + Duration::from_secs(60);
    while podman.with_builders().is_empty() {
        assert!(Instant::now() < end, "nothing is built");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.signal(Signal::KILL);
    server.wait();
    let server = serve(&database, &podman, &[]);
    while !server.get(&format!("{TOOLSETS}/app")).await.expect(200)["containers"][0]["imageId"].is_string() {
        assert!(Instant::now() < end + Duration::from_secs(60), "nobody builds it");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(call(&server, &new_chat(&server).await, "say").await["status"], "success");
    while !podman.with_builders().is_empty() {
        assert!(Instant::now() < end + Duration::from_secs(60), "a step of a recipe is still there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A toolset that is built of a folder whose recipe looks at its network and dials this machine's loopback; no step is that of another such container,
/// whose result the engine might remember. What its tool returns is what they saw.
fn looking(port: u16, container: &str) -> Vec<u8> {
    let yaml = format!(
        "id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    build: box\n{container}    tools:\n      - \
         {{id: look, command: [/bin/sh, -c, \"cat /seen > $KITBAG_RESULT_FILE\"], input_schema: {{type: object}}}}\n"
    );
    let recipe = format!(
        "FROM {IMAGE}\nRUN echo '{}'; nc -w 1 127.0.0.1 {port} < /dev/null && reached=yes || reached=no; \
         echo \"{{\\\"reached\\\": \\\"$reached\\\", \\\"links\\\": \\\"$(ls /sys/class/net | tr '\\n' ' ')\\\"}}\" > /seen\n",
        container.trim()
    );
    bundle(&[("toolset.yaml", &yaml), ("box/Containerfile", &recipe)])
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_a_recipe_never_have_the_network_of_this_machine() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    std::thread::spawn(move || {
        listener.incoming().for_each(|_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
    });
    for (container, has_network) in [("", false), ("    permissions: {network: true}\n", true)] {
        import(&server, "?trust=true", looking(port, container)).await;
        server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
        let seen = call(&server, &new_chat(&server).await, "look").await;
        assert_eq!(seen["result"]["reached"], "no", "{seen}");
        let links = seen["result"]["links"].as_str().unwrap();
        assert_eq!(links.split(' ').any(|link| !link.is_empty() && link != "lo"), has_network, "{seen}");
        assert_eq!(reached.load(Ordering::SeqCst), 0, "a step reached this machine's loopback");
    }
}
