//! Pages of tools, whose addresses lead to any node.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Server};
use reqwest::{Method, header};
use serde_json::json;

use crate::kit::{calls, new_chat, nodes};

const MANIFEST: &str = "id: app\nname: An app\nversion: \"1.0.0\"\ntools:\n  - {id: show, entrypoint: \"tools.t:show\"}\n\
     tool_overrides:\n  - {tool_id: show, renderer: html, renderer_config: {artifact: \"artifacts/show.html\"}}\n";

async fn import(server: &Server) {
    let mut archive = ArchiveWriter::new(Vec::new());
    for (name, text) in [
        ("artifacts/show.html", "<p>shown to you</p>"),
        ("tools/t.py", "from covalt_toolset import tool\n\n@tool\ndef show() -> str:\n    return \"x\"\n"),
        ("toolset.yaml", MANIFEST),
    ] {
        archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    let request = server.request(Method::POST, "/v1/orgs/local/toolsets/import");
    let request = request.header(header::CONTENT_TYPE, "application/zip").body(archive.finish().unwrap());
    Answer::of(request).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_shown_by_whichever_node_its_address_leads_to() {
    let (_installation, [first, second]) = nodes::<2>().await;
    import(&first).await;
    let chat = new_chat(&first).await;
    let call = first.post(&calls(&chat), &json!({ "toolId": "app:show", "args": {} })).await.expect(200);
    // Whoever asks another node is told the holder's address of it.
    let call = second.get(&format!("{}/{}", calls(&chat), call["id"].as_str().unwrap())).await.expect(200);
    let url: reqwest::Url = call["renderPlan"]["config"]["url"].as_str().unwrap().parse().unwrap();
    let host = url.host_str().unwrap();
    for server in [&first, &second] {
        let port = server.url.rsplit(':').next().unwrap();
        let request = server.anonymous(Method::GET, url.path()).header(header::HOST, format!("{host}:{port}"));
        let page = request.send().await.unwrap();
        assert_eq!(page.status(), 200);
        assert!(page.text().await.unwrap().contains("shown to you"));
    }
    // A name that nobody gave out is nobody's, wherever it is asked for.
    let (label, below) = host.split_once('.').unwrap();
    let wrong = format!("{}.{below}", label.replace(|letter: char| letter.is_ascii_lowercase(), "a"));
    let request = second.anonymous(Method::GET, "/").header(header::HOST, wrong);
    assert_eq!(request.send().await.unwrap().status(), 404);
}
