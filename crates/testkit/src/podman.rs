//! A container engine of a test's own: podman's service on a socket in a temporary folder, with nothing in it but what the test puts there.
//!
//! No registry is asked for anything: images are made of files of this machine. podman is run as root with `runc`, which can do what `crun` cannot
//! where both versions of control groups are mounted.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Programs of busybox that images of tests have.
const PROGRAMS: [&str; 20] = [
    "sh", "cat", "ls", "id", "sleep", "dd", "yes", "head", "tail", "wc", "echo", "ps", "nc", "mkdir", "cp", "ln",
    "env", "sed", "seq", "tr",
];

/// The files in which an engine has what it knows of registries, and its credentials for them.
const REGISTRIES: &str = "registries.conf";
const CREDENTIALS: &str = "containers/auth.json";

/// An engine, which ends with this.
pub struct Podman {
    folder: tempfile::TempDir,
    service: Child,
}

impl Podman {
    /// Starts one, and waits until it listens.
    pub fn start() -> Self {
        // Paths of sockets are short.
        let folder = tempfile::Builder::new().prefix("kb-pod").tempdir().expect("a folder");
        let settings = [(REGISTRIES, "unqualified-search-registries = []\n"), (CREDENTIALS, "{}\n")];
        std::fs::create_dir(folder.path().join("containers")).expect("a folder");
        settings.iter().for_each(|(name, text)| std::fs::write(folder.path().join(name), text).expect("a file"));
        let service = serve(folder.path());
        Self { folder, service }
    }

    /// Tells the engine of a registry of this machine, with the credentials that it knows for it.
    pub fn knows_registry(&mut self, address: &str, credentials: &str) {
        let registries = format!("[[registry]]\nlocation = \"{address}\"\ninsecure = true\n");
        std::fs::write(self.folder.path().join(REGISTRIES), registries).expect("a file");
        let auths = serde_json::json!({ "auths": { address: { "auth": credentials } } });
        std::fs::write(self.folder.path().join(CREDENTIALS), auths.to_string()).expect("a file");
        // It reads them once.
        self.kill();
        self.again();
    }

    /// Kills the service. What runs in containers runs on.
    pub fn kill(&mut self) {
        let _ = self.service.kill();
        let _ = self.service.wait();
    }

    /// Starts the service again.
    pub fn again(&mut self) {
        self.service = serve(self.folder.path());
    }

    /// What `DOCKER_HOST` is for it.
    pub fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("s.sock").display())
    }

    /// Runs podman's command on it. What it printed.
    pub fn run(&self, args: &[&str]) -> String {
        self.try_run(args).unwrap_or_else(|error| panic!("podman {args:?}: {error}"))
    }

    /// Its images, as it lists them.
    pub fn images(&self, args: &[&str]) -> String {
        self.list(&[&["images"], args].concat())
    }

    /// The ids of all containers that there are, those in which an image is built, too.
    pub fn with_builders(&self) -> String {
        self.list(&["ps", "--all", "--external", "--quiet"])
    }

    /// A list, which is asked for again where something of it went meanwhile: podman says that this is an error.
    fn list(&self, args: &[&str]) -> String {
        let mut tries = (0..10).map(|_| self.try_run(args));
        let listed = tries.find(|listed| !listed.as_ref().is_err_and(|error| error.contains("not known")));
        listed.expect("a list while none goes").unwrap_or_else(|error| panic!("podman {args:?}: {error}"))
    }

    fn try_run(&self, args: &[&str]) -> Result<String, String> {
        let done = podman(self.folder.path()).args(args).output().expect("podman");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    /// Imports an image of this name: busybox, and these files beside it. Changes are instructions of a Containerfile.
    pub fn image(&self, name: &str, files: &[(&str, &str)], changes: &[&str]) {
        let root = self.folder.path().join("rootfs");
        let _ = std::fs::remove_dir_all(&root);
        busybox(&root);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        let archive = self.folder.path().join("rootfs.tar");
        let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
        assert!(packed.expect("tar").success());
        let mut args = vec!["import", "--quiet"];
        changes.iter().for_each(|change| args.extend(["--change", change]));
        let archive = archive.to_str().expect("a path").to_owned();
        args.extend([archive.as_str(), name]);
        self.run(&args);
    }

    /// Imports an image of this name that starts a server which is a Python program: this machine's interpreter, and a distribution
    /// that the tests have, with all that it needs.
    pub fn python_server(&self, name: &str, distribution: &str, args: &[&str]) {
        let Some(bin) = std::env::var_os("KITBAG_TEST_PYTHON_BIN").map(PathBuf::from) else {
            panic!(
                "KITBAG_TEST_PYTHON_BIN is not set: run `scripts/test`, which installs what the tests need and says where it is"
            )
        };
        let archive = self.folder.path().join("python.tar");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/containers/pack.py");
        let packed = Command::new(bin.join("python")).arg(script).arg(distribution).arg(&archive).status();
        assert!(packed.expect("python").success());
        let words: Vec<String> =
            ["/opt/python/bin/python3"].iter().chain(args).map(|word| format!("{word:?}")).collect();
        let (command, archive) = (format!("ENTRYPOINT [{}]", words.join(", ")), archive.to_str().expect("a path"));
        let home = "ENV PYTHONHOME=/opt/python";
        self.run(&["import", "--quiet", "--change", &command, "--change", home, archive, name]);
    }

    /// The ids of the containers that run.
    pub fn running(&self) -> Vec<String> {
        self.run(&["ps", "--quiet"]).lines().map(ToOwned::to_owned).collect()
    }

    /// The ids of all containers that there are, running or not.
    pub fn containers(&self) -> Vec<String> {
        self.run(&["ps", "--all", "--quiet"]).lines().map(ToOwned::to_owned).collect()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = podman(self.folder.path()).args(["rm", "--all", "--force", "--time", "0"]).output();
        let _ = self.service.kill();
        let _ = self.service.wait();
        // podman binds its own folder over itself.
        let bound = self.folder.path().join("root").join(driver());
        let _ = Command::new("umount").arg("--recursive").arg(bound).stderr(Stdio::null()).status();
    }
}

