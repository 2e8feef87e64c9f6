//! Where other programs keep their MCP servers: below the home folder, and in the current one.

use std::collections::HashSet;
use std::env;
use std::path::{Path, PathBuf};

use kitbag_formats::clients::Client;

/// A file that may have servers.
pub struct Place {
    /// The program whose file it is, if that is known.
    pub client: Option<Client>,
    /// Where it is.
    pub file: PathBuf,
    /// The folder that its servers are for, if it is a project's.
    pub project: Option<PathBuf>,
    /// Whether it is where a program keeps what its user told it. Any other file may have come with somebody else's work.
    pub own: bool,
}

/// A folder that a variable names.
fn absolute(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Every place there is, whether or not there is a file.
pub fn all() -> Vec<Place> {
    let mut places = Vec::new();
    if let Some(home) = absolute("HOME") {
        let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let apps = if cfg!(target_os = "macos") { home.join("Library/Application Support") } else { config.clone() };
        of_user(&home, &config, &apps, &mut places);
    }
    if let Ok(here) = env::current_dir() {
        of_project(&here, &mut places);
    }
    // In the home folder a project's file is the user's own.
    let mut seen = HashSet::new();
    places.retain(|place: &Place| seen.insert(place.file.clone()));
    places
}

/// The file in which a program keeps what is its user's own: the first of its places, or the one that is there.
pub fn own(client: Client) -> Option<PathBuf> {
    let of_client = |place: &Place| place.client == Some(client) && place.project.is_none();
    let files: Vec<PathBuf> = all().into_iter().filter(of_client).map(|place| place.file).collect();
    // The settings of an editor are a place from which servers are read; they are written to where the editor itself does.
    let names = files.iter().filter(|file| !file.ends_with("settings.json"));
    let there = names.clone().find(|file| file.exists());
    there.or_else(|| names.clone().next()).cloned()
}

fn of_user(home: &Path, config: &Path, apps: &Path, places: &mut Vec<Place>) {
    let mut add = |client, file: PathBuf| places.push(Place { client: Some(client), file, project: None, own: true });
    add(Client::ClaudeDesktop, apps.join("Claude/claude_desktop_config.json"));
    add(Client::ClaudeCode, absolute("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.to_owned()).join(".claude.json"));
    add(Client::Cursor, home.join(".cursor/mcp.json"));
    for editor in ["Code", "Code - Insiders", "VSCodium"] {
        let user = apps.join(editor).join("User");
        add(Client::VsCode, user.join("mcp.json"));
        add(Client::VsCode, user.join("settings.json"));
        let storage = user.join("globalStorage");
        add(Client::Cline, storage.join("saoudrizwan.claude-dev/settings/cline_mcp_settings.json"));
        add(Client::RooCode, storage.join("rooveterinaryinc.roo-cline/settings/mcp_settings.json"));
    }
    add(Client::Windsurf, home.join(".codeium/windsurf/mcp_config.json"));
    add(Client::Gemini, home.join(".gemini/settings.json"));
    add(Client::Codex, absolute("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml"));
    add(Client::Zed, config.join("zed/settings.json"));
    for name in ["opencode.json", "opencode.jsonc"] {
        add(Client::OpenCode, config.join("opencode").join(name));
    }
    add(Client::LmStudio, home.join(".lmstudio/mcp.json"));
    add(Client::Kiro, home.join(".kiro/settings/mcp.json"));
    add(Client::CopilotCli, home.join(".copilot/mcp-config.json"));
    add(Client::AmazonQ, home.join(".aws/amazonq/mcp.json"));
    add(Client::Crush, config.join("crush/crush.json"));
    add(Client::Amp, config.join("amp/settings.json"));
}

fn of_project(here: &Path, places: &mut Vec<Place>) {
    for (client, file) in [
        (Client::ClaudeCode, ".mcp.json"),
        (Client::Cursor, ".cursor/mcp.json"),
        (Client::VsCode, ".vscode/mcp.json"),
        (Client::VsCode, ".vscode/settings.json"),
        (Client::Gemini, ".gemini/settings.json"),
        (Client::Codex, ".codex/config.toml"),
        (Client::Zed, ".zed/settings.json"),
        (Client::OpenCode, "opencode.json"),
        (Client::OpenCode, "opencode.jsonc"),
        (Client::RooCode, ".roo/mcp.json"),
        (Client::Kiro, ".kiro/settings/mcp.json"),
        (Client::AmazonQ, ".amazonq/mcp.json"),
        (Client::Crush, "crush.json"),
        (Client::Crush, ".crush.json"),
    ] {
        let (file, project) = (here.join(file), Some(here.to_owned()));
        places.push(Place { client: Some(client), file, project, own: false });
    }
}
