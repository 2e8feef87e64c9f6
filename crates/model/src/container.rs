//! Tools that run in containers: what a toolset declares, what a person trusted of it, and which image that was.
//!
//! What a container is started from and with is a [`Launch`] in all that matters for secrets (its variables may refer to
//! others, its command may hold something that looks like a secret), so those rules are asked and not written again.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::{ContentHash, Hasher};
use crate::id::text_serde;
use crate::launch::{Launch, LaunchError, RawLaunch};
use crate::name::{LocalToolId, ServerId};
use crate::path::WorkPath;
use crate::placeholder::Template;
use crate::renderer::{self, Rendering};
use crate::time::Timestamp;
use crate::toolset::{Description, DisplayName};

/// The label of an image that says which tools it has, as JSON, in the form of a manifest's `tools`.
pub const TOOLS_LABEL: &str = "io.kitbag.tools";

/// How many words a command may have.
pub const MOST_WORDS: usize = 200;

/// How many tools a container may have.
pub const MOST_TOOLS: usize = 500;

/// Why a text names no image.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "must name an image, as in registry.example/name:tag or name@sha256:…, not by its id: letters, digits and . _ - / : @"
)]
pub struct NotAnImage;

/// The name of an image: by tag or by digest.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ImageName(String);

impl ImageName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a name of images that were built of a toolset's folder. Engines look for a name without a registry among those, too.
    pub fn is_built_here(&self) -> bool {
        let name = self.0.to_ascii_lowercase();
        name.strip_prefix("localhost/").unwrap_or(&name).starts_with("kitbag-")
    }

    /// Whether it names what the image is made of, so that it can never mean another one.
    pub fn has_digest(&self) -> bool {
        self.0.rsplit_once("@sha256:").is_some_and(|(_, digest)| digest.len() == 64)
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ImageName {
    type Err = NotAnImage;

    fn from_str(text: &str) -> Result<Self, NotAnImage> {
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b':' | b'@');
        let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let ends = text.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric());
        // A part that begins with a dot would lead elsewhere in the engine's addresses; a bare hash, or the beginning of one, is any image that the
        // engine happens to have.
        let leads_away = text.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        let is_hash = text.starts_with("sha256:") || text.bytes().all(|b| b.is_ascii_hexdigit());
        let good = begins && ends && text.len() <= 512 && text.bytes().all(fine) && !leads_away && !is_hash;
        if good { Ok(Self(text.to_owned())) } else { Err(NotAnImage) }
    }
}

text_serde!(ImageName);

/// Where a container's image comes from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageSource {
    /// It is there, or the engine fetches it.
    Image(ImageName),
    /// It is built from a folder of the toolset with a `Containerfile` or a `Dockerfile`.
    Build(WorkPath),
}

/// What a container may use. What is absent is what the server allows by itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerLimits {
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milli_cpus: Option<u64>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Seconds that a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl ContainerLimits {
    /// What memory may be set to: less and no engine starts anything.
    pub const MEMORY: std::ops::RangeInclusive<u64> = (6 << 20)..=(1 << 40);
    /// The same for thousandths of a processor.
    pub const MILLI_CPUS: std::ops::RangeInclusive<u64> = 10..=1_024_000;
    /// The same for processes.
    pub const PIDS: std::ops::RangeInclusive<u64> = 1..=65_536;
    /// The same for seconds.
    pub const SECONDS: std::ops::RangeInclusive<u64> = 1..=86_400;
}

/// A tool that is a command in a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerTool {
    /// Its id inside the toolset.
    pub id: LocalToolId,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DisplayName>,
    /// What a model reads about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
    /// The JSON Schema of its arguments.
    pub input_schema: Map<String, Value>,
    /// The JSON Schema of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// What is started, in place of the container's own command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What its image calls it, where that speaks MCP and the name is another one than the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_name: Option<String>,
    /// How its image wants its results shown. What a manifest says of that is an override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendering: Option<Rendering>,
    /// Whether a person is asked before each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// Whether it is there at all.
    pub enabled: bool,
}

