//! What these tests share: an engine with an image, a server on it, a toolset, calls.

use kitbag_formats::archive::ArchiveWriter;
use kitbag_testkit::{Answer, Podman, Program, Server, TestDatabase};
use reqwest::{Method, header};
use serde_json::{Value, json};

pub(crate) const TOOLSETS: &str = "/v1/orgs/local/toolsets";
pub(crate) const TOOLS: &str = "/v1/orgs/local/tools";
pub(crate) const CHATS: &str = "/v1/orgs/local/chats";

pub(crate) const IMAGE: &str = "localhost/kb:1";

/// A program of the image that does what its first word says.
pub(crate) const SCRIPT: &str = r#"#!/bin/sh
case "$1" in
  copy) # reads a file of the workspace and its arguments, twice, and writes a file and a result
    args=$(cat); [ "$args" = "$(cat $KITBAG_ARGS_FILE)" ] || exit 9
    tr a-z A-Z < in.txt > out.txt
    echo "on stdout"; echo "on stderr" >&2
    echo "{\"args\": $args, \"user\": \"$(id -u)\", \"where\": \"$PWD\", \"variable\": \"$GREETING\", \"port\": 3000}" > $KITBAG_RESULT_FILE ;;
  fail) echo "half of it" > half.txt; echo "this is why" >&2; exit 3 ;;
  hang) echo started > started.txt; sleep 1000 ;;
  eat) x=$(yes | head -c 150000000); echo ${#x} > $KITBAG_RESULT_FILE ;;
  fork) i=0; while [ $i -lt 200 ]; do sleep 30 & i=$((i+1)); done; echo '"all of them"' > $KITBAG_RESULT_FILE ;;
  words_for_ever) # 100 MB on each of both, at once
    yes "a long line that says nothing" | head -c 104857600 >&2 & yes "a long line that says nothing" | head -c 104857600; wait; echo '"said"' > $KITBAG_RESULT_FILE ;;
  socket) # a socket without a file, which is the whole machine's where the network is; and the server, by its number
    args=$(cat); name=$(echo "$args" | sed 's/.*"name":"//;s/".*//'); pid=$(echo "$args" | sed 's/.*"pid":"//;s/".*//')
    seen=no; grep -q "@$name" /proc/net/unix && seen=yes; hit=no; kill -9 $pid 2>/dev/null && hit=yes
    echo "{\"seen\": \"$seen\", \"hit\": \"$hit\"}" > $KITBAG_RESULT_FILE ;;
  flood) yes "a long line that says nothing" | head -c 3000000; echo '"said"' > $KITBAG_RESULT_FILE ;;
  breaths) yes "" | head -c 20000000 >&2; yes "" | head -c 20000000; echo '"said"' > $KITBAG_RESULT_FILE ;; # lines without text
  look)
    root=no; grep -q '^[^ ]* / [^ ]* ro[, ]' /proc/mounts || root=yes
    caps=$(sed -n 's/Cap\(Eff\|Bnd\):[^0-9a-f]*//p' /proc/self/status | tr '\n' ' '); new=$(sed -n 's/NoNewPrivs:[^0-9]*//p' /proc/self/status)
    links=$(ls /sys/class/net | tr '\n' ' '); host=no; for path in /root /home /var/lib; do [ -e $path ] && host=$path; done
    cpus=$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d ' ' -f 1 /sys/fs/cgroup/cpu.max)
    echo "{\"cpus\": \"$cpus\", \"files\": \"$(ulimit -n)\", \"root\": \"$root\", \"caps\": \"$caps\", \"new\": \"$new\", \"links\": \"$links\", \"host\": \"$host\", \"processes\": \"$(ls /proc | grep -c '^[0-9]')\"}" > $KITBAG_RESULT_FILE ;;
  link) ln -s /etc/shadow $KITBAG_RESULT_FILE ;;
  words) echo 'not JSON' > $KITBAG_RESULT_FILE ;;
  crash) echo "about to" >&2; sh -c 'kill -SEGV $$'; exit $? ;; # the first process of a container is not hit by its own signals
  dial) # a port that somebody listens at on each address of this machine: none is reached
    port=$(sed 's/[^0-9]//g' $KITBAG_ARGS_FILE); reached=no
    for host in 127.0.0.1 10.0.2.2 10.88.0.1 169.254.169.254 $(route -n 2>/dev/null | sed -n 's/^0.0.0.0 *\([0-9.]*\).*/\1/p'); do nc -w 1 $host $port < /dev/null > /dev/null 2>&1 && reached=$host; done
    echo "\"$reached\"" > $KITBAG_RESULT_FILE ;;
  reap) # what of the machine can be read: another's files, the engine's socket, the server's own
    found=none; for path in /etc/shadow /root/. /var/lib/. /run/podman /var/run/docker.sock "$(cat $KITBAG_ARGS_FILE | sed 's/.*:"//;s/".*//')"; do
      [ -e "$path" ] && found=$path; done
    echo "\"$found\"" > $KITBAG_RESULT_FILE ;;
  nothing) ;;
  large) { printf '"'; yes x | head -c 18000000 | tr -d '\n'; yes x | head -c 18000000 | tr -d '\n'; printf '"'; } > $KITBAG_RESULT_FILE ;;
  nan) echo NaN > $KITBAG_RESULT_FILE ;;
  big) dd if=/dev/zero of=big bs=1 count=1 seek=2000000000; echo "\"$?\"" > $KITBAG_RESULT_FILE ;; # more than a file may be
  outgrow) i=0; while [ $i -lt 200 ]; do head -c 1000000 /dev/zero > /kitbag/$i; i=$((i+1)); done; sleep 100 ;;
  deep) # folders in folders beside the result: deeper than a stack, and one that is locked
    cd /kitbag; mkdir all locked; touch locked/x; chmod 000 locked; p=$(yes d/ | head -n 1900 | tr -d '\n')
    i=0; while [ $i -lt 11 ]; do mkdir -p "new/$p"; mv all "new/${p}all"; mv new all; i=$((i+1)); done
    echo '"deep"' > $KITBAG_RESULT_FILE ;;
