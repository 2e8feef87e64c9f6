//! Which image a container is: the one that was trusted, whatever its name means later; built of a folder that was trusted; tools that it names itself.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use kitbag_testkit::{Podman, TestDatabase};
use serde_json::{Value, json};

use crate::kit::{IMAGE, SCRIPT, TOOLS, TOOLSETS, ask, bundle, call, engine, import, manifest, new_chat, serve};

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_changed_is_not_followed_until_it_is_trusted_again() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))])).await.expect(201);
    let chat = new_chat(&server).await;
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
    podman.image(IMAGE, &[("bin/tool", "#!/bin/sh\necho '\"another\"' > $KITBAG_RESULT_FILE\n")], &[]);
    ask(&server, &chat, "app:nothing", json!({})).await.expect_error(409, "QUARANTINED");
    let detail = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
    assert!(detail["containers"][0]["movedTo"].is_string(), "{detail}");
    let tool = server.get(&format!("{TOOLS}/app:nothing")).await.expect(200);
    assert!(tool.to_string().contains("not the one that was trusted"), "{tool}");
    // What is trusted is what was shown, not what the name means by the time somebody says yes.
    let shown = detail["containers"][0]["movedTo"].clone();
    podman.run(&["tag", shown.as_str().unwrap().trim_start_matches("sha256:"), "localhost/kept:1"]);
    podman.image(IMAGE, &[("bin/tool", "#!/bin/sh\necho '\"a third\"' > $KITBAG_RESULT_FILE\n")], &[]);
    // Somebody who saw another one is not taken at their word.
    let other = json!({ "images": { "box": detail["containers"][0]["imageId"] } });
    server.post(&format!("{TOOLSETS}/app/trust"), &other).await.expect_error(409, "CONFLICT");
    let none = json!({ "images": { "box": null } });
    server.post(&format!("{TOOLSETS}/app/trust"), &none).await.expect_error(409, "CONFLICT");
    server.post(&format!("{TOOLSETS}/app/trust"), &json!({ "images": { "box": shown } })).await.expect(200);
    ask(&server, &chat, "app:nothing", json!({})).await.expect_error(409, "QUARANTINED");
    let detail = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
    assert_eq!(detail["containers"][0]["imageId"], shown, "{detail}");
    podman.run(&["tag", "localhost/kept:1", IMAGE]);
    assert_eq!(call(&server, &chat, "nothing").await["result"], "another");

    // A yes at an import is one to the image that its dry run showed, and to no other.
    let packed = || bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))]);
    podman.image(IMAGE, &[("bin/tool", "#!/bin/sh\necho '\"a fourth\"' > $KITBAG_RESULT_FILE\n")], &[]);
    ask(&server, &chat, "app:nothing", json!({})).await.expect_error(409, "QUARANTINED");
    import(&server, "?trust=true", packed()).await.expect(200);
    ask(&server, &chat, "app:nothing", json!({})).await.expect_error(409, "QUARANTINED");
    let plan = import(&server, "?dryRun=true", packed()).await.expect(200)["containers"][0].clone();
    assert_eq!(plan["imageId"], shown, "{plan}");
    let yes = |image: &Value| format!("?trust=true&images={}", json!({ "box": image }).to_string().replace('"', "%22"));
    for other in [&plan["imageId"], &Value::Null] {
        import(&server, &yes(other), packed()).await.expect_error(409, "CONFLICT");
    }
    import(&server, "?trust=true&images=box", packed()).await.expect_error(400, "BAD_REQUEST");
    import(&server, &yes(&plan["movedTo"]), packed()).await.expect(200);
    assert_eq!(call(&server, &chat, "nothing").await["result"], "a fourth");
}

/// The name goes, and the image stays: it is the one that was trusted.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_its_name_is_still_the_one() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))])).await.expect(201);
    let chat = new_chat(&server).await;
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
    podman.run(&["tag", IMAGE, "localhost/kept:1"]);
    podman.run(&["untag", IMAGE, IMAGE]);
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_had_is_told() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["nothing"], "", "").replace(IMAGE, "127.0.0.1:9/nobody/none:1");
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    let refused = server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await;
    refused.expect_error(503, "UNAVAILABLE");
    assert!(
        refused.body["message"].as_str().unwrap().contains("127.0.0.1:9/nobody/none:1 cannot be had"),
        "{:?}",
        refused.body
    );
    let detail = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
    assert_eq!(detail["containers"][0]["problem"], refused.body["message"]);
}

