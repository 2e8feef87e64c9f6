//! The packages of toolsets, by the real installer, from a shop of our own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kitbag_python::{FailureKind, Program};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::kit::Kit;
use crate::shop::{Shop, again, on_the_path, programs, real_python};

const PLAIN: &str = "def f(): return 'fine'";

/// Says which version of a package is there, for those that import it early and those that do late.
const TINY: &str = "
import kb_tiny
def f():
    import kb_tiny as late
    return [kb_tiny.VERSION, late.VERSION]
";

/// A toolset that needs packages.
fn needing(kit: &Kit, id: &str, text: &str, packages: &[&str]) -> Program {
    let mut program = kit.program(id, text, &["f"]);
    program.needs.dependencies = packages.iter().map(|package| package.parse().unwrap()).collect();
    program
}

/// Prepares it. What was heard meanwhile, or why it cannot be.
async fn prepared(kit: &Kit, program: &Program) -> Result<Vec<String>, String> {
    let (heard, mut lines) = mpsc::unbounded_channel();
    let outcome = kit.workers.prepare(program, heard).await;
    let mut all = Vec::new();
    while let Ok(line) = lines.try_recv() {
        all.push(line);
    }
    outcome.map(|()| all).map_err(|error| error.to_string())
}

/// What there is of environments: those that are whole, lists of exact versions, and anything else.
fn on_disk(kit: &Kit) -> (Vec<PathBuf>, usize, Vec<String>) {
    let (mut whole, mut locks, mut others) = (Vec::new(), 0, Vec::new());
    for entry in fs::read_dir(kit.folder.path().join("environments")).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.join("complete").is_file() {
            whole.push(path);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            locks += 1;
        } else {
            others.push(path.display().to_string());
        }
    }
    whole.sort();
    (whole, locks, others)
}

fn counted(kit: &Kit) -> (usize, usize, usize) {
    let (whole, locks, others) = on_disk(kit);
    (whole.len(), locks, others.len())
}

/// Other toolsets work, whatever this one's packages do.
async fn others_work(kit: &Kit) {
    let program = kit.program("other", PLAIN, &["f"]);
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!("fine"));
}

#[tokio::test]
async fn one_environment_is_built_once_and_shared() {
    let Some(_shop) = Shop::enter("environments::one_environment_is_built_once_and_shared") else { return };
    let kit = Kit::new();
    let one = needing(&kit, "one", "import kb_big\ndef f(): return kb_big.BIG", &["kb-big"]);
    let two = needing(&kit, "two", TINY, &["kb-big>=1,<2", "kb_tiny"]);
    assert!(!kit.workers.is_prepared(&one).await);
    assert_eq!(prepared(&kit, &one).await.unwrap(), ["resolving kb-big", "installing 2 packages"]);
    assert!(kit.workers.is_prepared(&one).await && !kit.workers.is_prepared(&two).await);
    assert_eq!(prepared(&kit, &one).await.unwrap(), [""; 0]);
    assert_eq!(kit.returned(&one, "f", Value::Null).await, json!(200));
    let folder = on_disk(&kit).0.remove(0);
    let before = fs::metadata(&folder).unwrap().ino();
    // Other words, the same packages: nothing is installed, least of all over what somebody uses.
    assert_eq!(prepared(&kit, &two).await.unwrap(), ["resolving kb-big>=1,<2, kb_tiny"]);
    assert_eq!(kit.returned(&two, "f", Value::Null).await, json!([2, 2]));
    assert_eq!((counted(&kit), fs::metadata(&folder).unwrap().ino()), ((1, 2, 0), before));
    // What is published later changes nothing, for the exact versions are known.
    assert_eq!(prepared(&kit, &two).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn organisations_share_no_environment() {
    let Some(shop) = Shop::enter("environments::organisations_share_no_environment") else { return };
    let kit = Kit::new();
    let mine = needing(&kit, "t", TINY, &["kb-tiny"]);
    let theirs = Program { org: "acme".parse().unwrap(), ..mine.clone() };
    prepared(&kit, &mine).await.unwrap();
    assert!(!kit.workers.is_prepared(&theirs).await, "what one installed is not there for the other");
    shop.sell("kb_tiny", "3.0", "VERSION = 3", &[]);
    assert_eq!(prepared(&kit, &theirs).await.unwrap(), ["resolving kb-tiny", "installing 1 packages"]);
    assert!(kit.folder.path().join("orgs/acme/environments").is_dir());
    assert_eq!(kit.returned(&mine, "f", Value::Null).await, json!([2, 2]));
    assert_eq!(kit.returned(&theirs, "f", Value::Null).await, json!([3, 3]));
    // What one needs no more goes, and what the other needs stays.
    kit.workers.end_toolset(&theirs.org, "t").await;
    kit.workers.keep_environments(std::slice::from_ref(&mine)).await;
    assert!(kit.workers.is_prepared(&mine).await && !kit.workers.is_prepared(&theirs).await);
    // Whoever shares the machine builds nothing outside the sandbox, trusted or not.
    let direct = needing(&kit, "d", PLAIN, &["kb-tiny @ https://example.invalid/kb_tiny-1.0-py3-none-any.whl"]);
    let direct = Program { org: theirs.org.clone(), trusted: true, ..direct };
    let refused = prepared(&kit, &direct).await.unwrap_err();
    assert!(refused.contains("shares this machine"), "{refused}");
}

#[tokio::test]
async fn a_later_version_is_not_taken_unasked() {
    let Some(shop) = Shop::enter("environments::a_later_version_is_not_taken_unasked") else { return };
    let kit = Kit::new();
    let program = needing(&kit, "t", TINY, &["kb-tiny"]);
    prepared(&kit, &program).await.unwrap();
    shop.sell("kb_tiny", "3.0", "VERSION = 3", &[]);
    fs::remove_dir_all(&on_disk(&kit).0[0]).unwrap();
    assert_eq!(prepared(&kit, &program).await.unwrap(), ["installing 1 packages"]);
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!([2, 2]));
}

#[tokio::test]
async fn packages_cannot_be_changed_by_those_who_use_them() {
    let Some(_shop) = Shop::enter("environments::packages_cannot_be_changed_by_those_who_use_them") else { return };
    let kit = Kit::new();
    let text = r#"
import os, sys, kb_tiny
place = os.path.dirname(kb_tiny.__file__)
def attempts():
    refused = 0
    for do in (
        lambda: open(kb_tiny.__file__, "a").write("VERSION = 9"),
        lambda: open(place + "/more.py", "w").write(""),
        lambda: os.remove(kb_tiny.__file__),
        lambda: os.rename(place, place + "2"),
        lambda: os.chmod(place, 0o777),
        lambda: open("/env/complete", "w").write(""),
        lambda: open("/env/pyvenv.cfg", "a").write("home = /workspace"),
    ):
        try: do()
        except OSError: refused += 1
    return refused
early = attempts()
def f(): return [early, attempts(), kb_tiny.VERSION, sys.prefix]
"#;
    let program = needing(&kit, "t", text, &["kb-tiny==1.0"]);
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!([7, 7, 1, "/env"]));
}

