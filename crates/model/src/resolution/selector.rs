//! One entry of a list of tools: an id or another name, all tools of a server, all tools of a toolset, or a pattern.

use super::catalogue::own_name;
use crate::model_name;
use crate::name::{ServerId, ServerKey};
use crate::override_key::fits;
use crate::tool_id::ToolId;

/// What an entry means, in small letters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Selector {
    /// `mcp:{server key}`: all tools of a server.
    Server(ServerKey),
    /// `toolset:{id}`: all tools of a toolset, its servers' too.
    Toolset(String),
    /// `mcp:{server id}:{tool}`: the old form of an MCP tool's id.
    Legacy {
        /// The server's id inside whichever toolset declares it.
        server: ServerId,
        /// The tool's name there.
        tool: String,
    },
    /// A text with `*` in it.
    Pattern(String),
    /// One tool.
    Name(String),
}

impl Selector {
    /// Reads an entry, without `-` in front. Everything is a selector; what it names need not exist.
    pub fn parse(text: &str) -> Self {
        let text = text.to_lowercase();
        if let Some(id) = text.strip_prefix("toolset:").filter(|id| !id.contains('*')) {
            return Self::Toolset(id.to_owned());
        }
        if let Some(rest) = text.strip_prefix("mcp:") {
            if let Ok(key) = rest.parse() {
                return Self::Server(key);
            }
            let parts = rest.split_once(':').and_then(|(server, tool)| Some((server.parse().ok()?, tool)));
            if let Some((server, tool)) = parts.filter(|(_, tool)| !tool.contains('*')) {
                return Self::Legacy { server, tool: tool.to_owned() };
            }
        }
        if text.contains('*') { Self::Pattern(text) } else { Self::Name(text) }
    }

    /// Whether it means this tool, of this toolset, which a model knows under this name.
    pub(super) fn fits(&self, id: &ToolId, toolset: &str, model_name: &str) -> bool {
        match self {
            Self::Server(key) => matches!(id, ToolId::Mcp { server, .. } if server == key),
            Self::Toolset(wanted) => wanted == toolset,
            Self::Legacy { server: wanted, tool: name } => match id {
                ToolId::Mcp { server, tool } => server.server == *wanted && tool.as_str().to_lowercase() == *name,
                _ => false,
            },
            Self::Pattern(pattern) => {
                let is_fit = |text: &str| fits(pattern, &text.to_lowercase());
                is_fit(&id.to_string()) || is_fit(model_name) || is_fit(own_name(id))
            }
            Self::Name(name) => {
                let is_it = |text: &str| text.to_lowercase() == *name;
                is_it(&id.to_string()) || is_it(model_name) || is_it(own_name(id))
            }
        }
    }

    /// The same, but a name is an id and nothing else: who admits one tool means that one, and not every tool of that name.
    pub(super) fn fits_by_id(&self, id: &ToolId, toolset: &str, model_name: &str) -> bool {
        match self {
            Self::Name(name) => id.to_string().to_lowercase() == *name,
            other => other.fits(id, toolset, model_name),
        }
    }

    /// Whether a tool of this server, which nobody has seen yet, may be meant.
    pub(super) fn may_mean(&self, key: &ServerKey) -> bool {
        let front = format!("mcp:{key}:");
        match self {
            Self::Server(wanted) => wanted == key,
            Self::Toolset(wanted) => wanted == key.toolset.as_str(),
            Self::Legacy { server, .. } => *server == key.server,
            Self::Name(name) => name.starts_with(&front),
            // Only one that says that it means tools of servers: `read_*` fits what is there or nothing.
            Self::Pattern(pattern) => {
                let fixed = pattern.split('*').next().unwrap_or_default();
                fixed.starts_with("mcp:") && (front.starts_with(fixed) || fixed.starts_with(&front))
            }
        }
    }

    /// Whether all tools of a server are meant, whichever they are.
    pub(super) fn means_all_of(&self, key: &ServerKey) -> bool {
        match self {
            Self::Server(wanted) => wanted == key,
            Self::Toolset(wanted) => wanted == key.toolset.as_str(),
            // What fits the front and ends in `*` fits whatever comes behind.
            Self::Pattern(pattern) => pattern.ends_with('*') && fits(pattern, &format!("mcp:{key}:")),
            Self::Legacy { .. } | Self::Name(_) => false,
        }
    }
}

/// What the selectors of a chat say of a tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It may be used.
    In,
    /// This one takes it away.
    TakenBy(String),
    /// There are some that admit tools, and none admits this one.
    NotListed,
}

/// The selectors of a chat: what one admits may be used unless another, with `-` in front, takes it away. Their order says nothing.
/// Without one that admits, everything is admitted.
#[derive(Clone, Debug, Default)]
pub struct ChatSelectors {
    admit: Vec<Selector>,
    take: Vec<(String, Selector)>,
}

impl ChatSelectors {
    /// Reads them.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut selectors = Self::default();
        for text in texts.into_iter().map(str::trim) {
            match text.strip_prefix('-') {
                Some(rest) => selectors.take.push((text.to_owned(), Selector::parse(rest.trim()))),
                None => selectors.admit.push(Selector::parse(text)),
            }
        }
        selectors
    }

    /// The server ids that they name in the old form of ids. One that several servers have admits nothing; see [`Self::drop_old`].
    pub fn old_servers(&self) -> Vec<ServerId> {
        let old = |selector: &Selector| match selector {
            Selector::Legacy { server, .. } => Some(server.clone()),
            _ => None,
        };
        self.admit.iter().filter_map(old).collect()
    }

    /// Forgets those that would admit tools by an old id of this server.
    pub fn drop_old(&mut self, ambiguous: &ServerId) {
        // Nobody: it must not look as if there were no restriction.
        let nobody = Selector::Name(String::new());
        for selector in &mut self.admit {
            if matches!(selector, Selector::Legacy { server, .. } if server == ambiguous) {
                *selector = nobody.clone();
            }
        }
    }

    /// Whether a server without tools may be used for what else it has: nothing less than all of a server means it.
    pub fn has_all_of(&self, key: &ServerKey) -> bool {
        let means_it = |selector: &Selector| selector.means_all_of(key);
        let is_taken = self.take.iter().any(|(_, selector)| means_it(selector));
        !is_taken && (self.admit.is_empty() || self.admit.iter().any(means_it))
    }

    /// Whether a tool may be used.
    pub fn verdict(&self, id: &ToolId, toolset: &str) -> Verdict {
        let model_name = model_name::of(id);
        let fits = |selector: &Selector| selector.fits_by_id(id, toolset, &model_name);
        if let Some((text, _)) = self.take.iter().find(|(_, selector)| fits(selector)) {
            return Verdict::TakenBy(text.clone());
        }
        if self.admit.is_empty() || self.admit.iter().any(fits) { Verdict::In } else { Verdict::NotListed }
    }
}
