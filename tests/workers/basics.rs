//! A call that works.

use kitbag_model::OrgId;
use kitbag_python::{Event, Job, Program, Stream};
use serde_json::json;

use crate::kit::Kit;

#[tokio::test]
async fn a_tool_reads_and_writes_the_workspace() {
    let kit = Kit::new();
    let text = "
from pathlib import Path
from covalt_toolset import tool, get_context

@tool(description='Say it louder')
def shout(path: str, times: int = 2) -> dict:
    context = get_context()
    context.progress(0.5, 'half')
    context.log('a word')
    print('printed')
    text = (context.workspace / path).read_text()
    (context.workspace / 'loud.txt').write_text(text.upper() * times)
    return {'path': 'loud.txt', 'chat': context.chat_id, 'toolset': context.toolset_id, 'where': str(context.workspace)}

def plain(workspace: Path, name: str) -> list:
    return sorted(p.name for p in workspace.iterdir()) + [name]
";
    let program = kit.program("loud", text, &["shout", "plain"]);
    let described = kit.workers.describe(&program).await.unwrap();
    assert_eq!(described.tools[0].problem, None);
    assert_eq!(described.tools[0].description.as_deref(), Some("Say it louder"));
    assert_eq!(described.tools[0].input_schema["properties"]["times"]["default"], json!(2));
    std::fs::write(kit.workspace().join("a.txt"), "hi").unwrap();
    let (finished, events) = kit.call(&program, kit.job("shout", json!({ "path": "a.txt" }))).await;
    let expected = json!({ "path": "loud.txt", "chat": kit.chat, "toolset": "loud", "where": "/workspace" });
    assert_eq!(finished.result.unwrap(), expected, "{:?}", finished.logs);
    assert_eq!(std::fs::read_to_string(kit.workspace().join("loud.txt")).unwrap(), "HIHI");
    let half = Event::Progress { fraction: Some(0.5), message: Some("half".to_owned()) };
    assert!(events.contains(&half), "{events:?}");
    let said: Vec<_> = finished.logs.iter().map(|line| (line.stream, line.text.as_str())).collect();
    assert!(said.contains(&(Stream::Stdout, "printed")) && said.contains(&(Stream::Log, "a word")), "{said:?}");
    assert!(
        finished.missing_layers.is_empty() && finished.layers.contains(&"seccomp".to_owned()),
        "{finished:?}",
        finished = finished.layers
    );
    assert_eq!(kit.returned(&program, "plain", json!({ "name": "x" })).await, json!(["a.txt", "loud.txt", "x"]));
}

/// A process that is over before anybody has looked at it is still the one that had the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_runs_once_however_quick_it_is() {
    let kit = Kit::new();
    let text = "
import os
def quick(workspace, leave: bool = False):
    with open(workspace / 'runs', 'a') as file:
        file.write('x')
    if leave:
        os._exit(0)
";
    let program = kit.program("quick", text, &["quick"]);
    for number in 1..=120 {
        let leave = number % 2 == 0;
        let (finished, _) = kit.call(&program, kit.job("quick", json!({ "leave": leave }))).await;
        assert_eq!(finished.result.is_err(), leave, "{:?}", finished.result);
        assert_eq!(std::fs::read_to_string(kit.workspace().join("runs")).unwrap().len(), number);
    }
}

/// Runs a keeper where the kernel gives no namespaces: in one whose own limit of them is zero.
const NOWHERE: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" guard-keeper \"$@\"";

fn nowhere(settings: &mut kitbag_python::Settings) {
    let words = ["unshare", "--user", "--map-root-user", "sh", "-c", NOWHERE, env!("CARGO_BIN_EXE_kitbag")];
    settings.keeper = words.map(Into::into).into();
}

const COUNT: &str = "
import os, subprocess
def f(workspace):
    subprocess.Popen(['sleep', '600'], start_new_session=True)
    (workspace / 'a').write_text('a')
    try: return open('/etc/shadow').read()
    except OSError: return sorted(os.listdir('.'))
";

#[tokio::test(flavor = "multi_thread")]
async fn without_namespaces_nothing_runs_unless_the_configuration_says_so() {
    let strict = Kit::with(nowhere);
    let program = strict.program("t", COUNT, &["f"]);
    let message = strict.failed(&program, "f").await;
    assert!(message.contains("user namespaces") && message.contains("kitbag doctor"), "{message}");

    let relaxed = Kit::with(|settings| {
        nowhere(settings);
        settings.require_sandbox = false;
    });
    let program = relaxed.program("t", COUNT, &["f"]);
    let (finished, _) = relaxed.call(&program, relaxed.job("f", json!({}))).await;
    assert_eq!(finished.result.unwrap(), json!(["a"]), "{:?}", finished.logs);
    assert!(finished.missing_layers.contains(&"namespaces".to_owned()), "{:?}", finished.missing_layers);
    assert!(finished.layers.contains(&"seccomp".to_owned()), "{:?}", finished.layers);
    // Even so nothing outlives its call.
    assert_eq!(relaxed.count_of("sleep 600"), 0, "{:?}", relaxed.inhabitants());

    // The operator takes that risk for themselves alone. The code of others is not even imported.
    let acme: OrgId = "acme".parse().unwrap();
    let mark = relaxed.folder.path().join("imported");
    let text = format!("open({mark:?}, 'w').close()\ndef f(): return 1\n");
    let theirs = Program { org: acme.clone(), ..relaxed.program("theirs", &text, &["f"]) };
    let (finished, _) = relaxed.call(&theirs, Job { org: acme, ..relaxed.job("f", json!({})) }).await;
    let message = finished.result.unwrap_err().message;
    assert!(message.contains("organisations other than `local`") && message.contains("user namespaces"), "{message}");
    assert!(!mark.exists(), "it ran");
    assert!(relaxed.workers.describe(&theirs).await.is_err() && !mark.exists(), "it ran");
}