#[tokio::test]
async fn a_bundle_says_what_it_needs_in_a_file() {
    let Some(_shop) = Shop::enter("environments::a_bundle_says_what_it_needs_in_a_file") else { return };
    let kit = Kit::new();
    let with_file = |id: &str, file: &str, text: &str| {
        let program = kit.program(id, TINY, &["f"]);
        fs::write(program.folder.join(file), text).unwrap();
        program
    };
    let listed = "# what we need\n\nkb-tiny == 1.0  # the old one\nkb-big; python_version < '3'\n";
    let listed = with_file("listed", "requirements.txt", listed);
    assert_eq!(kit.returned(&listed, "f", Value::Null).await, json!([1, 1]));
    let project = "[project]\nname = 'x'\nversion = '1'\ndependencies = ['kb-tiny>1']\n";
    let project = with_file("project", "pyproject.toml", project);
    assert_eq!(kit.returned(&project, "f", Value::Null).await, json!([2, 2]));
    assert_eq!(counted(&kit), (2, 2, 0));
    // The manifest's own list counts before both.
    let mut both = with_file("both", "requirements.txt", "kb-tiny==1.0");
    both.needs.dependencies = vec!["kb-tiny==2.0".parse().unwrap()];
    assert_eq!(kit.returned(&both, "f", Value::Null).await, json!([2, 2]));
    for (file, text, words) in [
        ("requirements.txt", "kb-tiny\n-r /etc/passwd", ["requirements.txt of bad", "\"-r /etc/passwd\""]),
        ("requirements.txt", "--index-url https://evil.example", ["requirements.txt of bad", "not a requirement"]),
        ("requirements.txt", "kb-tiny @ file:///etc", ["requirements.txt of bad", "https://"]),
        ("pyproject.toml", "[project", ["pyproject.toml of bad", "expected"]),
        ("pyproject.toml", "[project]\ndependencies = ['./here']", ["pyproject.toml of bad", "\"./here\""]),
    ] {
        let bad = with_file("bad", file, text);
        let error = prepared(&kit, &bad).await.unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)), "{file} {text:?}: {error}");
        fs::remove_file(bad.folder.join(file)).unwrap();
    }
}