/// A container that a toolset declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Its id inside the toolset.
    pub id: ServerId,
    /// Where its image comes from.
    pub source: ImageSource,
    /// What is started; empty: what the image says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Its variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Template>,
    /// Whether it reaches the network.
    #[serde(default)]
    pub network: bool,
    /// What it may use.
    #[serde(default)]
    pub limits: ContainerLimits,
    /// Its tools. None: those that the image itself says it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ContainerTool>,
    /// Whether it is used at all.
    pub enabled: bool,
}

impl Container {
    /// What it starts, as rules about secrets and variables look at it.
    pub fn launch(&self) -> Launch {
        let command = match &self.source {
            ImageSource::Image(name) => name.to_string(),
            ImageSource::Build(folder) => folder.to_string(),
        };
        let words = self.command.iter().chain(self.tools.iter().flat_map(|tool| &tool.command));
        let args = words.map(|word| Template::literal(word)).collect();
        Launch::Stdio { command, args, cwd: None, env: self.env.clone() }
    }

    /// Variables, checked by the rules for those of servers.
    pub fn check_env(env: BTreeMap<String, String>) -> Result<BTreeMap<String, Template>, Vec<LaunchError>> {
        let raw = RawLaunch { command: Some("container".to_owned()), env, ..RawLaunch::default() };
        match raw.check()? {
            Launch::Stdio { env, .. } => Ok(env),
            Launch::Remote { .. } => Ok(BTreeMap::new()),
        }
    }

    /// The name under which trust in it is kept beside that in servers, whose ids never have a `:`.
    pub fn trust_key(&self) -> String {
        trust_key(&self.id)
    }

    /// The hash that trust in it is bound to: what would be started, with which variables and how confined, and which tools are
    /// called only after a question. `built_from` is the hash of the folder that its image is built from.
    pub fn fingerprint(&self, built_from: Option<&ContentHash>) -> ContentHash {
        let mut hasher = Hasher::default();
        hasher.update(b"kitbag container trust 1\n");
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|tool| serde_json::json!([tool.id, tool.command, tool.requires_confirmation == Some(true)]))
            .collect();
        let says = serde_json::json!({
            "source": self.source, "builtFrom": built_from, "command": self.command, "env": self.env,
            "network": self.network, "limits": self.limits, "tools": tools,
        });
        hasher.update(says.to_string().as_bytes());
        hasher.finish()
    }
}

/// The name that an image gets which is built for a container: another one for everything else that it would be built or started of.
pub fn built_tag(toolset: &str, container: &str, fingerprint: &ContentHash) -> String {
    format!("localhost/kitbag-{toolset}-{container}:{}", &fingerprint.to_string()[..32])
}

/// The name under which trust in a container is kept.
pub fn trust_key(id: &ServerId) -> String {
    format!("container:{id}")
}

/// The image that a container was found to be when it was trusted. From then on it is that one.
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedImage {
    /// The image's id: the hash of what it is made of.
    pub id: String,
    /// What it says of itself.
    pub says: ImageSays,
}

/// What an image says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSays {
    /// The tools that it says it has.
    pub tools: Vec<ContainerTool>,
    /// Whether it said so in MCP, in which its tools are called, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub speaks_mcp: bool,
    /// Whether it is to be asked before it is used: somebody trusted the image anew, and what is known here is what was said before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_ask: bool,
}

/// A container of an installed toolset.
#[derive(Clone, Debug, PartialEq)]
pub struct InstalledContainer {
    /// What the bundle says.
    pub container: Container,
    /// When it was first declared.
    pub created_at: Timestamp,
    /// The hash of the folder that its image is built from.
    pub built_from: Option<ContentHash>,
    /// What a person trusted it to be.
    pub trusted: Option<ContentHash>,
    /// The image that it is.
    pub pinned: Option<PinnedImage>,
    /// The image that its name means now, if that is another one.
    pub moved_to: Option<String>,
}

impl InstalledContainer {
    /// What trust in it is bound to.
    pub fn fingerprint(&self) -> ContentHash {
        self.container.fingerprint(self.built_from.as_ref())
    }

