//! A throw-away PostgreSQL cluster, one for all tests of a run, or one of a test's own that may be killed.
//!
//! The first test that needs it starts it; a keeper process watches the test runner and, when that is gone, stops the
//! cluster and removes its folder. It listens on a Unix socket in that folder and on no port. PostgreSQL refuses to
//! run as root, so a root test run starts it as the user `postgres`.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kitbag_model::Secret;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};
use uuid::Uuid;

/// The role that owns the tables.
pub const OWNER: &str = "kitbag_owner";
/// The role that the program serves as.
pub const APP: &str = "kitbag_app";
/// The role that may do everything.
pub const SUPERUSER: &str = "postgres";

const TEMPLATE: &str = "kitbag_template";

/// A running cluster.
#[derive(Clone)]
pub struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    /// The cluster of this test run, started if it is not running yet.
    pub async fn get() -> Self {
        let (run, runner) = match std::env::var("NEXTEST_RUN_ID") {
            Ok(run) => (run, std::os::unix::process::parent_id()),
            Err(_) => (std::process::id().to_string(), std::process::id()),
        };
        // Short, because a socket's path may have 107 bytes.
        let folder = std::env::temp_dir().join(format!("kbpg-{run}"));
        let cluster = Self { folder: folder.clone() };
        let lock = File::create(folder.with_extension("lock")).expect("a lock file for the test cluster");
        tokio::task::block_in_place(|| lock.lock()).expect("the cluster's lock");
        if !folder.join("ready").exists() {
            start(&folder, runner, FAST);
            cluster.make_template().await;
            fs::write(folder.join("ready"), "").expect("mark the cluster ready");
        }
        cluster
    }

    /// A cluster of this process alone, which may be stopped and started. Unlike the other one it keeps what it acknowledged when
    /// it is killed.
    pub async fn own() -> Self {
        let folder = std::env::temp_dir().join(format!("kbpg-own-{}", std::process::id()));
        let cluster = Self { folder: folder.clone() };
        File::create(folder.with_extension("lock")).expect("a lock file for the test cluster");
        start(&folder, std::process::id(), DURABLE);
        cluster.make_template().await;
        cluster
    }

    /// Ends all of its processes at once, as a crash does. For [`Cluster::own`] alone.
    pub fn kill(&self) {
        must(
            as_user(&self.folder, &find_binaries().join("pg_ctl"))
                .args(["-w", "-s", "-m", "immediate", "-D"])
                .arg(self.folder.join("data"))
                .arg("stop"),
        );
    }

    /// Starts it again, which recovers what was acknowledged.
    pub fn revive(&self) {
        launch(&self.folder, DURABLE);
    }

    /// Stops all of its processes where they are until what comes back is dropped, as a machine that hangs does: connections stay, and nobody
    /// answers. For [`Cluster::own`] alone.
    pub fn pause(&self) -> Paused {
        let text = fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the cluster runs");
        let first: i32 = text.lines().next().and_then(|line| line.parse().ok()).expect("the number of its process");
        // The first begins the others, so it goes first.
        let mut all = vec![first];
        signal(first, Signal::STOP);
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<i32>().ok());
            if let (Some(parent), Ok(pid)) = (parent, entry.file_name().to_string_lossy().parse())
                && parent == first
            {
                signal(pid, Signal::STOP);
                all.push(pid);
            }
        }
        Paused(all)
    }

    /// How `role` reaches `database`.
    pub fn url(&self, role: &str, database: &str) -> Secret {
        let socket = self.folder.to_str().expect("a UTF-8 path").replace('/', "%2F");
        Secret::new(format!("postgres://{role}@{socket}/{database}"))
    }

    /// An empty database that belongs to [`OWNER`].
    pub async fn empty_database(&self) -> String {
        self.create_database(&format!("OWNER {OWNER}")).await
    }

    /// A copy of the migrated template.
    pub async fn migrated_database(&self) -> String {
        self.create_database(&format!("OWNER {OWNER} TEMPLATE {TEMPLATE}")).await
    }

    async fn create_database(&self, clauses: &str) -> String {
        let name = format!("t_{}", Uuid::now_v7().simple());
        run(&mut self.connect(SUPERUSER, "postgres").await, &format!("CREATE DATABASE {name} {clauses}")).await;
        name
    }

    /// A plain connection, past the store: for proving what the database itself does.
    pub async fn connect(&self, role: &str, database: &str) -> PgConnection {
        let url = self.url(role, database);
        let options: sqlx::postgres::PgConnectOptions = url.expose().parse().expect("a valid URL");
        options.connect().await.expect("a connection to the test cluster")
    }

    async fn make_template(&self) {
        let mut connection = self.connect(SUPERUSER, "postgres").await;
        run(&mut connection, &format!("CREATE ROLE {OWNER} LOGIN; CREATE ROLE {APP} LOGIN")).await;
        run(&mut connection, &format!("CREATE DATABASE {TEMPLATE} OWNER {OWNER}")).await;
        connection.close().await.unwrap();
        kitbag_store::migrate::migrate_postgres(&self.url(OWNER, TEMPLATE), APP).await.expect("the template migrates");
    }
}

