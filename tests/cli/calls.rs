//! Tools called on the command line: real tools in real workers, with a server and without one.

use std::fs;
use std::path::{Path, PathBuf};

use kitbag_testkit::{Finished, Program, Server, TestDatabase, on_both};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{BINARY, assert_failed};

const TOOLS: &str = r##"
import sys, time
from pathlib import Path
from covalt_toolset import tool, get_context, Text, Image, File

@tool
def change(workspace_note: str = "new") -> dict:
    root = Path(get_context().workspace)
    (root / "added.txt").write_text(workspace_note)
    (root / "kept.txt").write_text("two\n")
    (root / "gone.txt").unlink(missing_ok=True)
    print("on stdout")
    print("on stderr", file=sys.stderr)
    return {"note": workspace_note}

@tool
def fail(path: str) -> None:
    (Path(get_context().workspace) / path).write_text("half")
    raise ValueError("this went wrong\x1b[2J")

@tool
def wait() -> str:
    get_context().progress(0.5, "half-way")
    time.sleep(600)

@tool(requires_confirmation=True)
def careful(name: str) -> str:
    return f"careful with {name}"

@tool
def rich():
    (Path(get_context().workspace) / "r.txt").write_text("r")
    return [Text("some text"), Image(b"\x89PNG\r\n\x1a\n" + b"0" * 31), File("r.txt")]

@tool
def note() -> dict:
    return {"text": "# Title\n\n- point"}

@tool
def large() -> str:
    return "x" * 300_000

@tool
def serve() -> str:
    get_context().start_process([sys.executable, "-c", "import time; time.sleep(600)"])
    return "started"
"##;

const MANIFEST: &str = r#"
id: app
name: App
version: "1.0.0"
permissions: {listen: true}
tools:
  - {id: change, entrypoint: "tools.t:change"}
  - {id: fail, entrypoint: "tools.t:fail"}
  - {id: wait, entrypoint: "tools.t:wait"}
  - {id: careful, entrypoint: "tools.t:careful", name: "Careful Tool"}
  - {id: rich, entrypoint: "tools.t:rich"}
  - {id: note, entrypoint: "tools.t:note"}
  - {id: large, entrypoint: "tools.t:large"}
  - {id: serve, entrypoint: "tools.t:serve"}
  - {id: broken, entrypoint: "tools.broken:run"}
tool_overrides:
  - {tool_id: note, renderer: document, renderer_config: {content: "$return.text"}}
"#;

/// Starts a program on a terminal, types an answer when a text is seen there, and prints all that was to be seen.
const TERMINAL: &str = r#"
import os, pty, sys
waits, answer, command = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
seen, told = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    seen += part
    if not told and waits in seen:
        told = True
        os.write(terminal, answer)
sys.stdout.buffer.write(seen)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// A program in a folder of its own, with the toolset `app` and the example installed.
struct Kit {
    program: Program,
    home: TempDir,
    data: PathBuf,
}

impl Kit {
    fn new(database: &TestDatabase) -> Self {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("source");
        fs::create_dir_all(source.join("tools")).unwrap();
        fs::write(source.join("toolset.yaml"), MANIFEST).unwrap();
        fs::write(source.join("tools/t.py"), TOOLS).unwrap();
        fs::write(source.join("tools/broken.py"), "import nothing_of_that_name\ndef run(): pass\n").unwrap();
        fs::create_dir(home.path().join("work")).unwrap();
        let program = Program::on(BINARY, database).at(&home.path().join("work"));
        let kit = Self { program, home, data: database.data().to_owned() };
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/app-builder");
        for folder in [&source, &example] {
            let done = kit.run(&["toolset", "import", folder.to_str().unwrap(), "--trust"]);
            assert_eq!(done.code, Some(0), "{done:?}");
        }
        kit
    }

    fn run(&self, args: &[&str]) -> Finished {
        self.program.run(args)
    }

    fn call(&self, tool: &str, args: &Value, more: &[&str]) -> Finished {
        self.run(&[&["tool", "call", tool, "--args", &args.to_string()], more].concat())
    }

    fn json(&self, args: &[&str]) -> Value {
        self.run(&[&["--json"], args].concat()).json()
    }

    /// The same on a terminal, where `answer` is typed once `waits` is to be seen.
    fn on_terminal(&self, waits: &str, answer: &str, args: &[&str]) -> Finished {
        self.program.clone().inside(&["python3", "-c", TERMINAL, waits, answer]).run(args)
    }

