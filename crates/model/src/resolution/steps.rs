//! The steps: toolsets, then the tools enabled beside them, then those disabled.

use super::catalogue::{Catalogue, ConfiguredServer, Listed, State};
use super::lists::{Lists, takes_away};
use super::problem::{Problem, Problems, Setting};
use super::resolved::{Mark, Resolved, Rules};
use super::selector::Selector;
use crate::name::ServerKey;
use crate::tool_id::ToolId;

impl<T: Listed> Catalogue<'_, T> {
    /// The first step: what the lists leave of everything.
    pub fn resolve(&self, lists: &Lists) -> Result<Resolved, Problems> {
        let (resolved, problems) = self.step(lists, None);
        problems.none_or(resolved)
    }

    /// The same for lists that were good once: a name that has gone since names nothing, one that has become ambiguous disables all it
    /// could mean and enables none. What is wrong is told beside.
    pub fn resolve_anyway(&self, lists: &Lists) -> (Resolved, Problems) {
        self.step(lists, None)
    }

    /// A further step, which can only narrow: what the one before left out is unknown here, whether it exists or not.
    pub fn resolve_within(&self, before: &Resolved, lists: &Lists) -> Result<Resolved, Problems> {
        let (resolved, problems) = self.step(lists, Some(before));
        problems.none_or(resolved)
    }

    fn step(&self, lists: &Lists, before: Option<&Resolved>) -> (Resolved, Problems) {
        let step = Step { catalogue: self, before };
        let mut problems = Problems::default();
        let rules = step.rules(lists, &mut problems);
        let may_come = |server: &ConfiguredServer| step.is_pending(server) && rules.may_admit(&server.key);
        let is_bare = |server: &ConfiguredServer| step.is_bare(server) && rules.has_all_of(&server.key);
        let servers = |is: &dyn Fn(&ConfiguredServer) -> bool| -> Vec<usize> {
            self.servers.iter().enumerate().filter(|(_, server)| is(server)).map(|(at, _)| at).collect()
        };
        let (pending, bare) = (servers(&may_come), servers(&is_bare));
        let skills = |id: &String| step.has_skills_of(id) && rules.has_skills_of(id);
        let no_servers = pending.is_empty() && bare.is_empty();
        let nothing = no_servers && !rules.marks.iter().any(|mark| mark.is_in()) && !self.skilled.iter().any(skills);
        if nothing && problems.0.is_empty() && !lists.say_nothing() {
            problems.add(Problem::NoToolsLeft);
        }
        let is_listed = |place: &usize| rules.marks[*place].is_in() && self.tools[*place].state() == State::Ready;
        let tools = (0..self.tools.len()).filter(is_listed).collect();
        let dynamic = lists.dynamic.unwrap_or_else(|| before.is_some_and(|before| before.dynamic));
        let earlier = before.into_iter().flat_map(|before| before.steps.iter().cloned());
        let steps = earlier.chain([rules]).collect();
        (Resolved { tools, dynamic, pending, bare, steps }, problems)
    }
}

/// One step over what the one before left.
struct Step<'a, 'c, T> {
    catalogue: &'a Catalogue<'c, T>,
    before: Option<&'a Resolved>,
}

/// What an entry names.
enum Hit {
    Tools(Vec<usize>),
    /// Nothing that is there, and yet it is no mistake.
    Later,
    Unknown,
    /// Several where one is meant.
    Several(Vec<usize>, Vec<String>),
}