#[tokio::test]
async fn a_version_of_python_that_is_not_there() {
    let kit = Kit::new();
    let mut program = kit.program("t", PLAIN, &["f"]);
    program.needs.version = Some(">=3.99".parse().unwrap());
    let message = kit.failed(&program, "f").await;
    let there = message.strip_prefix("this toolset needs Python >=3.99; installed: 3.");
    assert!(there.is_some_and(|versions| versions.starts_with(|c: char| c.is_ascii_digit())), "{message}");
    others_work(&kit).await;
    program.needs.version = Some(">=3.10,<3.99".parse().unwrap());
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!("fine"));
}

#[tokio::test]
async fn interpreters_are_asked_one_after_the_other_and_once() {
    let script = |folder: &Path, name: &str| {
        let log = folder.join("asked").display().to_string();
        format!("echo {name} >> '{log}'; exec '{}' \"$@\"", real_python().display())
    };
    let names = ["python3", "python3.14", "python3.10"];
    let entered = Shop::enter_with("environments::interpreters_are_asked_one_after_the_other_and_once", |folder| {
        let scripts: Vec<(&str, String)> = names.iter().map(|name| (*name, script(folder, name))).collect();
        vec![("PATH", programs(folder, &scripts))]
    });
    let Some(shop) = entered else { return };
    let asked = || fs::read_to_string(shop.folder().join("asked")).unwrap();
    let kit = Kit::new();
    others_work(&kit).await;
    assert_eq!(asked(), "python3\n");
    let mut program = kit.program("t", PLAIN, &["f"]);
    program.needs.version = Some("3.99".parse().unwrap());
    let message = kit.failed(&program, "f").await;
    assert_eq!((message.contains("needs Python 3.99"), asked().as_str()), (true, "python3\npython3.14\npython3.10\n"));
    assert_eq!(kit.failed(&program, "f").await, message);
    assert_eq!(asked().lines().count(), 3);
}

#[tokio::test]
async fn a_package_that_does_not_exist() {
    let Some(shop) = Shop::enter("environments::a_package_that_does_not_exist") else { return };
    let kit = Kit::new();
    let text = "import kb_late\ndef f(): return kb_late.VERSION";
    let program = needing(&kit, "t", text, &["kb-late"]);
    let error = prepared(&kit, &program).await.unwrap_err();
    assert!(error.starts_with("the packages of t cannot be installed:") && error.contains("kb-late"), "{error}");
    let (finished, _) = kit.call(&program, kit.job("f", Value::Null)).await;
    assert_eq!(finished.result.unwrap_err().kind, FailureKind::Unavailable);
    assert_eq!(counted(&kit), (0, 0, 0));
    others_work(&kit).await;
    shop.sell("kb_late", "1.0", "VERSION = 'late'", &[]);
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!("late"));
}

#[tokio::test]
async fn without_the_installer_the_error_says_so() {
    let test = "environments::without_the_installer_the_error_says_so";
    let Some(_shop) = Shop::enter_with(test, |folder| vec![("PATH", programs(folder, &[]))]) else { return };
    let kit = Kit::new();
    let program = needing(&kit, "t", TINY, &["kb-tiny"]);
    let error = prepared(&kit, &program).await.unwrap_err();
    let wanted = "t needs Python packages, and uv, which installs them, is not on the path. Install it: pip install uv";
    assert_eq!(error, wanted);
    assert_eq!(kit.failed(&program, "f").await, wanted);
    assert_eq!(counted(&kit), (0, 0, 0));
    others_work(&kit).await;
}

#[tokio::test]
async fn without_a_network_the_error_says_so() {
    // No shop has it, the cache is empty, and the installer may not go out.
    let Some(_shop) = Shop::enter("environments::without_a_network_the_error_says_so") else { return };
    let kit = Kit::new();
    let program = needing(&kit, "t", TINY, &["requests"]);
    let error = prepared(&kit, &program).await.unwrap_err();
    assert!(error.contains("requests") && error.contains("the network was disabled"), "{error}");
    others_work(&kit).await;
}