/// Starts the service, and waits until it listens.
fn serve(folder: &Path) -> Child {
    let socket = folder.join("s.sock");
    let _ = std::fs::remove_file(&socket);
    let mut command = podman(folder);
    command.args(["system", "service", "--time=0"]).arg(format!("unix://{}", socket.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let service = command.spawn().expect("podman is installed: apt-get install podman runc busybox-static");
    let end = Instant::now() + Duration::from_secs(30);
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < end, "podman's service does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    service
}

fn podman(folder: &Path) -> Command {
    let mut command = Command::new("podman");
    command.arg("--root").arg(folder.join("root")).arg("--runroot").arg(folder.join("run"));
    command.arg("--tmpdir").arg(folder.join("tmp"));
    // What runs a container for podman notes there that memory was short.
    command.current_dir(folder);
    command
        .env("CONTAINERS_REGISTRIES_CONF", folder.join(REGISTRIES))
        .env("REGISTRY_AUTH_FILE", folder.join(CREDENTIALS))
        // Its service looks for credentials here alone, as podman 4 does.
        .env("XDG_RUNTIME_DIR", folder);
    command.args(["--storage-driver", driver(), "--runtime", "runc", "--cgroup-manager", "cgroupfs"]);
    command
}

/// How podman keeps images: without a copy of everything for each container where the machine can do that.
fn driver() -> &'static str {
    static DRIVER: OnceLock<&str> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("kb-pod").tempdir().expect("a folder");
        let mut command = Command::new("podman");
        command.arg("--root").arg(folder.path().join("root")).arg("--runroot").arg(folder.path().join("run"));
        command.arg("--tmpdir").arg(folder.path().join("tmp")).args(["--storage-driver", "overlay", "info"]);
        let can = command.output().is_ok_and(|done| done.status.success());
        let bound = folder.path().join("root/overlay");
        let _ = Command::new("umount").arg("--recursive").arg(bound).stderr(Stdio::null()).status();
        if can { "overlay" } else { "vfs" }
    })
}

/// Makes a folder that is an image's: busybox under the names of its programs.
fn busybox(root: &Path) {
    for folder in ["bin", "tmp", "workspace", "kitbag", "etc"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    let found = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from).into_iter().find(|path| path.exists());
    let found = found.expect("busybox is installed: apt-get install busybox-static");
    std::fs::copy(found, root.join("bin/busybox")).expect("a copy");
    for program in PROGRAMS {
        symlink("busybox", root.join("bin").join(program)).expect("a link");
    }
}
