//! What a tool cannot see or reach.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::kit::Kit;

const TOOLS: &str = r#"
import os, socket, subprocess, ctypes, errno
from covalt_toolset import tool

@tool
def read(paths: list[str]) -> dict:
    """Which of them can be read."""
    found = {}
    for path in paths:
        try:
            found[path] = os.listdir(path) if os.path.isdir(path) else open(path).read(20)
        except OSError as error:
            found[path] = None
    return found

@tool
def write(paths: list[str]) -> list[str]:
    """Which of them can be written."""
    done = []
    for path in paths:
        try:
            with open(path, "w") as file: file.write("x")
            done.append(path)
        except OSError: pass
    return done

@tool
def connect(addresses: list[list]) -> list:
    """Which of them answer."""
    reached = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=2).close()
            reached.append([host, port])
        except OSError: pass
    return reached

@tool
def look() -> dict:
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    return {
        "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "uid": os.getuid(),
        "caps": status["CapEff"] + status["CapPrm"] + status["CapBnd"][:0],
        "privileges": status["NoNewPrivs"],
        "seccomp": status["Seccomp"],
        "environment": sorted(os.environ),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "root": sorted(os.listdir("/")),
        "mounts": [line.split()[4] for line in open("/proc/self/mountinfo")],
    }

@tool
def escape() -> dict:
    """Tries what breaks sandboxes; each gives an error's name, or what it got."""
    libc = ctypes.CDLL(None, use_errno=True)
    def call(name, *args):
        result = getattr(libc, name)(*args)
        return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
    return {
        "unshare user": call("unshare", 0x10000000),
        "mount": call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None),
        "chroot": call("chroot", b"/tmp"),
        "ptrace": call("ptrace", 16, 1, 0, 0),
        "vsock": _socket(40),
        "packet": _socket(17),
        "netlink for firewalls": _socket(16, 12),
        "setuid": call("setuid", 0),
        "set-id file": _made(lambda: (open("plain", "w").close(), os.chmod("plain", 0o4755))),
        "set-gid file": _made(lambda: (open("plain", "w").close(), os.fchmod(os.open("plain", os.O_RDONLY), 0o2755))),
        "new set-id file": _made(lambda: os.open("new", os.O_CREAT | os.O_WRONLY, 0o4755)),
        "nameless set-id file": _made(lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)),
        "unshare in a child": subprocess.run(["unshare", "--user", "--map-root-user", "true"]).returncode != 0,
        "setuid program": subprocess.run(["sh", "-c", "su -c true 2>/dev/null"], stdin=subprocess.DEVNULL).returncode != 0,
    }

def _socket(family, protocol=0):
    return _made(lambda: socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_RAW, protocol).close())

def _made(make):
    try:
        make()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
"#;

const NAMES: [&str; 5] = ["read", "write", "connect", "look", "escape"];

