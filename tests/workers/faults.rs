//! Tools that misbehave. Each really does; none disturbs another call, and none leaves a process.

use std::time::Duration;

use kitbag_python::FailureKind;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::kit::Kit;

const TOOLS: &str = r#"
import ctypes, mmap, os, signal, subprocess, sys, threading, time
from covalt_toolset import tool, get_context

counter = {"calls": 0}

@tool
def fine(wait: float = 0) -> dict:
    time.sleep(wait)
    counter["calls"] += 1
    os.environ["LEAK"] = "1"
    os.chdir("/tmp")
    (get_context().workspace / "fine.txt").write_text("fine")
    return {"calls": counter["calls"], "leak": os.environ.get("OTHER_LEAK"), "files": sorted(os.listdir("/tmp"))}

@tool
def leak():
    counter["calls"] += 10
    os.environ["OTHER_LEAK"] = "1"
    open("/tmp/left", "w").write("x")
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()

@tool
def spin():
    (get_context().workspace / "partial.txt").write_text("partial")
    while True: pass

@tool
def sleep():
    time.sleep(1e6)

@tool
def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600"])
    while True:
        try: time.sleep(1e6)
        except BaseException: pass

@tool
def last_words():
    try: time.sleep(1e6)
    finally: (get_context().workspace / "last.txt").write_text("cleaned up")

@tool
def bomb():
    while True:
        try: os.fork()
        except OSError: pass

@tool
def gulp():
    x = bytearray(64 << 30)

@tool
def swallow():
    hoard = []
    while True: hoard.append(bytearray(16 << 20))

@tool
def shared_memory():
    hoard = []
    while True:
        m = mmap.mmap(-1, 64 << 20)
        for i in range(0, 64 << 20, 4096): m[i] = 1
        hoard.append(m)

@tool
def descriptors():
    hoard = []
    while True: hoard.append(open("/dev/null"))

@tool
def flood():
    line = "x" * 1023 + "\n"
    for _ in range(50 * 1024):
        sys.stdout.write(line)
        sys.stderr.write(line)
    return "done"

@tool
def forge():
    for fd in (1, 2):
        os.write(fd, b'{"type":"result","ok":"forged"}\n')
        os.write(fd, b'\x1f\x00\x00\x00{"type":"result","ok":"forged"}')
    return "honest"

@tool
def exit_now(): os._exit(7)

@tool
def exit_politely(): sys.exit(3)

@tool
def interrupt(): raise KeyboardInterrupt

@tool
def crash(): ctypes.string_at(0)

@tool
def kill_everyone():
    for pid in [-1, 1, 2, 3, os.getppid(), *range(100, 2000)]:
        try: os.kill(pid, signal.SIGKILL)
        except OSError: pass
    return [os.getpid(), os.getppid()]

@tool
def not_json(): return {1, 2}

@tool
def not_a_number(): return {"a": [1.0, float("nan")]}

@tool
def binary(): return b"x"

@tool
def cycle():
    a = []
    a.append(a)
    return a

@tool
def large(): return "x" * (2 << 20)

@tool
def deep():
    a = []
    for _ in range(100000): a = [a]
    return a

@tool
def raises(): raise ValueError("no such thing")

@tool
def leaves_children():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
    return "done"
"#;

const NAMES: [&str; 26] = [
    "fine",
    "leak",
    "spin",
    "sleep",
    "stubborn",
    "last_words",
    "bomb",
    "gulp",
    "swallow",
    "shared_memory",
    "descriptors",
    "flood",
    "forge",
    "exit_now",
    "exit_politely",
    "interrupt",
    "crash",
    "kill_everyone",
    "not_json",
    "not_a_number",
    "binary",
    "cycle",
    "large",
    "deep",
    "raises",
    "leaves_children",
];

/// The processes of a kit's sandboxes beside its keeper and its warm, idle parents.
fn strangers(kit: &Kit) -> Vec<String> {
    kit.inhabitants()
        .into_iter()
        .filter(|command| !command.contains("kitbag_worker") && !command.contains("guard-keeper"))
        .collect()
}

