//! What a step of resolution leaves.

use super::catalogue::{Catalogue, Listed, State};
use super::reason::Reason;
use super::selector::Selector;
use crate::model_name;
use crate::name::ServerKey;
use crate::tool_id::ToolId;

/// What the rules say of one tool. The number is the place of the entry in its list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mark {
    AllToolsets,
    Toolset(u16),
    Enabled(u16),
    Disabled(u16),
    NotListed,
    /// The step before left it out.
    Outside,
}

impl Mark {
    pub(super) fn is_in(self) -> bool {
        matches!(self, Self::AllToolsets | Self::Toolset(_) | Self::Enabled(_))
    }
}

/// The rules of one step, for tools that nobody has seen yet, and to say which one decided.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) marks: Vec<Mark>,
    /// Absent: all.
    pub(super) toolsets: Option<Vec<String>>,
    pub(super) enabled: Vec<(String, Selector)>,
    pub(super) disabled: Vec<(String, Selector)>,
}

impl Rules {
    fn has_toolset(&self, toolset: &str) -> bool {
        self.toolsets.as_ref().is_none_or(|list| list.iter().any(|entry| entry.eq_ignore_ascii_case(toolset)))
    }

    /// Skills come and go with their toolset: a tool that is named alone brings none and takes none.
    pub(super) fn has_skills_of(&self, toolset: &str) -> bool {
        let names_it = |list: &[(String, Selector)]| {
            list.iter().any(|(_, selector)| matches!(selector, Selector::Toolset(id) if id == toolset))
        };
        (self.has_toolset(toolset) || names_it(&self.enabled)) && !names_it(&self.disabled)
    }

    fn admits(&self, id: &ToolId, toolset: &str, name: &str) -> bool {
        let enabled = || self.enabled.iter().any(|(_, selector)| selector.fits_by_id(id, toolset, name));
        let disabled = || self.disabled.iter().any(|(_, selector)| selector.fits(id, toolset, name));
        (self.has_toolset(toolset) || enabled()) && !disabled()
    }

    /// A server without tools is there as a whole or not at all: what names a tool of it names nothing.
    pub(super) fn has_all_of(&self, key: &ServerKey) -> bool {
        let names_it = |list: &[(String, Selector)]| list.iter().any(|(_, selector)| selector.means_all_of(key));
        (self.has_toolset(key.toolset.as_str()) || names_it(&self.enabled)) && !names_it(&self.disabled)
    }

    pub(super) fn may_admit(&self, key: &ServerKey) -> bool {
        (self.has_toolset(key.toolset.as_str()) || self.enabled.iter().any(|(_, selector)| selector.may_mean(key)))
            && !self.disabled.iter().any(|(_, selector)| selector.means_all_of(key))
    }
}

/// The tools that the lists leave. It belongs to the catalogue that it was made from: places mean nothing in another.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The tools that a client gets, as places in the catalogue, in its order.
    pub tools: Vec<usize>,
    /// Whether meta tools are listed in place of them.
    pub dynamic: bool,
    /// Servers whose tools nobody has seen yet and of which some may come in, as places in the catalogue's servers.
    pub pending: Vec<usize>,
    /// Servers without tools that a client gets for what else they have, as places in the catalogue's servers.
    pub bare: Vec<usize>,
    /// One for each step, the first one first.
    pub(super) steps: Vec<Rules>,
}

impl Resolved {
    /// Whether the rules have a tool, be it on or not.
    pub(super) fn has(&self, place: usize) -> bool {
        self.steps.last().is_some_and(|step| step.marks.get(place).is_some_and(|mark| mark.is_in()))
    }

    /// Whether a client gets the tool in this place.
    pub fn contains(&self, place: usize) -> bool {
        self.tools.binary_search(&place).is_ok()
    }

    /// Whether the rules have this tool, be it on or not, there already or not.
    pub fn admits<T: Listed>(&self, catalogue: &Catalogue<'_, T>, id: &ToolId) -> bool {
        match catalogue.tools.iter().position(|tool| tool.id() == id) {
            Some(place) => self.has(place),
            None => self.admits_unseen(id),
        }
    }

