//! What is found in a toolset's code, and modules that cannot be imported: each is a problem of its own tools alone.

use std::fs;
use std::time::Duration;

use kitbag_python::{Described, Entry, Program};
use serde_json::{Value, json};

use crate::kit::Kit;

const GOOD: &str = "def f(): return 'good'";

/// A toolset of some modules, each with its text and the functions that are tools. `good` comes last.
fn toolset(kit: &Kit, modules: &[(&str, &str, &[&str])]) -> Program {
    let mut program = kit.program("mixed", "", &[]);
    for (module, text, functions) in modules.iter().chain(&[("good", GOOD, ["f"].as_slice())]) {
        fs::write(program.folder.join(format!("{module}.py")), text).unwrap();
        let entrypoints = functions.iter().map(|function| format!("{module}:{function}").parse().unwrap());
        program.entries.extend(entrypoints.map(|entrypoint| Entry { entrypoint, input_schema: None }));
    }
    program
}

/// Describes it. The tools of `good` have no problem and can be called, whatever the others do.
async fn found(kit: &Kit, program: &Program) -> Vec<Described> {
    let tools = kit.workers.describe(program).await.unwrap().tools;
    let names: Vec<&str> = tools.iter().map(|tool| tool.entrypoint.as_str()).collect();
    let wanted: Vec<&str> = program.entries.iter().map(|entry| entry.entrypoint.as_str()).collect();
    assert_eq!(names, wanted);
    assert_eq!(tools.last().unwrap().problem, None);
    assert_eq!(returned(kit, program, "good:f").await, json!("good"));
    tools
}

async fn returned(kit: &Kit, program: &Program, entrypoint: &str) -> Value {
    let mut job = kit.job("f", Value::Null);
    job.entrypoint = entrypoint.parse().unwrap();
    let (finished, _) = kit.call(program, job).await;
    finished.result.unwrap_or_else(|failure| panic!("{failure:?}\n{:?}", finished.logs))
}

/// One bad module beside a good one: the words that its problem has.
async fn has_problem(text: &str, functions: &[&str], words: &[&str]) {
    let kit = Kit::new();
    let program = toolset(&kit, &[("bad", text, functions)]);
    let tools = found(&kit, &program).await;
    for tool in &tools[..functions.len()] {
        let problem = tool.problem.as_deref().unwrap_or_else(|| panic!("{} has no problem", tool.entrypoint));
        for word in words {
            assert!(problem.contains(word), "{}: {problem}", tool.entrypoint);
        }
        assert!(tool.input_schema.is_empty());
    }
}

#[tokio::test]
async fn a_module_that_raises() {
    let text = "import json\ndef f(): return 1\ndef g(): return 2\njson.loads('no')";
    has_problem(text, &["f", "g"], &["it cannot be imported", "JSONDecodeError", "bad.py", "line 4"]).await;
}

#[tokio::test]
async fn names_that_no_manifest_could_have() {
    let named = |name: &str| format!("from covalt_toolset import tool\n@tool(name={name})\ndef a(): pass\n");
    has_problem(&named("'\\x1b[2Kread_file'"), &["a"], &["its name", "control or direction"]).await;
    has_problem(&named("'\\u202eelif_daer'"), &["a"], &["its name", "control or direction"]).await;
    has_problem("def a(): pass\na.__doc__ = 'x' * 1_000_000\n", &["a"], &["its description", "at most"]).await;
}

#[tokio::test]
async fn a_module_that_is_no_python() {
    has_problem("def f(:\n  return 1", &["f"], &["it cannot be imported", "SyntaxError", "bad.py"]).await;
}

#[tokio::test]
async fn a_module_that_ends_its_process() {
    let text = "import os, sys\nprint('the end is near', file=sys.stderr, flush=True)\nos._exit(3)\ndef f(): return 1";
    has_problem(text, &["f"], &["its code ended the process that imported it", "the end is near"]).await;
    has_problem("raise SystemExit('no')", &["f"], &["ended Python while it was imported", "no"]).await;
    has_problem("import os\nos.abort()", &["f"], &["its code ended the process that imported it"]).await;
}

#[tokio::test]
async fn a_module_that_lacks_another() {
    has_problem("import numpy_that_is_not_there\ndef f(): return 1", &["f"], &["No module named"]).await;
}

#[tokio::test]
async fn names_that_are_no_functions() {
    has_problem("def run_all(): return 1", &["run_al"], &["bad.py has no function run_al", "is it run_all?"]).await;
    has_problem("class Thing: pass\nNUMBER = 1", &["Thing", "NUMBER"], &["in bad.py is", "names a function"]).await;
    let kit = Kit::new();
    let mut program = toolset(&kit, &[]);
    let absent = Entry { entrypoint: "absent:f".parse().unwrap(), input_schema: None };
    let system = Entry { entrypoint: "os:system".parse().unwrap(), input_schema: None };
    program.entries.splice(0..0, [absent, system]);
    let tools = found(&kit, &program).await;
    for (tool, word) in tools.iter().zip(["absent.py", "os.py"]) {
        assert!(tool.problem.as_deref().unwrap().contains(&format!("the toolset has no file {word}")), "{tool:?}");
    }
}