impl<T: Listed> Step<'_, '_, T> {
    fn rules(&self, lists: &Lists, problems: &mut Problems) -> Rules {
        let start = |place| if self.has(place) { Mark::NotListed } else { Mark::Outside };
        let mut marks: Vec<Mark> = (0..self.catalogue.tools.len()).map(start).collect();
        let toolsets = self.toolsets(lists, &mut marks, problems);
        let entries = |list: &Option<Vec<String>>| -> Vec<(String, Selector)> {
            list.iter().flatten().map(|text| (text.clone(), Selector::parse(text))).collect()
        };
        let (enabled, disabled) = (entries(&lists.enabled_tools), entries(&lists.disabled_tools));
        for (number, (text, selector)) in (0..).zip(&enabled) {
            for place in self.meant(Setting::EnabledTools, text, selector, problems) {
                if marks[place] == Mark::NotListed {
                    marks[place] = Mark::Enabled(number);
                }
            }
        }
        for (number, (text, selector)) in (0..).zip(&disabled) {
            for place in self.meant(Setting::DisabledTools, text, selector, problems) {
                if !matches!(marks[place], Mark::Outside | Mark::Disabled(_)) {
                    marks[place] = Mark::Disabled(number);
                }
            }
        }
        Rules { marks, toolsets, enabled, disabled }
    }

    /// Marks the tools of the toolsets that are listed.
    fn toolsets(&self, lists: &Lists, marks: &mut [Mark], problems: &mut Problems) -> Option<Vec<String>> {
        let is_all = |entry: &String| entry.eq_ignore_ascii_case("all");
        let listed = lists.toolsets.as_ref();
        for name in listed.into_iter().flatten().filter(|entry| !is_all(entry)) {
            match takes_away(Setting::Toolsets, name) {
                Some(problem) => problems.add(problem),
                None if !self.knows_toolset(name) => unknown(problems, Setting::Toolsets, name),
                None => {}
            }
        }
        let listed = listed.filter(|list| !list.iter().any(is_all));
        for (place, mark) in marks.iter_mut().enumerate().filter(|(_, mark)| **mark == Mark::NotListed) {
            let toolset = self.catalogue.tools[place].toolset();
            *mark = match listed {
                None => Mark::AllToolsets,
                Some(list) => match (0..).zip(list).find(|(_, entry)| entry.eq_ignore_ascii_case(toolset)) {
                    Some((number, _)) => Mark::Toolset(number),
                    None => Mark::NotListed,
                },
            };
        }
        listed.cloned()
    }

    fn knows_toolset(&self, name: &str) -> bool {
        let is_it = |id: &str| id.eq_ignore_ascii_case(name);
        match self.before {
            None => self.catalogue.toolsets.iter().any(|id| is_it(id)),
            Some(_) => {
                let mut tools = self.catalogue.tools.iter().enumerate();
                tools.any(|(place, tool)| is_it(tool.toolset()) && self.has(place))
                    || self.catalogue.servers.iter().any(|server| {
                        is_it(server.key.toolset.as_str()) && (self.is_pending(server) || self.is_bare(server))
                    })
                    || self.catalogue.skilled.iter().any(|id| is_it(id) && self.has_skills_of(id))
            }
        }
    }

    /// The tools that an entry means. What is wrong with it is noted.
    fn meant(&self, setting: Setting, text: &str, selector: &Selector, problems: &mut Problems) -> Vec<usize> {
        if let Some(problem) = takes_away(setting, text) {
            problems.add(problem);
            return Vec::new();
        }
        match self.find(text, selector) {
            Hit::Tools(places) => places,
            Hit::Later => Vec::new(),
            Hit::Unknown => {
                unknown(problems, setting, text);
                Vec::new()
            }
            Hit::Several(places, ids) => {
                problems.add(Problem::Ambiguous { setting, name: text.to_owned(), ids });
                if setting == Setting::DisabledTools { places } else { Vec::new() }
            }
        }
    }