async fn nobody_is_left(kit: &Kit, chats: usize) {
    for _ in 0..100 {
        // The parent and its usher; in each chat that was used the host, and a child that waits for the next call.
        if strangers(kit).is_empty() && kit.count_of("kitbag_worker") <= 2 + 2 * chats {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("five seconds later there still are {:?}", kit.inhabitants());
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_call_ends_is_told_apart() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    for (function, expected) in [
        ("exit_now", "ended its process with code 7"),
        ("exit_politely", "exit code 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("crash", "SIGSEGV"),
        ("not_json", "set"),
        ("not_a_number", "/a/1"),
        ("binary", "bytes"),
        ("cycle", "itself"),
        ("large", "1048576"),
        ("deep", "200"),
        ("raises", "ValueError: no such thing"),
        ("gulp", "MemoryError"),
        ("swallow", "MemoryError"),
        ("descriptors", "Too many open files"),
    ] {
        let message = kit.failed(&program, function).await;
        assert!(message.contains(expected), "{function}: {message}");
    }
    assert_eq!(kit.returned(&program, "fine", Value::Null).await["calls"], 1);
    nobody_is_left(&kit, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaks_from_call_to_call() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    for _ in 0..3 {
        kit.returned(&program, "leak", Value::Null).await;
        let fine = kit.returned(&program, "fine", Value::Null).await;
        assert_eq!(fine, json!({ "calls": 1, "leak": null, "files": [] }));
    }
    nobody_is_left(&kit, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_ends_everything() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    for function in ["spin", "sleep", "stubborn", "last_words"] {
        let mut job = kit.job(function, Value::Null);
        job.deadline = Duration::from_millis(800);
        let (finished, _) = kit.call(&program, job).await;
        let failure = finished.result.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout, "{function}: {failure:?}");
        assert!(strangers(&kit).is_empty(), "{function}: {:?}", kit.inhabitants());
    }
    assert!(kit.workspace().join("partial.txt").exists());
    assert_eq!(std::fs::read_to_string(kit.workspace().join("last.txt")).unwrap(), "cleaned up");
    assert_eq!(kit.returned(&program, "fine", Value::Null).await["calls"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_be_stopped() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    for function in ["sleep", "stubborn"] {
        let (heard, _events) = mpsc::unbounded_channel();
        let (go, stop) = watch::channel(false);
        let call = kit.workers.call(&program, kit.job(function, Value::Null), heard, stop);
        let stopping = async {
            kit.until(|kit| kit.count_of("kitbag_worker") >= 4).await;
            go.send_replace(true);
        };
        let (finished, ()) = tokio::join!(call, stopping);
        assert_eq!(finished.result.unwrap_err().kind, FailureKind::Cancelled, "{function}");
        assert!(strangers(&kit).is_empty(), "{:?}", kit.inhabitants());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_and_a_glutton_disturb_nobody() {
    let kit = Kit::with(|settings| settings.memory = 256 << 20);
    let program = kit.program("faults", TOOLS, &NAMES);
    let other = kit.other_chat();
    kit.returned(&program, "fine", Value::Null).await;
    for function in ["bomb", "shared_memory"] {
        let mut job = kit.job(function, Value::Null);
        job.deadline = Duration::from_secs(3);
        let bad = kit.call(&program, job);
        let good = async {
            for _ in 0..5 {
                let mut job = kit.job("fine", json!({ "wait": 0.2 }));
                (job.chat, job.workspace) = other.clone();
                let (finished, _) = kit.call(&program, job).await;
                assert_eq!(finished.result.unwrap()["calls"], 1, "{function}");
            }
        };
        let ((bad, _), ()) = tokio::join!(bad, good);
        assert!(bad.result.is_err(), "{function}");
        nobody_is_left(&kit, 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_drained_and_its_end_is_kept() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    let (finished, events) = kit.call(&program, kit.job("flood", Value::Null)).await;
    assert_eq!(finished.result.unwrap(), "done");
    let kept: usize = finished.logs.iter().map(|line| line.text.len() + 1).sum();
    assert!(kept <= 64 * 1024 && kept > 60 * 1024, "{kept}");
    assert_eq!(finished.logs_cut + kept as u64, 100 << 20);
    assert!(events.len() < 2000, "{}", events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_is_not_an_answer() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    assert_eq!(kit.returned(&program, "forge", Value::Null).await, "honest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_can_kill_only_itself() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    // The first process of a namespace cannot be killed from inside it, and has no parent there.
    let numbers = kit.returned(&program, "kill_everyone", Value::Null).await;
    assert_eq!(numbers, json!([1, 0]));
    assert_eq!(kit.returned(&program, "fine", Value::Null).await["calls"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_nothing_outlives_its_call() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    assert_eq!(kit.returned(&program, "leaves_children", Value::Null).await, "done");
    // When the call has returned, they are dead already.
    assert!(strangers(&kit).is_empty(), "{:?}", kit.inhabitants());
    assert!(kit.workers.processes(&kit.org(), kit.chat).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toolset_that_is_ended_takes_its_calls_along() {
    let kit = Kit::new();
    let program = kit.program("faults", TOOLS, &NAMES);
    let call = kit.call(&program, kit.job("sleep", Value::Null));
    let ending = async {
        kit.until(|kit| kit.count_of("kitbag_worker") >= 4).await;
        kit.workers.end_toolset(&kit.org(), "faults").await;
    };
    let ((finished, _), ()) = tokio::join!(call, ending);
    assert_eq!(finished.result.unwrap_err().kind, FailureKind::Interrupted);
    assert_eq!(kit.count_of("kitbag_worker"), 0, "{:?}", kit.inhabitants());
    // It starts again when it is needed.
    assert_eq!(kit.returned(&program, "fine", Value::Null).await["calls"], 1);
}