    /// Whether it may be started: what a person trusted is what would be started.
    pub fn is_trusted(&self) -> bool {
        self.trusted == Some(self.fingerprint())
    }

    /// Its tools: those of the manifest, else those that its image says it has.
    pub fn tools(&self) -> &[ContainerTool] {
        match &self.pinned {
            Some(pinned) if self.container.tools.is_empty() => &pinned.says.tools,
            _ => &self.container.tools,
        }
    }

    /// The image that it is, if nothing about that is open.
    pub fn settled(&self) -> Option<&PinnedImage> {
        self.pinned.as_ref().filter(|pinned| !pinned.says.to_ask)
    }

    /// The image that it is from now on because somebody trusts it again; none: that stays as it is. It is the one that was shown to them beside
    /// the one that it was, and not whatever the name means by the time it is looked for; and it says itself anew which tools it has.
    pub fn trusted_anew(&self) -> Option<PinnedImage> {
        let before = self.pinned.as_ref()?;
        let is_asked = self.moved_to.is_some() || self.speaks_mcp();
        is_asked.then(|| PinnedImage {
            id: self.moved_to.clone().unwrap_or_else(|| before.id.clone()),
            says: ImageSays { to_ask: true, ..before.says.clone() },
        })
    }

    /// Whether its tools are called in MCP, in a container that stays.
    pub fn speaks_mcp(&self) -> bool {
        self.container.tools.is_empty() && self.pinned.as_ref().is_some_and(|pinned| pinned.says.speaks_mcp)
    }
}

impl ContainerTool {
    /// The name that its image knows it by.
    pub fn mcp_name(&self) -> &str {
        self.mcp_name.as_deref().unwrap_or(self.id.as_str())
    }

    /// A tool as a server of MCP defines it. Letters that an id cannot have become `_`.
    pub fn of_mcp(definition: &Map<String, Value>) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let name = definition.get("name").and_then(text).ok_or("a tool without a name is left out")?;
        let left_out = |why: &dyn fmt::Display| format!("the tool `{}` is left out: {why}", name.escape_debug());
        let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
        let cleaned: String = name.chars().map(legal).collect();
        let id: LocalToolId = cleaned.parse().map_err(|error| left_out(&error))?;
        // What people call it is a matter of taste, and not worth the tool.
        let title = definition.get("title").or_else(|| definition.get("annotations")?.get("title")).and_then(text);
        let schema = definition.get("inputSchema").and_then(Value::as_object).cloned();
        Ok(Self {
            mcp_name: (cleaned != name).then_some(name.clone()),
            id,
            name: title.and_then(|title| title.parse().ok()),
            description: definition
                .get("description")
                .and_then(text)
                .filter(|text| !text.trim().is_empty())
                .map(|text| text.parse())
                .transpose()
                .map_err(|error| left_out(&error))?,
            input_schema: schema.ok_or_else(|| left_out(&"it has no schema of its arguments"))?,
            output_schema: definition.get("outputSchema").and_then(Value::as_object).cloned(),
            command: Vec::new(),
            rendering: None,
            requires_confirmation: None,
            enabled: true,
        })
    }
}

/// The tools that a server of MCP lists, the first of each id, and why others are left out.
pub fn tools_of_mcp(definitions: impl Iterator<Item = Map<String, Value>>) -> (Vec<ContainerTool>, Vec<String>) {
    let (mut tools, mut warnings, mut seen) = (Vec::new(), Vec::new(), std::collections::HashSet::new());
    for definition in definitions {
        match ContainerTool::of_mcp(&definition) {
            Ok(_) if tools.len() == MOST_TOOLS => {
                warnings.push(format!("it has more than {MOST_TOOLS} tools; the rest is left out"));
                break;
            }
            Ok(tool) if seen.insert(tool.id.folded()) => tools.push(tool),
            Ok(tool) => warnings.push(format!("the tool id {} is there twice; the first one counts", tool.id)),
            Err(warning) => warnings.push(warning),
        }
    }
    (tools, warnings)
}