#[tokio::test]
async fn a_package_by_its_address_needs_trust() {
    let Some(_shop) = Shop::enter("environments::a_package_by_its_address_needs_trust") else { return };
    let kit = Kit::new();
    let address = "kb-tiny @ https://127.0.0.1:1/kb_tiny-1.0-py3-none-any.whl";
    let mut program = needing(&kit, "t", TINY, &[address]);
    let error = prepared(&kit, &program).await.unwrap_err();
    assert!(error.contains(address) && error.contains("trust the toolset first"), "{error}");
    assert_eq!(counted(&kit), (0, 0, 0));
    program.trusted = true;
    // Now it is tried, and there is nobody at that address.
    let error = prepared(&kit, &program).await.unwrap_err();
    assert!(error.starts_with("the packages of t cannot be installed:") && error.contains("127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn a_package_is_built_only_for_the_trusted() {
    let Some(shop) = Shop::enter("environments::a_package_is_built_only_for_the_trusted") else { return };
    let kit = Kit::new();
    let trace = shop.folder().join("trace");
    shop.sell_source("kb_source", &trace);
    let mut program = needing(&kit, "t", PLAIN, &["kb-source"]);
    let error = prepared(&kit, &program).await.unwrap_err();
    assert!(error.contains("kb-source") && error.contains("trust the toolset"), "{error}");
    assert!(!trace.exists(), "its code has run");
    program.trusted = true;
    // What it does when it is built is nothing useful.
    prepared(&kit, &program).await.unwrap_err();
    assert!(trace.exists());
}

#[tokio::test]
async fn a_build_that_is_killed_leaves_nothing_broken() {
    const TEST: &str = "environments::a_build_that_is_killed_leaves_nothing_broken";
    let Some(shop) = Shop::enter(TEST) else { return };
    if let Some(data) = std::env::var_os("KITBAG_TEST_DATA") {
        let kit = Kit::with(|settings| settings.data = data.into());
        prepared(&kit, &needing(&kit, "t", TINY, &["kb-tiny"])).await.unwrap();
        unreachable!("the installer waits");
    }
    let kit = Kit::new();
    let (mark, go_on) = (shop.folder().join("waits"), shop.folder().join("go-on"));
    // It does its work, and then waits to be killed, or at least for the process that started it.
    let script = format!(
        "'{}' \"$@\" || exit; case \"$*\" in *'pip install'*) touch '{}'; while [ -e '{}' ] && ! [ -e '{}' ]; do sleep 0.05; done;; esac",
        on_the_path("uv").display(),
        mark.display(),
        // It goes with the folder at the end of the test, whoever is quicker.
        mark.display(),
        go_on.display()
    );
    let bin = programs(shop.folder(), &[("uv", script)]);
    let path = std::env::join_paths([bin, "/usr/bin".into(), "/bin".into()]).unwrap();
    let variables = [
        ("KITBAG_TEST_DATA", kit.folder.path().to_owned()),
        ("KITBAG_TEST_SHOP", shop.folder().to_owned()),
        ("PATH", path.into()),
    ];
    let mut killed = again(TEST, shop.folder(), &variables);
    kit.until(|_| mark.exists()).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    // Exact versions, no environment, and something that nobody will take for one.
    assert_eq!(counted(&kit), (0, 1, 1));
    let program = needing(&kit, "t", TINY, &["kb-tiny"]);
    assert!(!kit.workers.is_prepared(&program).await);
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!([2, 2]));
    // The installer that was left behind goes on, and harms nobody.
    fs::write(&go_on, "").unwrap();
    kit.workers.keep_environments(std::slice::from_ref(&program)).await;
    assert_eq!(counted(&kit), (1, 1, 0));
    assert_eq!(kit.returned(&program, "f", Value::Null).await, json!([2, 2]));
}

#[tokio::test]
async fn environments_that_nobody_needs_are_removed() {
    let Some(_shop) = Shop::enter("environments::environments_that_nobody_needs_are_removed") else { return };
    let kit = Kit::new();
    // There is nothing yet to remove.
    kit.workers.keep_environments(&[]).await;
    let old = needing(&kit, "old", TINY, &["kb-tiny==1.0"]);
    let new = needing(&kit, "new", TINY, &["kb-tiny==2.0"]);
    prepared(&kit, &old).await.unwrap();
    assert_eq!(kit.returned(&new, "f", Value::Null).await, json!([2, 2]));
    assert_eq!(counted(&kit), (2, 2, 0));
    kit.workers.keep_environments(&[old.clone(), new.clone(), kit.program("other", PLAIN, &["f"])]).await;
    assert_eq!(counted(&kit), (2, 2, 0));
    // Nobody says that the new one is needed, but its worker lives.
    kit.workers.keep_environments(std::slice::from_ref(&old)).await;
    assert_eq!(counted(&kit), (2, 1, 0));
    assert_eq!(kit.returned(&new, "f", Value::Null).await, json!([2, 2]));
    kit.workers.end_toolset(&kit.org(), "new").await;
    kit.workers.keep_environments(std::slice::from_ref(&old)).await;
    assert_eq!(counted(&kit), (1, 1, 0));
    assert!(kit.workers.is_prepared(&old).await && !kit.workers.is_prepared(&new).await);
    // Who comes back gets it again.
    assert_eq!(kit.returned(&new, "f", Value::Null).await, json!([2, 2]));
    kit.workers.end_toolset(&kit.org(), "new").await;
    kit.workers.keep_environments(&[]).await;
    assert_eq!(counted(&kit), (0, 0, 0));
}