/// What is wrong with one container keeps nobody from the others.
#[tokio::test(flavor = "multi_thread")]
async fn each_container_is_prepared_for_itself() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["nothing"], "", LABELLED).replace(&format!("image: {IMAGE}"), "image: 127.0.0.1:9/none:1");
    podman.image("localhost/second:1", &[("bin/tool", SCRIPT)], &[SECOND]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    let refused = server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await;
    refused.expect_error(503, "UNAVAILABLE");
    assert!(refused.body["message"].as_str().unwrap().contains("127.0.0.1:9/none:1"), "{:?}", refused.body);
    let detail = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
    assert!(detail["containers"][1]["imageId"].is_string(), "{detail}");
    assert_eq!(call(&server, &new_chat(&server).await, "later").await["status"], "success");
}

/// The engine is away when somebody trusts a toolset whose tools its image names, and still when the server is started again: they come when it does.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_had_is_tried_again_without_anybody_asking() {
    let (mut podman, database) = (engine(), TestDatabase::sqlite());
    podman.image("localhost/second:1", &[("bin/tool", SCRIPT)], &[SECOND]);
    let mut server = serve(&database, &podman, &[]);
    podman.kill();
    let yaml = format!("id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n{LABELLED}");
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    crate::kit::stop(&mut server);
    let server = serve(&database, &podman, &[]);
    podman.again();
    let end = Instant::now() + Duration::from_secs(60);
    while !server.get(TOOLS).await.expect(200).to_string().contains("app:later") {
        assert!(Instant::now() < end, "nobody looks for its image");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(call(&server, &new_chat(&server).await, "later").await["status"], "success");
}

/// A container whose tools stand in its image's label, and that.
const LABELLED: &str = "  - {id: second, image: \"localhost/second:1\"}\n";
const SECOND: &str =
    r#"LABEL io.kitbag.tools=[{"id":"later","input_schema":{"type":"object"},"command":["/bin/tool","nothing"]}]"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_built_of_a_trusted_folder_and_names_its_tools() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let server = serve(&database, &podman, &[]);
    let label = r#"[{"id": "nothing", "description": "Does nothing", "input_schema": {"type": "object"}, "command": ["/bin/made", "words"], "renderer": {"type": "code", "content": "$return"}}]"#;
    let recipe = format!(
        "FROM {IMAGE}\nCOPY made /bin/made\nRUN [\"/bin/busybox\", \"chmod\", \"755\", \"/bin/made\"]\nLABEL io.kitbag.tools='{label}'\n"
    );
    let yaml = "id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n  - {id: box, build: box}\n";
    let made = SCRIPT.replace("'not JSON'", "'\"built\"'");
    let packed = |made: &str| bundle(&[("toolset.yaml", yaml), ("box/Containerfile", &recipe), ("box/made", made)]);
    import(&server, "", packed(&made)).await.expect(201);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
    assert!(!podman.images(&[]).contains("kitbag-app-box"), "nothing is built before somebody trusts it");
    server.post(&format!("{TOOLSETS}/app/trust"), &json!({})).await.expect(200);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
    let chat = new_chat(&server).await;
    let tool = server.get(&format!("{TOOLS}/app:nothing")).await.expect(200);
    assert_eq!((&tool["description"], &tool["provider"]), (&json!("Does nothing"), &json!("container")));
    let built = call(&server, &chat, "nothing").await;
    assert_eq!(built["result"], "built");
    assert_eq!(
        built["renderPlan"],
        json!({ "renderer": "code", "config": { "content": "built" } }),
        "as its image says"
    );
    // Another file in the folder is another container, and nobody trusts it.
    import(&server, "", packed(&made.replace("built", "built again"))).await.expect(200);
    let detail = server.get(&format!("{TOOLSETS}/app")).await.expect(200);
    assert_eq!(
        (&detail["containers"][0]["trusted"], &detail["containers"][0]["imageId"]),
        (&json!(false), &json!(null))
    );

    // What nobody needs any more goes: the one of the first folder, and with the toolset all of them.
    server.post(&format!("{TOOLSETS}/app/trust"), &json!({})).await.expect(200);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
    assert_eq!(call(&server, &chat, "nothing").await["result"], "built again");
    until_there_are(&podman, 1).await;
    server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
    until_there_are(&podman, 0).await;
    assert!(podman.images(&[]).contains("localhost/kb"), "what somebody else put there is not ours to remove");
}

