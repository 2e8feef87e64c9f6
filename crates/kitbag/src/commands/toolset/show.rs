//! Toolsets as people read them on a terminal.

use serde_json::Value;

use crate::output::{plain, table, text};
use crate::visible;

pub(super) fn toolset_table(toolsets: &[Value]) -> String {
    if toolsets.is_empty() {
        return "No toolset is installed. Make one with: kitbag toolset new NAME".to_owned();
    }
    let row = |toolset: &Value| {
        let state = if toolset["enabled"] == true { "on" } else { "off" };
        [text(toolset, "id"), text(toolset, "version"), state, text(toolset, "visibility"), text(toolset, "name")]
            .map(plain)
    };
    table(["TOOLSET", "VERSION", "", "SEEN BY", "NAME"], &toolsets.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn toolset(toolset: &Value) -> String {
    let items = |field: &str| toolset[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let state = if toolset["enabled"] == true { "" } else { "  (off)" };
    let mut lines =
        vec![format!("{} {}  {}{state}", text(toolset, "id"), text(toolset, "version"), plain(text(toolset, "name")))];
    if let Some(description) = toolset["description"].as_str() {
        lines.push(plain(description));
    }
    if let Some(source) = toolset["sourceRef"].as_str() {
        lines.push(format!("from {}", plain(source)));
    }
    lines.push(match (text(toolset, "visibility"), toolset["publicSlug"].as_str()) {
        ("public", Some(slug)) => format!("public, as {}", plain(slug)),
        ("private", _) => "private: for who made it and who manages the organisation".to_owned(),
        (visibility, _) => format!("seen by: {}", plain(visibility)),
    });
    let tools: Vec<_> = items("tools").iter().map(tool_row).collect();
    if !tools.is_empty() {
        lines.push(format!("\n{}", table(["TOOL", "", "RENDERER", "NAME"], &tools)));
    }
    let servers: Vec<_> = items("mcpServers").iter().map(server_row).collect();
    if !servers.is_empty() {
        lines.push(format!("\n{}", table(["SERVER", "", "STARTS"], &servers)));
    }
    let containers: Vec<_> = items("containers").iter().map(container_row).collect();
    if !containers.is_empty() {
        lines.push(format!("\n{}", table(["CONTAINER", "", "IMAGE"], &containers)));
        let problem = |one: &Value| one["problem"].as_str().map(|why| format!("{}: {}", text(one, "id"), plain(why)));
        lines.extend(items("containers").iter().flat_map(|one| {
            let starts = container_starts(one);
            let id = (!starts.is_empty()).then(|| format!("{}:", text(one, "id")));
            id.into_iter().chain(starts.into_iter().map(|line| format!("  {line}"))).collect::<Vec<_>>()
        }));
        lines.extend(items("containers").iter().filter_map(problem));
        lines.extend(containers_wait(toolset));
    }
    let skill = |skill: &Value| {
        let state = if skill["enabled"] == true { "" } else { "off" };
        [text(skill, "id"), state, text(skill, "description")].map(plain)
    };
    let skills: Vec<_> = items("agentSkills").iter().map(skill).collect();
    if !skills.is_empty() {
        lines.push(format!("\n{}", table(["SKILL", "", "FOR"], &skills)));
    }
    let bytes: u64 = items("files").iter().filter_map(|file| file["size"].as_u64()).sum();
    lines.push(format!("\n{} files, {bytes} bytes", items("files").len()));
    lines.join("\n")
}

/// What was found in a toolset's code.
pub(super) fn prepared(prepared: &Value) -> String {
    let tools = prepared["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let broken: Vec<&Value> = tools.iter().filter(|tool| !tool["problem"].is_null()).collect();
    let mut lines = vec![match (tools.len(), broken.len()) {
        // Images of containers may be all that it needed.
        (0, _) => format!("{} is ready", text(prepared, "id")),
        (count, 0) => format!("{} is ready: {count} tools", text(prepared, "id")),
        (count, broken) => format!("{}: {broken} of {count} tools cannot be called", text(prepared, "id")),
    }];
    for tool in broken {
        lines.push(format!("{}\n  {}", plain(text(tool, "entrypoint")), indented(text(tool, "problem"))));
    }
    lines.join("\n")
}

/// A text whose further lines stand below its first.
fn indented(text: &str) -> String {
    visible::lines(text).trim_end().replace('\n', "\n  ")
}

/// A tool's id, what is special about it, its renderer and its title.
pub(crate) fn tool_row(tool: &Value) -> [String; 4] {
    let mut marks = Vec::new();
    if tool["enabled"] != true {
        marks.push("off");
    }
    if tool["requiresConfirmation"] == true {
        marks.push("asks");
    }
    if !tool["problem"].is_null() {
        marks.push("broken");
    }
    [plain(text(tool, "id")), marks.join(","), text(tool, "renderer").to_owned(), plain(text(tool, "name"))]
}

/// A server's key, whether it may start, and what it starts.
fn server_row(server: &Value) -> [String; 3] {
    let state = match (server["enabled"] == true, server["trusted"] == true) {
        (false, _) => "off",
        (true, false) => "not trusted",
        (true, true) => "trusted",
    };
    [text(server, "id").to_owned(), state.to_owned(), plain(text(server, "commandLine"))]
}

/// A container's id, whether it may run, and what it is made of.
fn container_row(container: &Value) -> [String; 3] {
    let state = match (container["enabled"] == true, container["trusted"] == true) {
        (false, _) => "off",
        (true, _) if !container["movedTo"].is_null() => "changed image",
        (true, false) => "not trusted",
        (true, true) => "trusted",
    };
    let made = match container["build"].as_str() {
        Some(folder) => format!("built from {folder}"),
        None => text(container, "image").to_owned(),
    };
    [text(container, "id").to_owned(), state.to_owned(), plain(&made)]
}

/// What is started in a container, with what, and how it is held back: all that trust in it is about, beside its image.
fn container_starts(container: &Value) -> Vec<String> {
    let words = |words: &Value| -> String {
        let words = words.as_array().into_iter().flatten().filter_map(Value::as_str);
        plain(&words.collect::<Vec<_>>().join(" "))
    };
    let mut lines = Vec::new();
    let command = words(&container["command"]);
    if !command.is_empty() {
        lines.push(format!("starts {command}"));
    }
    let own = container["toolCommands"].as_object().into_iter().flatten();
    lines.extend(own.map(|(tool, command)| format!("{} starts {}", plain(tool), words(command))));
    let env = [&container["env"], &container["envNames"]].into_iter().filter_map(Value::as_array).flatten();
    lines.extend(env.filter_map(Value::as_str).map(|variable| format!("with {}", plain(variable))));
    if container["network"] == true {
        lines.push("reaches the network".to_owned());
    }
    let limit = |name: &str, told: &dyn Fn(u64) -> String| container["limits"][name].as_u64().map(told);
    let limits = [
        limit("memory", &|bytes| format!("{} MiB of memory", bytes >> 20)),
        limit("milliCpus", &|milli| format!("{} processors", milli as f64 / 1000.0)),
        limit("pids", &|pids| format!("{pids} processes")),
        limit("seconds", &|seconds| format!("{seconds} seconds")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if !limits.is_empty() {
        lines.push(format!("may use {}", limits.join(", ")));
    }
    lines
}

/// Which image a container was and would be, if its name means another one now.
fn moved(container: &Value) -> Option<String> {
    let now = container["movedTo"].as_str()?;
    Some(format!("was {} and is now {}", plain(text(container, "imageId")), plain(now)))
}

/// The images of a toolset's containers that are shown, as a yes says them.
pub(super) fn images(toolset: &Value) -> Value {
    let shown = |one: &Value| if one["movedTo"].is_null() { one["imageId"].clone() } else { one["movedTo"].clone() };
    let each = toolset["containers"].as_array().into_iter().flatten();
    Value::Object(each.map(|one| (text(one, "id").to_owned(), shown(one))).collect())
}

/// What to do about containers that may not run yet, if there are such.
fn containers_wait(toolset: &Value) -> Option<String> {
    let waits = |one: &Value| one["enabled"] == true && (one["trusted"] != true || !one["movedTo"].is_null());
    let some = toolset["containers"].as_array().into_iter().flatten().any(waits);
    some.then(|| format!("Let its containers run with: kitbag toolset trust {}", text(toolset, "id")))
}

pub(super) fn overrides(list: &Value) -> String {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return "Nothing is overridden.".to_owned();
    }
    let fields =
        ["renderer", "rendererConfig", "nameOverride", "descriptionOverride", "requiresConfirmation", "enabled"];
    let row = |over: &Value| {
        let said =
            fields.iter().filter(|field| !over[**field].is_null()).map(|field| format!("{field}={}", over[*field]));
        [plain(text(over, "key")), text(over, "origin").to_owned(), plain(&said.collect::<Vec<_>>().join(" "))]
    };
    table(["KEY", "BY", "SAYS"], &items.iter().map(row).collect::<Vec<_>>())
}

/// What an import did, or would do.
pub(super) fn report(report: &Value) -> String {
    let (id, version) = (text(report, "id"), text(report, "version"));
    let dry = report["dryRun"] == true;
    let verb = |would: &str, did: &str| if dry { format!("would {would}") } else { did.to_owned() };
    let from = text(report, "fromVersion");
    let mut lines = vec![match text(report, "change") {
        "install" => format!("{} {id} {version}", verb("install", "installed")),
        "reinstall" => format!("{} {id} {version} again", verb("install", "installed")),
        change => format!("{} {id} from {from} to {version} ({change})", verb("change", "changed")),
    }];
    lines.push(format!("  {} tools, {} files", report["toolCount"], report["fileCount"]));
    for (field, what) in [("tools", "tool"), ("mcpServers", "server"), ("agentSkills", "skill")] {
        for (change, sign) in [("added", '+'), ("removed", '-'), ("changed", '~')] {
            let ids = report[field][change].as_array().into_iter().flatten().filter_map(Value::as_str);
            lines.extend(ids.map(|id| format!("  {sign} {what} {}", plain(id))));
        }
    }
    for warning in report["warnings"].as_array().into_iter().flatten() {
        let place = [warning["file"].as_str(), warning["line"].as_u64().map(|line| line.to_string()).as_deref()]
            .into_iter()
            .flatten()
            .map(plain)
            .collect::<Vec<_>>()
            .join(":");
        let place = if place.is_empty() { place } else { format!("{place}: ") };
        lines.push(format!("  warning: {place}{}", plain(text(warning, "message"))));
    }
    let launches = report["launches"].as_array().map(Vec::as_slice).unwrap_or_default();
    for launch in launches {
        let state = if launch["trusted"] == true { "may start" } else { "starts only once it is trusted" };
        lines.push(format!("  server {} ({state}):\n    {}", text(launch, "id"), plain(text(launch, "commandLine"))));
        if let Some(cwd) = launch["cwd"].as_str() {
            lines.push(format!("    in {}", plain(cwd)));
        }
        let more = ["env", "headers"].into_iter().filter_map(|field| launch[field].as_array()).flatten();
        lines.extend(more.filter_map(Value::as_str).map(|text| format!("    with {}", plain(text))));
    }
    for container in report["containers"].as_array().into_iter().flatten() {
        let made = if container["builds"] == true { "built from the folder" } else { "image" };
        let (id, image) = (text(container, "id"), plain(text(container, "image")));
        lines.push(format!("  container {id} (runs only once it is trusted):\n    {made} {image}"));
        lines.extend(moved(container).map(|line| format!("    {line}")));
        lines.extend(container_starts(container).into_iter().map(|line| format!("    {line}")));
    }
    for (field, what) in [("unasked", "it wants no question before"), ("permissions", "its tools may use")] {
        let said: Vec<String> =
            report[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(plain).collect();
        if !said.is_empty() {
            lines.push(format!("  once it is trusted, {what}: {}", said.join(", ")));
        }
    }
    if !dry && launches.iter().any(|launch| launch["trusted"] != true) {
        lines.push("Let a server start with: kitbag mcp trust SERVER".to_owned());
    }
    lines.extend(containers_wait(&report["toolset"]));
    lines.join("\n")
}
