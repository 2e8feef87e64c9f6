//! The front door for everything that can become a toolset: Kitbag's own bundles, MCP bundles, plugins, skills, lists of
//! MCP servers and entries of the registry.
//!
//! What a file is follows from what is in it, never from its name. A file that could be two things is refused: what one
//! program shows to a reviewer, another would install.

mod detect;
mod tree;

use kitbag_model::ContentHash;

use crate::archive::{Archive, Limits, strip_signature};
use crate::bundle::{self, Bundle, Code, Finding, Refused};
use crate::foreign::{json, mcpb, plugin, registry, servers, skill};
use detect::Json;
pub(crate) use tree::Tree;

/// What a file is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A bundle with a `toolset.yaml`.
    Toolset,
    /// An MCP bundle: `manifest.json` with a server.
    Mcpb,
    /// A list of plugins. It is recognised and never imported.
    Marketplace,
    /// A plugin of Claude Code.
    Plugin,
    /// A folder with a `SKILL.md`.
    Skill,
    /// A list of MCP servers, as other programs keep it.
    McpServersJson,
    /// An entry of the MCP registry.
    ServerJson,
}

impl Kind {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Toolset => "a toolset (toolset.yaml)",
            Self::Mcpb => "an MCP bundle (manifest.json with a server)",
            Self::Marketplace => "a marketplace (.claude-plugin/marketplace.json, or plugins and owner)",
            Self::Plugin => "a plugin (.claude-plugin/plugin.json, .mcp.json or skills/)",
            Self::Skill => "a skill (SKILL.md at the top)",
            Self::McpServersJson => "a list of MCP servers (mcpServers, or servers)",
            Self::ServerJson => "a registry entry (server.json)",
        }
    }
}

/// How to import.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// Whether values of variables and headers that are written out in a foreign file become references and are forgotten.
    /// Otherwise such a file is refused.
    pub replace_literals: bool,
}

/// A file that a registry entry names and that was not downloaded. Whoever downloads it must compare the hash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Download {
    /// Where it is.
    pub url: String,
    /// What it must be.
    pub sha256: ContentHash,
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The toolset. Its files with [`bundle::Content::Entry`] are in [`Input::archive`].
    pub bundle: Bundle,
    /// What the file was.
    pub kind: Kind,
    /// What else would have to be fetched. If the toolset has no server, there is nothing to it but these.
    pub downloads: Vec<Download>,
}

/// A file to import.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    form: Form<'a>,
}

#[derive(Clone, Debug)]
enum Form<'a> {
    Archive { archive: Archive<'a>, signed: bool },
    Json(&'a [u8]),
}

impl<'a> Input<'a> {
    /// Looks at what the bytes are, and checks the structure of an archive. A signature behind it is taken off.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, Refused> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        if matches!(text.first(), Some(b'{' | b'[' | b'/')) {
            return Ok(Self { form: Form::Json(bytes) });
        }
        let (bytes, signature) = strip_signature(bytes);
        let archive = Archive::open(bytes, limits).map_err(|error| Refused::from(Finding::from(&error)))?;
        Ok(Self { form: Form::Archive { archive, signed: signature.is_some() } })
    }

    /// The archive, if it is one.
    pub fn archive(&self) -> Option<&Archive<'a>> {
        match &self.form {
            Form::Archive { archive, .. } => Some(archive),
            Form::Json(_) => None,
        }
    }

    /// Reads it. `name` is the file's name, from which a toolset gets its id where nothing in the file says one.
    pub fn read(&self, name: Option<&str>, options: &Options) -> Result<Imported, Refused> {
        match &self.form {
            Form::Json(bytes) => read_json(bytes, name, *options),
            Form::Archive { archive, signed } => {
                let mut imported = read_archive(archive, name, *options)?;
                if *signed {
                    let message = "the file is signed; the signature is not verified, so it says nothing";
                    imported.bundle.warnings.push(Finding::new(Code::InvalidBundle, None, message));
                }
                Ok(imported)
            }
        }
    }
}

fn read_archive(archive: &Archive<'_>, name: Option<&str>, options: Options) -> Result<Imported, Refused> {
    let Some((kind, tree)) = detect::archive(archive)? else {
        // The reader of bundles knows what is wrong with a manifest that is almost one.
        let mut refused = match bundle::read(archive) {
            Ok(bundle) => return Ok(Imported { bundle, kind: Kind::Toolset, downloads: Vec::new() }),
            Err(refused) => refused,
        };
        let message = format!("it is none of these either: {}", detect::ARCHIVES.map(Kind::as_str).join("; "));
        refused.problems.push(Finding::new(Code::InvalidBundle, None, message));
        return Err(refused);
    };
    let bundle = match kind {
        Kind::Mcpb => {
            let manifest = tree.json(mcpb::MANIFEST)?;
            let manifest = manifest.as_object().cloned().unwrap_or_default();
            mcpb::read(tree, &manifest, name, options)
        }
        Kind::Marketplace => Err(plugin::marketplace_of(&tree)),
        Kind::Plugin => plugin::read(tree, name, options),
        Kind::Skill => skill::read(tree, name),
        Kind::Toolset | Kind::McpServersJson | Kind::ServerJson => bundle::read(archive),
    }?;
    Ok(Imported { bundle, kind, downloads: Vec::new() })
}

fn read_json(bytes: &[u8], name: Option<&str>, options: Options) -> Result<Imported, Refused> {
    let value = json::parse(bytes, name)?;
    let refuse = |message: String| Refused::from(Finding::new(Code::InvalidManifest, name, message));
    let Some(top) = value.as_object() else { return Err(refuse("must be a JSON object".to_owned())) };
    let done = |kind, bundle| Imported { bundle, kind, downloads: Vec::new() };
    match detect::json(top).map_err(refuse)? {
        Json::Servers(root) => servers::read(top, root, name, options).map(|bundle| done(Kind::McpServersJson, bundle)),
        Json::Registry => {
            let (bundle, downloads) = registry::read(top, name, options)?;
            Ok(Imported { bundle, kind: Kind::ServerJson, downloads })
        }
        Json::Marketplace => Err(plugin::marketplace(top, name)),
    }
}