/// The hash of a folder of a toolset: what an image is built from.
pub fn folder_hash<'a>(
    files: impl Iterator<Item = (&'a WorkPath, &'a ContentHash, bool)>,
    folder: &WorkPath,
) -> ContentHash {
    let mut lines: Vec<String> = files
        .filter(|(path, ..)| path.as_str().strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/')))
        .map(|(path, hash, executable)| format!("{path} {hash} {executable}\n"))
        .collect();
    lines.sort();
    let mut hasher = Hasher::default();
    lines.iter().for_each(|line| hasher.update(line.as_bytes()));
    hasher.finish()
}

/// Reads what an image says about its tools.
pub fn tools_of_label(text: &str) -> Result<Vec<ContainerTool>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Labelled {
        id: LocalToolId,
        name: Option<DisplayName>,
        description: Option<Description>,
        input_schema: Map<String, Value>,
        output_schema: Option<Map<String, Value>>,
        #[serde(default)]
        command: Vec<String>,
        requires_confirmation: Option<bool>,
        renderer: Option<Map<String, Value>>,
    }
    let labelled: Vec<Labelled> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut seen = std::collections::HashSet::new();
    let twice = labelled.iter().find(|tool| !seen.insert(tool.id.folded()));
    if let Some(tool) = twice {
        return Err(format!("the tool id \"{}\" is there twice", tool.id));
    }
    if labelled.len() > MOST_TOOLS || labelled.iter().any(|tool| tool.command.len() > MOST_WORDS) {
        return Err(format!("it has more than {MOST_TOOLS} tools, or a command of more than {MOST_WORDS} words"));
    }
    let tool = |tool: Labelled| {
        let rendering = tool.renderer.map(shown).transpose();
        Ok(ContainerTool {
            rendering: rendering.map_err(|error| format!("the renderer of the tool \"{}\": {error}", tool.id))?,
            id: tool.id,
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
            output_schema: tool.output_schema,
            command: tool.command,
            mcp_name: None,
            requires_confirmation: tool.requires_confirmation,
            enabled: true,
        })
    };
    labelled.into_iter().map(tool).collect()
}