    fn find(&self, text: &str, selector: &Selector) -> Hit {
        // A name is a name first: that of an MCP tool may hold anything, `*` too.
        let named = self.catalogue.named(text, |place| self.has(place));
        match named.len() {
            0 => {}
            1 => return Hit::Tools(named),
            _ => {
                let ids = named.iter().map(|place| self.catalogue.tools[*place].id().to_string()).collect();
                return Hit::Several(named, ids);
            }
        }
        if let Selector::Legacy { server, .. } = selector {
            let is_it = |key: &&ServerKey| key.server == *server;
            let keys: Vec<&ServerKey> = self.servers().filter(is_it).collect();
            let tool = text.splitn(3, ':').nth(2).unwrap_or_default();
            return match keys.as_slice() {
                [] => Hit::Unknown,
                [key] => {
                    let text = format!("mcp:{key}:{tool}");
                    self.find(&text, &Selector::Name(text.to_lowercase()))
                }
                several => {
                    let ids: Vec<String> = several.iter().map(|key| format!("mcp:{key}:{tool}")).collect();
                    let named = |id: &String| self.catalogue.named(id, |place| self.has(place));
                    Hit::Several(ids.iter().flat_map(named).collect(), ids)
                }
            };
        }
        let is_known = match selector {
            Selector::Toolset(id) => self.knows_toolset(id),
            Selector::Server(key) => self.servers().any(|known| known == key),
            Selector::Pattern(_) => false,
            Selector::Name(_) | Selector::Legacy { .. } => return self.missing(text, selector),
        };
        let fits = |(place, tool): &(usize, &T)| {
            self.has(*place) && selector.fits(tool.id(), tool.toolset(), tool.model_name())
        };
        let places: Vec<usize> = self.catalogue.tools.iter().enumerate().filter(fits).map(|(place, _)| place).collect();
        match places.is_empty() {
            false => Hit::Tools(places),
            true if is_known => Hit::Later,
            true => self.missing(text, selector),
        }
    }

    /// A name that fits no tool: one of a server that nobody has seen yet may come, and one that a server had once is no mistake.
    fn missing(&self, text: &str, selector: &Selector) -> Hit {
        let unseen = |server: &ConfiguredServer| self.is_pending(server) && selector.may_mean(&server.key);
        let admitted = || match text.parse::<ToolId>() {
            Ok(id) if !matches!(selector, Selector::Pattern(_)) => {
                self.before.is_none_or(|before| before.admits_unseen(&id))
            }
            _ => true,
        };
        let is_gone = |id: &ToolId| {
            let ToolId::Mcp { server, .. } = id else { return false };
            let name = crate::model_name::of(id);
            selector.fits(id, server.toolset.as_str(), &name)
                && self.before.is_none_or(|before| before.admits_unseen(id))
        };
        let may_come = self.catalogue.servers.iter().any(unseen) && admitted();
        if may_come || self.catalogue.gone.iter().any(is_gone) { Hit::Later } else { Hit::Unknown }
    }

    /// Whether the step before left this tool.
    fn has(&self, place: usize) -> bool {
        self.before.is_none_or(|before| before.has(place))
    }

    /// Whether the step before left the skills of this toolset.
    fn has_skills_of(&self, toolset: &str) -> bool {
        self.before.is_none_or(|before| before.has_skills_of(toolset))
    }

    /// Whether tools of this server may come that nobody has seen yet.
    fn is_pending(&self, server: &ConfiguredServer) -> bool {
        !server.seen && self.before.is_none_or(|before| before.may_admit(&server.key))
    }

    /// Whether this is a server without tools that the step before left.
    fn is_bare(&self, server: &ConfiguredServer) -> bool {
        server.bare && self.before.is_none_or(|before| before.has_all_of(&server.key))
    }

    /// The servers of which there is something.
    fn servers(&self) -> impl Iterator<Item = &ServerKey> {
        let is_left = |server: &&ConfiguredServer| {
            let is_of = |tool: &T| matches!(tool.id(), ToolId::Mcp { server: key, .. } if *key == server.key);
            let mut tools = self.catalogue.tools.iter().enumerate();
            self.before.is_none()
                || self.is_pending(server)
                || self.is_bare(server)
                || tools.any(|(place, tool)| is_of(tool) && self.has(place))
        };
        self.catalogue.servers.iter().filter(is_left).map(|server| &server.key)
    }
}

fn unknown(problems: &mut Problems, setting: Setting, name: &str) {
    let is_same = |problem: &Problem| match problem {
        Problem::Unknown { setting: known, name: said } => {
            *known == setting && said.to_lowercase() == name.to_lowercase()
        }
        _ => false,
    };
    if !problems.0.iter().any(is_same) {
        problems.add(Problem::Unknown { setting, name: name.to_owned() });
    }
}