#[tokio::test(flavor = "multi_thread")]
async fn other_peoples_files_are_not_there() {
    let kit = Kit::new();
    let other = kit.program("other", "SECRET = 1\n", &[]);
    let elsewhere = kit.other_chat().1;
    std::fs::write(elsewhere.join("secret"), "x").unwrap();
    std::fs::write(kit.workspace().join("own"), "mine").unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    let program = kit.program("confined", TOOLS, &NAMES);
    let text = |path: &std::path::Path| path.display().to_string();
    let hidden = [
        "/etc/passwd".to_owned(),
        "/etc/shadow".to_owned(),
        "/root/.ssh".to_owned(),
        "/home".to_owned(),
        "/proc/1/root/etc/passwd".to_owned(),
        "/sys".to_owned(),
        "/run".to_owned(),
        "/var".to_owned(),
        text(kit.folder.path()),
        text(&other.folder.join("t.py")),
        text(&elsewhere.join("secret")),
        text(secret.path()),
        "../secret".to_owned(),
        format!("/workspace/../../{}", text(&elsewhere.join("secret"))),
    ];
    let found = kit.returned(&program, "read", json!({ "paths": hidden })).await;
    for (path, found) in found.as_object().unwrap() {
        assert!(found.is_null(), "{path}: {found}");
    }
    let own = kit.returned(&program, "read", json!({ "paths": ["own", "/workspace/own", "/toolset/t.py"] })).await;
    assert_eq!(own["own"], "mine");
    assert_eq!(own["/workspace/own"], "mine");
    assert!(own["/toolset/t.py"].as_str().unwrap().starts_with("\nimport os"), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_out_of_the_workspace_leads_nowhere() {
    let kit = Kit::new();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(secret.path(), kit.workspace().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", kit.workspace().join("shadow")).unwrap();
    let program = kit.program("confined", TOOLS, &NAMES);
    let found = kit.returned(&program, "read", json!({ "paths": ["link", "shadow"] })).await;
    assert_eq!(found, json!({ "link": null, "shadow": null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_workspace_and_a_private_folder_can_be_written() {
    let kit = Kit::new();
    let program = kit.program("confined", TOOLS, &NAMES);
    let paths = [
        "/workspace/a",
        "/tmp/a",
        "/dev/shm/a",
        "/dev/null",
        "/toolset/a",
        "/kitbag/a",
        "/usr/a",
        "/etc/a",
        "/a",
        "/dev/a",
        "/proc/sys/kernel/hostname",
        "/proc/self/oom_score_adj",
    ];
    let written = kit.returned(&program, "write", json!({ "paths": paths })).await;
    assert_eq!(written, json!(["/workspace/a", "/tmp/a", "/dev/shm/a", "/dev/null"]));
    assert_eq!(std::fs::read_to_string(kit.workspace().join("a")).unwrap(), "x");
    assert!(!kit.folder.path().join("toolsets/confined/a").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers() {
    let kit = Kit::new();
    let program = kit.program("confined", TOOLS, &NAMES);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let addresses = json!([["127.0.0.1", port], ["localhost", port], ["169.254.169.254", 80]]);
    let reached = kit.returned(&program, "connect", json!({ "addresses": addresses })).await;
    assert_eq!(reached, json!([]));
    // Where the machine's network is granted, the same call reaches it: so it is not the address that is wrong.
    let mut granted = kit.program("granted", TOOLS, &NAMES);
    granted.network = true;
    let reached = kit.returned(&granted, "connect", json!({ "addresses": [["127.0.0.1", port]] })).await;
    assert_eq!(reached, json!([["127.0.0.1", port]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_alone_and_powerless() {
    let kit = Kit::new();
    let program = kit.program("confined", TOOLS, &NAMES);
    let seen = kit.returned(&program, "look", Value::Null).await;
    assert_eq!(seen["pids"], json!([1]));
    assert_eq!(seen["uid"], 1000);
    assert_eq!(seen["caps"], "0".repeat(32));
    assert_eq!((&seen["privileges"], &seen["seccomp"]), (&json!("1"), &json!("2")));
    assert_eq!(seen["interfaces"], json!(["lo"]));
    let known = ["HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR", "TZ", "USER"];
    for name in seen["environment"].as_array().unwrap() {
        assert!(known.contains(&name.as_str().unwrap()), "{name}");
    }
    let root = [
        "bin",
        "dev",
        "etc",
        "kitbag",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "sbin",
        "tmp",
        "toolset",
        "usr",
        "workspace",
    ];
    for name in seen["root"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        // The interpreter may live somewhere else.
        assert!(root.contains(&name) || name == "root" || name == "opt" || name == "home", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_sandboxes_is_refused() {
    let kit = Kit::new();
    let program = kit.program("confined", TOOLS, &NAMES);
    let tried = kit.returned(&program, "escape", Value::Null).await;
    let expected = json!({
        "unshare user": "EPERM", "mount": "EPERM", "chroot": "EPERM", "ptrace": "EPERM", "vsock": "EPERM", "packet": "EPERM",
        "netlink for firewalls": "EPERM", "set-id file": "EPERM", "set-gid file": "EPERM", "new set-id file": "EPERM",
        "nameless set-id file": "EPERM", "setuid": "EPERM", "unshare in a child": true, "setuid program": true,
    });
    // The number 0 is not even a user in there, which is another way to refuse it.
    let mut tried = tried;
    if tried["setuid"] == "EINVAL" {
        tried["setuid"] = json!("EPERM");
    }
    assert_eq!(tried, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_toolsets_have_modules_of_one_name() {
    let kit = Kit::new();
    let programs = ["one", "two"].map(|id| {
        let folder = kit.folder.path().join("toolsets").join(id).join("tools");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("util.py"), format!("NAME = '{id}'\n")).unwrap();
        std::fs::write(folder.join("json.py"), "NAME = 'not the real one'\n").unwrap();
        kit.program(
            id,
            "from tools.util import NAME\nimport json\ndef f(workspace): return [NAME, json.dumps(1)]\n",
            &["f"],
        )
    });
    for (program, name) in programs.iter().zip(["one", "two"]) {
        assert_eq!(kit.returned(program, "f", Value::Null).await, json!([name, "1"]));
    }
}