#[tokio::test]
async fn a_module_that_never_ends() {
    let kit = Kit::with(|settings| settings.import = Duration::from_secs(6));
    let modules = [("bad", "while True: pass", ["f"].as_slice()), ("gone", "import os; os._exit(1)", &["f", "g"])];
    let program = toolset(&kit, &modules);
    let tools = found(&kit, &program).await;
    let problems: Vec<&str> = tools[..3].iter().map(|tool| tool.problem.as_deref().unwrap()).collect();
    assert_eq!(problems[0], "its code was still being imported after 6 seconds");
    assert_eq!(problems[1], "its code ended the process that imported it");
    assert_eq!(problems[1], problems[2]);
    // Those who tried are gone: only the one that serves is left, with its usher, its host and the host's next child.
    kit.until(|kit| kit.count_of("kitbag_worker") <= 4).await;
}

#[tokio::test]
async fn what_is_printed_is_not_a_description() {
    let kit = Kit::new();
    let text = "
import os, sys
print('{\"tools\": []}', flush=True)
os.write(1, b'\\x0c\\x00\\x00\\x00{\"tools\":[]}')
os.write(2, b'\\x0c\\x00\\x00\\x00{\"tools\":[]}')
print('x' * 300000)
input_closed = sys.stdin.read() == ''
def f():
    print('now')
    return input_closed
";
    let program = toolset(&kit, &[("bad", text, &["f"])]);
    let tools = found(&kit, &program).await;
    assert_eq!((tools.len(), tools[0].problem.as_deref()), (2, None));
    let mut job = kit.job("f", Value::Null);
    job.entrypoint = "bad:f".parse().unwrap();
    let (finished, _) = kit.call(&program, job).await;
    assert_eq!(finished.result.unwrap(), json!(true));
    // What was printed then is nobody's log now.
    let said: Vec<&str> = finished.logs.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(said, ["now"]);
}

#[tokio::test]
async fn an_import_has_neither_workspace_nor_network_nor_others_files() {
    let kit = Kit::new();
    let secret = kit.folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::write(kit.workspace().join("private.txt"), "private").unwrap();
    // Somebody who would answer, if there were a way.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        r#"
import os, socket
found = []
def attempt(name, do):
    try:
        found.append([name, str(do())])
    except OSError as error:
        found.append([name, None])
def dial(address):
    with socket.create_connection(address, 2): return "connected"
attempt("machine", lambda: dial(("127.0.0.1", {port})))
attempt("network", lambda: dial(("1.1.1.1", 80)))
attempt("name", lambda: socket.getaddrinfo("pypi.org", 443))
attempt("interfaces", lambda: [name for _, name in socket.if_nameindex() if name != "lo"] or None)
attempt("secret", lambda: open({secret:?}).read())
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("data", lambda: os.listdir({data:?}))
attempt("workspace", lambda: os.listdir("/workspace") or None)
for place in ("/workspace", "/toolset", "/kitbag", "/usr", "/"):
    attempt("write " + place, lambda: open(place + "/written", "w").write("x"))
attempt("kill", lambda: os.kill(-1, 9))
attempt("processes", lambda: [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()] or None)
def f(): return dict(found)
"#,
        port = listener.local_addr().unwrap().port(),
        data = kit.folder.path(),
    );
    let program = toolset(&kit, &[("bad", &text, &["f"])]);
    let tools = found(&kit, &program).await;
    assert_eq!(tools[0].problem, None);
    let seen = returned(&kit, &program, "bad:f").await;
    assert_eq!(seen.as_object().unwrap().len(), 15);
    for (what, outcome) in seen.as_object().unwrap() {
        assert!(outcome.is_null() || *outcome == json!("None"), "{what}: {outcome}");
    }
    assert!(!program.folder.join("written").exists());
    assert_eq!(fs::read_dir(kit.workspace()).unwrap().count(), 1);
}

#[tokio::test]
async fn two_hundred_tools() {
    let kit = Kit::new();
    let names: Vec<String> = (0..200).map(|number| format!("tool_{number}")).collect();
    let line = |name: &String| format!("def {name}(x: int = {}): return ['{name}', x]\n", name.len());
    let text: String = names.iter().map(line).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let program = toolset(&kit, &[("many", &text, &names)]);
    let tools = found(&kit, &program).await;
    assert_eq!(tools.len(), 201);
    assert!(tools.iter().all(|tool| tool.problem.is_none()));
    assert_eq!(tools[150].input_schema["properties"]["x"]["default"], json!(8));
    assert_eq!(returned(&kit, &program, "many:tool_199").await, json!(["tool_199", 8]));
}