    /// Whether the rules would have a tool of a server that nobody has seen yet.
    pub fn admits_unseen(&self, id: &ToolId) -> bool {
        let ToolId::Mcp { server, .. } = id else { return false };
        let name = model_name::of(id);
        self.steps.iter().all(|step| step.admits(id, server.toolset.as_str(), &name))
    }

    /// Whether the rules have the skills of this toolset.
    pub fn has_skills_of(&self, toolset: &str) -> bool {
        self.steps.iter().all(|step| step.has_skills_of(toolset))
    }

    pub(super) fn has_all_of(&self, key: &ServerKey) -> bool {
        self.steps.iter().all(|step| step.has_all_of(key))
    }

    pub(super) fn may_admit(&self, key: &ServerKey) -> bool {
        self.steps.iter().all(|step| step.may_admit(key))
    }

    /// Only what is from one toolset: what lists may name on that toolset's own endpoint.
    pub fn only_toolset<T: Listed>(&self, catalogue: &Catalogue<'_, T>, toolset: &str) -> Self {
        self.only(
            catalogue,
            toolset,
            |id| catalogue.tools[id].toolset() == toolset,
            |key| key.toolset.as_str() == toolset,
        )
    }

    /// Only what is from one server.
    pub fn only_server<T: Listed>(&self, catalogue: &Catalogue<'_, T>, key: &ServerKey) -> Self {
        let is_of = |place: usize| matches!(catalogue.tools[place].id(), ToolId::Mcp { server, .. } if server == key);
        self.only(catalogue, key.toolset.as_str(), is_of, |server| server == key)
    }

    fn only<T: Listed>(
        &self,
        catalogue: &Catalogue<'_, T>,
        toolset: &str,
        keep: impl Fn(usize) -> bool,
        keep_server: impl Fn(&ServerKey) -> bool,
    ) -> Self {
        let mark = |place: usize| match self.has(place) {
            true if keep(place) => Mark::Toolset(0),
            true => Mark::NotListed,
            false => Mark::Outside,
        };
        let not_kept = catalogue.servers.iter().filter(|server| !keep_server(&server.key));
        let step = Rules {
            marks: (0..catalogue.tools.len()).map(mark).collect(),
            toolsets: Some(vec![toolset.to_owned()]),
            enabled: Vec::new(),
            disabled: not_kept.map(|server| (String::new(), Selector::Server(server.key.clone()))).collect(),
        };
        let kept = |place: &usize| keep(*place);
        let kept_server = |place: &usize| keep_server(&catalogue.servers[*place].key);
        Self {
            tools: self.tools.iter().copied().filter(kept).collect(),
            dynamic: self.dynamic,
            pending: self.pending.iter().copied().filter(kept_server).collect(),
            bare: self.bare.iter().copied().filter(kept_server).collect(),
            steps: self.steps.iter().cloned().chain([step]).collect(),
        }
    }

    /// Which rule put the tool in this place in or out.
    pub fn reason<T: Listed>(&self, catalogue: &Catalogue<'_, T>, place: usize) -> Reason {
        let reason = self.rule(self.steps.len().saturating_sub(1), place);
        match catalogue.tools[place].state() {
            State::Off if reason.is_in() => Reason::Off,
            State::Problem(text) if reason.is_in() => Reason::Problem(text.to_owned()),
            _ => reason,
        }
    }

    fn rule(&self, step: usize, place: usize) -> Reason {
        let Some(rules) = self.steps.get(step) else { return Reason::NotListed };
        let text = |list: &[(String, Selector)], entry: u16| {
            list.get(usize::from(entry)).map(|(text, _)| text.clone()).unwrap_or_default()
        };
        match rules.marks.get(place).copied().unwrap_or(Mark::NotListed) {
            Mark::AllToolsets if step > 0 => self.rule(step - 1, place),
            Mark::AllToolsets => Reason::AllToolsets,
            Mark::Toolset(entry) => {
                let listed = rules.toolsets.as_ref().and_then(|list| list.get(usize::from(entry)));
                Reason::Toolset(listed.cloned().unwrap_or_default())
            }
            Mark::Enabled(entry) => Reason::Enabled(text(&rules.enabled, entry)),
            Mark::Disabled(entry) => Reason::Disabled(text(&rules.disabled, entry)),
            Mark::NotListed => Reason::NotListed,
            Mark::Outside => Reason::Global(Box::new(self.rule(step.saturating_sub(1), place))),
        }
    }
}