/// Processes that are stopped where they are.
pub struct Paused(Vec<i32>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| signal(*pid, Signal::CONT));
    }
}

fn signal(pid: i32, signal: Signal) {
    // One that ended meanwhile needs none.
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

/// Runs SQL text that the test itself wrote.
pub async fn run(connection: &mut PgConnection, sql: &str) {
    try_run(connection, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Runs SQL text that the test itself wrote and that may be refused. How many rows it touched.
pub async fn try_run(connection: &mut PgConnection, sql: &str) -> sqlx::Result<u64> {
    Ok(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await?.rows_affected())
}

/// A cluster that is thrown away needs no durability of its own; that of the program under test does not depend on it.
const FAST: &str = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off";

/// What was written is with the kernel before it is acknowledged, which outlives a process, if not a machine.
const DURABLE: &str = "-c fsync=off -c synchronous_commit=on";

/// A program of the server's, as the user whom it runs as.
fn as_user(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).env_remove("PGDATA").env_remove("PGPORT");
    if let Some((uid, gid)) = server_user() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Starts the server of a folder.
fn launch(folder: &Path, durability: &str) {
    let options = format!(
        "-c listen_addresses= -c unix_socket_directories={} {durability} -c max_connections=300 -c shared_buffers=64MB",
        folder.display()
    );
    must(
        as_user(folder, &find_binaries().join("pg_ctl"))
            .args(["-w", "-s", "-l"])
            .arg(folder.join("log"))
            .arg("-D")
            .arg(folder.join("data"))
            .args(["-o", &options, "start"]),
    );
}

#[allow(clippy::zombie_processes, reason = "the keeper outlives this process on purpose")]
fn start(folder: &Path, runner: u32, durability: &str) {
    let bin = find_binaries();
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a folder for the test cluster");
    if let Some((uid, gid)) = server_user() {
        for path in [folder, &folder.with_extension("lock")] {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("give the folder to the server's user");
        }
    }
    let data = folder.join("data");
    must(
        as_user(folder, &bin.join("initdb"))
            .args(["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
            .arg(&data),
    );
    launch(folder, durability);
    let keeper = format!(
        "while [ -d /proc/{runner} ]; do sleep 0.2; done; '{}' -D '{}' -m immediate -s stop; rm -rf '{}' '{}'",
        bin.join("pg_ctl").display(),
        data.display(),
        folder.display(),
        folder.with_extension("lock").display()
    );
    as_user(folder, Path::new("/bin/sh"))
        .args(["-c", &keeper])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("start the cluster's keeper");
}

fn must(command: &mut Command) {
    let out =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(out.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&out.stderr));
}

/// The newest PostgreSQL server that is installed, 15 or later.
fn find_binaries() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(io::Result::ok);
    let debian = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(version, bin)| *version >= 15 && bin.join("initdb").exists())
        .max_by_key(|(version, _)| *version)
        .map(|(_, bin)| bin);
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian
        .or_else(|| std::env::split_paths(&path).find(|bin| bin.join("initdb").exists() && bin.join("pg_ctl").exists()))
        .expect("a PostgreSQL server, 15 or later. `make test` installs it; by hand: apt-get install postgresql")
}

/// Whom the server runs as, when this process is root.
fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("read /etc/passwd");
    let find = |name: &str| {
        let fields: Vec<&str> = users.lines().find(|line| line.starts_with(&format!("{name}:")))?.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user to run PostgreSQL as, since it refuses root"))
}