/// A renderer as tools have it: its `type` among its configuration.
fn shown(mut config: Map<String, Value>) -> Result<Rendering, String> {
    let Some(Value::String(name)) = config.remove("type") else { return Err("it has no type".to_owned()) };
    let checked = renderer::check(Some(&name), Some(&Value::Object(config)));
    checked.map_err(|error| error.to_string())?.ok_or_else(|| "it has no type".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Container {
        Container {
            id: "box".parse().unwrap(),
            source: ImageSource::Image("localhost/box:1".parse().unwrap()),
            command: vec!["/bin/tool".to_owned()],
            env: BTreeMap::new(),
            network: false,
            limits: ContainerLimits::default(),
            tools: tools_of_label(r#"[{"id": "count", "input_schema": {"type": "object"}}]"#).unwrap(),
            enabled: true,
        }
    }

    #[test]
    fn names_of_images() {
        for good in ["busybox", "localhost/kb:1", "registry.example:5000/a/b_c@sha256:0a1b", "A.b-c"] {
            assert!(good.parse::<ImageName>().is_ok(), "{good}");
        }
        for bad in ["", "-v", "/etc", "a b", "a\n", "a//b", "a/", "a;b", "ä", &"a".repeat(513)] {
            assert!(bad.parse::<ImageName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_images_that_were_built_here() {
        for own in ["localhost/kitbag-app-box:1", "kitbag-app-box:1", "LOCALHOST/kitbag-app-box"] {
            assert!(own.parse::<ImageName>().unwrap().is_built_here(), "{own}");
        }
        for other in ["localhost/kb:1", "registry.example/kitbag-app:1", "kitbag"] {
            assert!(!other.parse::<ImageName>().unwrap().is_built_here(), "{other}");
        }
    }

    #[test]
    fn trust_covers_what_would_be_started_and_nothing_else() {
        let base = container().fingerprint(None);
        let differs = |change: fn(&mut Container)| {
            let mut other = container();
            change(&mut other);
            other.fingerprint(None) != base
        };
        assert!(differs(|one| one.source = ImageSource::Image("localhost/box:2".parse().unwrap())));
        assert!(differs(|one| one.command.push("-x".to_owned())));
        assert!(differs(|one| drop(one.env.insert("A".to_owned(), Template::literal("b")))));
        assert!(differs(|one| one.network = true));
        assert!(differs(|one| one.limits.memory = Some(1 << 30)));
        assert!(differs(|one| one.tools[0].command.push("-x".to_owned())));
        // A question that is there in one version and gone in the next is as much of a change as one that comes.
        assert!(differs(|one| one.tools[0].requires_confirmation = Some(true)));
        assert!(!differs(|one| one.tools[0].requires_confirmation = Some(false)), "nobody is asked in either case");
        assert!(!differs(|one| one.tools[0].description = Some("other words".parse().unwrap())));
        let folder = ContentHash::of(b"x");
        assert_ne!(container().fingerprint(Some(&folder)), base);
    }

    #[test]
    fn what_is_kept_is_what_was_read() {
        let text = serde_json::to_string(&container()).unwrap();
        assert_eq!(serde_json::from_str::<Container>(&text).unwrap(), container());
    }

    #[test]
    fn labels() {
        for bad in [
            "{}",
            r#"[{"id": "a b", "input_schema": {}}]"#,
            r#"[{"id": "a"}]"#,
            r#"[{"id": "a", "input_schema": {}}, {"id": "A", "input_schema": {}}]"#,
            r#"[{"id": "a", "input_schema": {}, "entrypoint": "x"}]"#,
            r#"[{"id": "a", "input_schema": {}, "renderer": {"file": "x"}}]"#,
            r#"[{"id": "a", "input_schema": {}, "renderer": {"type": "code", "fiel": "x"}}]"#,
        ] {
            assert!(tools_of_label(bad).is_err(), "{bad}");
        }
        let shown = r#"[{"id": "a", "input_schema": {}, "renderer": {"type": "code", "file": "$return.file"}}]"#;
        let read = tools_of_label(shown).unwrap();
        let rendering = read[0].rendering.as_ref().unwrap();
        assert_eq!((rendering.renderer().name(), &rendering.config()["file"]), ("code", &"$return.file".into()));
        let kept = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Vec<ContainerTool>>(&kept).unwrap(), read);
    }

    #[test]
    fn tools_of_a_server_get_ids_and_keep_their_names() {
        let listed = serde_json::json!([
            {"name": "get.time", "title": "The time", "description": "Tells it", "inputSchema": {"type": "object"}},
            {"name": "get_time", "inputSchema": {"type": "object"}},
            {"name": "Echo", "description": " ", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
            {"name": "bare"},
            {"name": "-begins", "inputSchema": {}},
            {"title": "nameless", "inputSchema": {}},
        ]);
        let each = listed.as_array().unwrap().iter().map(|one| one.as_object().unwrap().clone());
        let (tools, warnings) = tools_of_mcp(each);
        let ids: Vec<(&str, &str)> = tools.iter().map(|tool| (tool.id.as_str(), tool.mcp_name())).collect();
        assert_eq!(ids, [("get_time", "get.time"), ("Echo", "Echo")]);
        assert!(tools[1].description.is_none() && tools[1].output_schema.is_some());
        assert_eq!(warnings.len(), 4, "{warnings:?}");
    }

    #[test]
    fn a_folder_is_what_is_below_it() {
        let hash = |text: &str| ContentHash::of(text.as_bytes());
        let files: Vec<(WorkPath, ContentHash, bool)> =
            [("box/Containerfile", "a"), ("boxes/x", "b"), ("box/run", "c")]
                .map(|(path, text)| (path.parse().unwrap(), hash(text), false))
                .into();
        let of = |files: &[(WorkPath, ContentHash, bool)]| {
            folder_hash(files.iter().map(|(path, hash, executable)| (path, hash, *executable)), &"box".parse().unwrap())
        };
        let base = of(&files);
        let mut other = files.clone();
        other[1].1 = hash("other");
        other.reverse();
        assert_eq!(of(&other), base);
        other[0].2 = true;
        assert_ne!(of(&other), base);
    }
}