    /// The processes that were started for this data folder and are there still.
    fn keepers(&self) -> Vec<String> {
        let line = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).ok();
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let lines = pids.filter_map(|pid| line(&pid)).map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        let data = self.data.canonicalize().unwrap();
        lines.filter(|line| line.contains("guard-keeper") && line.contains(data.to_str().unwrap())).collect()
    }

    /// Waits until nothing that a command started is there any more.
    fn wait_for_end(&self) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !self.keepers().is_empty() {
            assert!(std::time::Instant::now() < end, "still there: {:?}", self.keepers());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[track_caller]
fn assert_shown(finished: &Finished, code: i32, shown: &[&str], beside: &[&str]) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    for word in shown {
        assert!(finished.stdout.contains(word), "{word:?} is not in {finished:?}");
    }
    for word in beside {
        assert!(finished.stderr.contains(word), "{word:?} is not beside {finished:?}");
    }
}

/// What a person does with tools.
fn use_tools(kit: &Kit) {
    // The example, in the chat of the folder, which is made on the way.
    let first = kit.call("app-builder:write_file", &json!({ "path": "a.py", "content": "print(1)" }), &[]);
    assert_shown(
        &first,
        0,
        &["done app-builder:write_file in ", "\"written\": \"a.py\"", "\na.py\nprint(1)\n", "\n+ a.py\n"],
        &["made the chat "],
    );
    assert!(!first.stdout.contains('\u{1b}'), "no colours where there is no terminal: {first:?}");
    let chats = kit.json(&["chat", "list"])["items"].as_array().unwrap().clone();
    assert_eq!((chats.len(), &chats[0]["title"]), (1, &json!("work")));
    let chat = chats[0]["id"].as_str().unwrap();
    assert_eq!(kit.run(&["workspace", "--chat", chat, "cat", "a.py"]).stdout, "print(1)");

    // The next call is in the same chat; its JSON is the call and nothing else.
    let call = kit.json(&["tool", "call", "app-builder:read_file", "--args", "{\"path\":\"a.py\"}"]);
    assert_eq!((&call["chatId"], &call["status"]), (&json!(chat), &json!("success")));
    assert_eq!(call["result"], json!({ "path": "a.py", "content": "print(1)", "size": 8 }));

    // What changed, and what was said on the way.
    for name in ["kept.txt", "gone.txt"] {
        assert_eq!(kit.call("write_file", &json!({ "path": name, "content": "one\n" }), &[]).code, Some(0));
    }
    let changed = kit.call("app:change", &json!({}), &[]);
    assert_shown(&changed, 0, &["\n+ added.txt", "\n~ kept.txt", "\n- gone.txt"], &["on stdout\n", "on stderr\n"]);
    assert!(!changed.stdout.contains("on stdout"), "{changed:?}");
    let again = kit.call("app:change", &json!({}), &[]);
    assert!(!again.stdout.contains("changed in the workspace"), "{again:?}");
    let edit = kit.call("edit_file", &json!({ "path": "kept.txt", "old": "two", "new": "2" }), &[]);
    assert_shown(&edit, 0, &["\n-two\n+2\n", "\n~ kept.txt"], &[]);

    // Other things to see.
    assert_shown(&kit.call("app:note", &json!({}), &[]), 0, &["\"text\": \"(below)\"", "\n# Title\n\n- point\n"], &[]);
    let rich = kit.call("app:rich", &json!({}), &[]);
    assert_shown(&rich, 0, &["\nsome text\n[image: image/png, 39 bytes]\n[file: r.txt, text/plain]\n"], &[]);
    let shell = kit.call("run_command", &json!({ "command": "echo hi; exit 3" }), &["--yes"]);
    assert_shown(&shell, 0, &["\n$ echo hi; exit 3\nhi\n(exit code 3)\n"], &[]);
    let large = kit.call("app:large", &json!({}), &[]);
    assert_shown(&large, 0, &["300002 bytes; `kitbag tool result "], &[]);

    // What goes wrong.
    let failed = kit.call("app:fail", &json!({ "path": "half.txt" }), &[]);
    assert_shown(
        &failed,
        1,
        &["failed app:fail in ", ": TOOL_FAILED\n", "\n+ half.txt"],
        &["error: ValueError: this went wrong\\u{1b}[2J"],
    );
    let failed = kit.run(&["--json", "tool", "call", "app:fail", "--args", "{\"path\":\"half.txt\"}"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let call: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(call["error"]["code"], "TOOL_FAILED");
    assert_failed(&kit.call("app:nothing", &json!({}), &[]), 1, "app:nothing");
    assert_failed(&kit.call("app:fail", &json!({ "pat": 1 }), &[]), 2, "/pat");
    assert_failed(&kit.run(&["tool", "call", "app:fail", "--args", "{\"path\": x}"]), 2, "line 1, column 10");
    assert_failed(&kit.run(&["tool", "call", "app:fail", "--args", "[]"]), 2, "must be a JSON object");
    assert_failed(&kit.call("app:fail", &json!({ "path": "x" }), &["--chat", "nope"]), 1, "nope");

    // Everything that was asked for is recorded.
    let calls = kit.run(&["tool", "calls"]).stdout;
    assert!(calls.contains("TOOL_FAILED") && calls.contains("app-builder:write_file"), "{calls}");
    assert_shown(&kit.run(&["chat", "processes"]), 0, &["Nothing runs."], &[]);
    assert_failed(&kit.run(&["chat", "stop", "nope"]), 1, "nope");
}

/// A call that asks first.
fn use_questions(kit: &Kit) {
    let asked = kit.call("app:careful", &json!({ "name": "x" }), &[]);
    assert_shown(&asked, 1, &[], &["nobody to ask", "kitbag tool decide ", "--yes"]);
    assert!(asked.stdout.is_empty(), "{asked:?}");
    let waiting = kit.json(&["tool", "calls"])["items"][0].clone();
    assert_eq!(waiting["status"], "pending");
    let id = waiting["id"].as_str().unwrap();
    let other = json!({ "name": "y" }).to_string();
    let decided = kit.run(&["tool", "decide", id, "--yes", "--args", &other]);
    assert_shown(&decided, 0, &["done app:careful", "\ncareful with y\n"], &[]);
    assert_failed(&kit.run(&["tool", "decide", id, "--no"]), 1, "");
    assert_failed(&kit.run(&["tool", "decide", id]), 2, "--yes");

    assert_shown(&kit.call("app:careful", &json!({ "name": "z" }), &["--yes"]), 0, &["\ncareful with z\n"], &[]);
    let waiting = kit.run(&["--json", "tool", "call", "app:careful", "--args", &other]);
    assert_eq!(waiting.code, Some(1), "{waiting:?}");
    let id = serde_json::from_str::<Value>(&waiting.stdout).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(kit.run(&["tool", "cancel", &id]).stdout, format!("cancelled {id}\n"));
    assert!(kit.run(&["tool", "cancel", &id]).stdout.contains("cancelled"), "it is not cancelled twice");
    let third = kit.run(&["--json", "tool", "call", "app:careful", "--args", &other]);
    let id = serde_json::from_str::<Value>(&third.stdout).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(kit.json(&["tool", "decide", &id, "--no"])["error"]["code"], "DENIED");
}

on_both! {
    async fn tools_without_a_server(database: TestDatabase) {
        let kit = Kit::new(&database);
        use_tools(&kit);
        kit.wait_for_end();
    }

    async fn tools_with_a_server(database: TestDatabase) {
        let _server = Server::start(BINARY, &database, &[]);
        use_tools(&Kit::new(&database));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_without_a_server() {
    let database = TestDatabase::sqlite();
    let kit = Kit::new(&database);
    use_questions(&kit);
    kit.wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_with_a_server() {
    let database = TestDatabase::sqlite();
    let _server = Server::start(BINARY, &database, &[]);
    use_questions(&Kit::new(&database));
}

#[test]
fn a_person_is_asked() {
    let database = TestDatabase::sqlite();
    let kit = Kit::new(&database);
    let call = ["tool", "call", "app:careful", "--args", "{\"name\":\"a\u{202e}b\"}"];
    let yes = kit.on_terminal("[y/N] ", "y\n", &call);
    assert_shown(
        &yes,
        0,
        &["app:careful (Careful Tool) asks before it runs", "\"name\": \"a\\u202eb\"", "careful with a\\u{202e}b"],
        &[],
    );
    assert!(!yes.stdout.contains('\u{202e}'), "{yes:?}");
    let no = kit.on_terminal("[y/N] ", "\n", &call);
    assert_shown(&no, 1, &["DENIED"], &[]);
    // Ctrl-C at the question takes the call back.
    let left = kit.on_terminal("[y/N] ", "\u{3}", &call);
    assert_shown(&left, 1, &["CANCELLED"], &[]);
    let coloured = kit.on_terminal(
        "nothing",
        "",
        &[
            "tool",
            "call",
            "app-builder:write_file",
            "--args",
            "{\"path\":\"a.py\",\"content\":\"def f():\\n    return 1\\n\"}",
        ],
    );
    assert_shown(&coloured, 0, &["\u{1b}[35mdef\u{1b}[0m", "\u{1b}[32m+ a.py\u{1b}[0m"], &[]);
    let plain = Kit { program: kit.program.clone().env("NO_COLOR", "1"), ..kit };
    let plain =
        plain.on_terminal("nothing", "", &["tool", "call", "app-builder:read_file", "--args", "{\"path\":\"a.py\"}"]);
    assert_shown(&plain, 0, &["def f():\r\n    return 1\r\n"], &[]);
}

#[test]
fn an_interrupt_cancels_the_call() {
    for with_server in [false, true] {
        let database = TestDatabase::sqlite();
        let _server = with_server.then(|| Server::start(BINARY, &database, &[]));
        let kit = Kit::new(&database);
        let stopped = kit.on_terminal("50 %  half-way", "\u{3}", &["tool", "call", "app:wait"]);
        assert_shown(&stopped, 1, &[" app:wait in ", ": CANCELLED"], &[]);
        assert_eq!(kit.json(&["tool", "calls"])["items"][0]["error"]["code"], "CANCELLED");
        if !with_server {
            kit.wait_for_end();
        }
    }
}

#[test]
fn what_a_call_leaves_running() {
    let database = TestDatabase::sqlite();
    let kit = Kit::new(&database);
    let alone = kit.call("app:serve", &json!({}), &[]);
    assert_shown(&alone, 0, &["\nstarted\n"], &["warning: left running: ", "It ends now", "kitbag serve"]);
    kit.wait_for_end();
    let _server = Server::start(BINARY, &database, &[]);
    let call = kit.json(&["tool", "call", "app:serve"]);
    let listed = kit.run(&["chat", "processes"]).stdout;
    assert!(listed.contains(call["id"].as_str().unwrap()) && listed.contains("time.sleep(600)"), "{listed}");
    assert_eq!(kit.run(&["chat", "stop", call["id"].as_str().unwrap()]).code, Some(0));
    assert_shown(&kit.run(&["chat", "processes"]), 0, &["Nothing runs."], &[]);
}

#[test]
fn each_folder_has_a_chat_of_its_own() {
    let database = TestDatabase::sqlite();
    let kit = Kit::new(&database);
    let other = kit.home.path().join("other");
    fs::create_dir(&other).unwrap();
    let link = kit.home.path().join("link");
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let chat_in = |folder: &Path| {
        let program = kit.program.clone().at(folder);
        let finished = program.run(&["--json", "tool", "call", "list_files"]);
        assert!(finished.stderr.is_empty(), "{finished:?}");
        finished.json()["chatId"].as_str().unwrap().to_owned()
    };
    assert_failed(&kit.run(&["tool", "calls"]), 2, "no tool was called in");
    let first = chat_in(&kit.home.path().join("work"));
    let second = chat_in(&other);
    assert_ne!(first, second);
    assert_eq!(chat_in(&link), second, "it is the same folder");
    assert_eq!(kit.run(&["chat", "delete", &second]).code, Some(0));
    let third = chat_in(&other);
    assert!(third != second && third != first);
    assert_eq!(chat_in(&other), third);
    // A register that cannot be read costs new chats and nothing else.
    fs::write(database.data().join("cli/chats.json"), "{").unwrap();
    assert_ne!(chat_in(&other), third);
    let named = kit.json(&["tool", "call", "list_files", "--chat", &first]);
    assert_eq!(named["chatId"], first.as_str());
}

#[test]
fn arguments_from_a_file_and_from_standard_input() {
    let database = TestDatabase::sqlite();
    let kit = Kit::new(&database);
    let file = kit.home.path().join("args.json");
    fs::write(&file, "{\"path\": \"a\",\n \"content\": \"from a file\"}").unwrap();
    let given = format!("@{}", file.display());
    assert_eq!(kit.run(&["tool", "call", "write_file", "--args", &given]).code, Some(0));
    let shell = format!("exec \"$@\" < '{}'", file.display());
    let piped = kit.program.clone().inside(&["sh", "-c", &shell, "sh"]);
    let call = piped.run(&["--json", "tool", "call", "write_file", "--args", "-"]).json();
    assert_eq!(call["args"]["content"], "from a file");
    fs::write(&file, "{\"path\": \"a\",\n oops}").unwrap();
    assert_failed(&kit.run(&["tool", "call", "write_file", "--args", &given]), 2, "line 2, column 2");
    assert_failed(&kit.run(&["tool", "call", "write_file", "--args", "@/nonexistent"]), 2, "/nonexistent");
}

#[test]
fn toolsets_are_prepared_and_problems_are_told() {
    let database = TestDatabase::sqlite();
    let kit = Kit::new(&database);
    let prepared = kit.run(&["toolset", "prepare", "app"]);
    assert_shown(
        &prepared,
        1,
        &["app: 1 of 9 tools cannot be called\ntools.broken:run\n", "nothing_of_that_name"],
        &[],
    );
    assert_shown(&kit.run(&["toolset", "prepare", "app-builder"]), 0, &["app-builder is ready: 3 tools\n"], &[]);
    assert_failed(&kit.run(&["toolset", "prepare", "nope"]), 1, "nope");
    let listed = kit.run(&["tool", "list"]);
    assert_shown(&listed, 0, &["\n  cannot be called: ", "nothing_of_that_name"], &[]);
    assert_shown(&kit.run(&["tool", "show", "app:broken"]), 0, &["It cannot be called: ", "nothing_of_that_name"], &[]);
    kit.wait_for_end();
}