/// A toolset that goes while its image is built takes the image with it; and what a server left that was killed goes with the next.
#[tokio::test(flavor = "multi_thread")]
async fn images_that_nobody_needs_go_sooner_or_later() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let mut server = serve(&database, &podman, &[]);
    let recipe = format!("FROM {IMAGE}\nRUN [\"/bin/busybox\", \"sleep\", \"4\"]\n");
    let yaml = "id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    build: box\n    tools: [{id: say, command: [/bin/tool, nothing], input_schema: {type: object}}]\n";
    let packed = bundle(&[("toolset.yaml", yaml), ("box/Containerfile", &recipe)]);
    import(&server, "?trust=true", packed).await.expect(201);
    let end = Instant::now() + Duration::from_secs(60);
    while podman.with_builders().is_empty() {
        assert!(Instant::now() < end, "nothing is built");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.delete(&format!("{TOOLSETS}/app")).await.expect(204);
    while !podman.with_builders().is_empty() {
        assert!(Instant::now() < end, "it is built for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until_there_are(&podman, 0).await;

    crate::kit::stop(&mut server);
    let home = std::fs::read_to_string(database.data().join("node")).unwrap();
    let place = std::fs::metadata(database.data()).unwrap().ino();
    let label = format!("LABEL io.kitbag.built-by={}-{place:x}", home.trim());
    podman.image("localhost/kitbag-gone-box:1", &[("bin/tool", SCRIPT)], &[&label]);
    until_there_are(&podman, 1).await;
    let server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))])).await.expect(201);
    assert_eq!(call(&server, &new_chat(&server).await, "nothing").await["status"], "success");
    until_there_are(&podman, 0).await;
}

/// Two containers of one toolset have a tool of one id, but for its case: the first counts, in lists and calls.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_tools_of_one_id_the_first_counts() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    let label = r#"LABEL io.kitbag.tools=[{"id":"Nothing","input_schema":{"type":"object"}},{"id":"words","input_schema":{"type":"object"},"command":["/bin/tool","nothing"]}]"#;
    podman.image("localhost/second:1", &[("bin/tool", SCRIPT)], &[label]);
    let server = serve(&database, &podman, &[]);
    let yaml = manifest(&["nothing"], "", "  - {id: second, image: \"localhost/second:1\"}\n");
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &yaml)])).await.expect(201);
    server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await.expect(200);
    let chat = new_chat(&server).await;
    assert_eq!(call(&server, &chat, "nothing").await["status"], "success");
    assert_eq!(call(&server, &chat, "words").await["status"], "success");
    ask(&server, &chat, "app:Nothing", json!({})).await.expect_error(404, "TOOL_NOT_FOUND");
    let listed = server.get(TOOLS).await.expect(200).to_string();
    assert!(listed.contains("app:nothing") && !listed.contains("app:Nothing"), "{listed}");
}

/// Waits until the engine has so many images that were built here.
async fn until_there_are(podman: &Podman, wanted: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if podman.images(&["--quiet", "--filter", "label=io.kitbag.built-by"]).lines().count() == wanted {
            return;
        }
        assert!(Instant::now() < end, "{}", podman.images(&[]));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// For each volume an engine makes a folder on the machine's disk, of any size.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_with_volumes_is_refused() {
    let (podman, database) = (engine(), TestDatabase::sqlite());
    podman.image(IMAGE, &[("bin/tool", SCRIPT)], &["VOLUME /data"]);
    let server = serve(&database, &podman, &[]);
    import(&server, "?trust=true", bundle(&[("toolset.yaml", &manifest(&["nothing"], "", ""))])).await.expect(201);
    let refused = server.post(&format!("{TOOLSETS}/app/prepare"), &json!({})).await;
    refused.expect_error(409, "CONFLICT");
    assert!(refused.body["message"].as_str().unwrap().contains("declares volumes (/data)"), "{:?}", refused.body);
    assert_eq!(podman.containers().len(), 0);
}
