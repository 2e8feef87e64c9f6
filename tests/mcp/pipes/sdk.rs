//! Pipes, with the protocol's own client for Python, in both eras.

use kitbag_testkit::TestDatabase;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::kit::{connect, installed, node};
use crate::{BINARY, serve};

const CLIENT: &str = r#"
import asyncio, json, os, sys
from mcp import Client, StdioServerParameters

async def main(mode):
    far = []
    async def progress(done, total, message):
        far.append(done)
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", "stdio"], env={"KITBAG_DATA": sys.argv[2], **os.environ})
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        said = await client.call_tool("mcp__everything__echo", {"message": "hello"})
        written = await client.call_tool("write_file", {"path": "a.txt", "content": mode})
        long = "mcp__everything__trigger-long-running-operation"
        await client.call_tool(long, {"duration": 1, "steps": 4}, progress_callback=progress)
        return {
            "version": client.protocol_version, "tools": [tool.name for tool in tools], "said": said.content[0].text,
            "written": written.is_error, "far": far,
        }

print(json.dumps([asyncio.run(main(mode)) for mode in ("auto", "legacy")]))
"#;

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::disallowed_methods, reason = "it is started around the program, not by it")]
async fn the_python_client_in_both_eras() {
    let database = TestDatabase::sqlite();
    let server = serve(&database);
    connect(&server, "everything", node("server-everything", &["stdio"])).await;
    let python = installed("KITBAG_TEST_PYTHON_BIN", "python");
    let ran = Command::new(python).args(["-c", CLIENT, BINARY]).arg(database.data()).output().await.unwrap();
    let beside = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{beside}");
    let both: Vec<Value> = serde_json::from_slice(&ran.stdout).unwrap();
    for (seen, version) in both.iter().zip(["2026-07-28", "2025-11-25"]) {
        assert_eq!(seen["version"], version, "{seen} {beside}");
        assert!(seen["tools"].as_array().unwrap().contains(&json!("read_file")), "{seen}");
        assert!(seen["said"].as_str().unwrap().contains("hello"), "{seen}");
        assert_ne!(seen["written"], true, "{seen}");
        assert!(seen["far"].as_array().unwrap().len() >= 3, "{seen}");
    }
}