esac
"#;

/// An engine with the image of these tests.
pub(crate) fn engine() -> Podman {
    let podman = Podman::start();
    podman.image(IMAGE, &[("bin/tool", SCRIPT)], &[]);
    podman
}

pub(crate) fn serve(database: &TestDatabase, podman: &Podman, more: &[&str]) -> Server {
    serve_at(database, &podman.host(), more)
}

/// The same with what listens there as its engine.
pub(crate) fn serve_at(database: &TestDatabase, engine: &str, more: &[&str]) -> Server {
    let program = Program::on(env!("CARGO_BIN_EXE_kitbag"), database)
        .env("DOCKER_HOST", engine)
        .env("MY_API_TOKEN", "good-morning-secret");
    let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
    args.extend(more);
    Server::start_program(&program, database.data(), &args)
}

/// Ends a server as its owner does.
pub(crate) fn stop(server: &mut Server) {
    server.signal(rustix::process::Signal::TERM);
    server.wait();
}

/// The manifest of a toolset with one container, whose tools are these words of the script.
pub(crate) fn manifest(words: &[&str], container: &str, more: &str) -> String {
    let tool =
        |word: &&str| format!("      - {{id: {word}, command: [/bin/tool, {word}], input_schema: {{type: object}}}}\n");
    let tools: String = words.iter().map(tool).collect();
    format!(
        "id: app\nname: App\nversion: \"1.0.0\"\ncontainers:\n  - id: box\n    image: {IMAGE}\n{container}    tools:\n{tools}{more}"
    )
}

pub(crate) fn bundle(files: &[(&str, &str)]) -> Vec<u8> {
    let mut files = files.to_vec();
    files.sort_unstable();
    let mut archive = ArchiveWriter::new(Vec::new());
    for (name, text) in files {
        archive.file(&name.parse().unwrap(), false, &mut text.as_bytes()).unwrap();
    }
    archive.finish().unwrap()
}

pub(crate) async fn import(server: &Server, query: &str, bytes: Vec<u8>) -> Answer {
    let request = server.request(Method::POST, &format!("{TOOLSETS}/import{query}"));
    Answer::of(request.header(header::CONTENT_TYPE, "application/zip").body(bytes)).await
}

pub(crate) async fn new_chat(server: &Server) -> String {
    server.post(CHATS, &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn ask(server: &Server, chat: &str, tool: &str, args: Value) -> Answer {
    server.post(&format!("{CHATS}/{chat}/tool-calls"), &json!({ "toolId": tool, "args": args })).await
}

/// A call that ends at once, and how it ended.
pub(crate) async fn call(server: &Server, chat: &str, word: &str) -> Value {
    ask(server, chat, &format!("app:{word}"), json!({})).await.expect(200)
}

pub(crate) async fn file(server: &Server, chat: &str, path: &str) -> Option<String> {
    let answer = server.request(Method::GET, &format!("{CHATS}/{chat}/workspace/files/{path}")).send().await.unwrap();
    (answer.status() == 200).then_some(())?;
    Some(answer.text().await.unwrap())
}

pub(crate) async fn put_file(server: &Server, chat: &str, path: &str, text: &str) {
    let request = server.request(Method::PUT, &format!("{CHATS}/{chat}/workspace/files/{path}")).body(text.to_owned());
    assert!(request.send().await.unwrap().status().is_success());
}
