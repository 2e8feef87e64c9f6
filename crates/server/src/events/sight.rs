//! Which events a listener may hear: none names a toolset that it does not see.

use std::borrow::Cow;
use std::collections::HashSet;

use kitbag_model::{Audience, OrgId, ToolsetId};
use kitbag_store::StoreError;
use serde_json::Value;

use super::Event;
use crate::app::App;

/// More toolsets than an organisation has.
const ALL: u32 = 100_000;

/// The eyes of one listener, and what they have seen. An event is heard after what it tells of: by then its toolset may be gone, and only
/// who saw it before may hear that.
pub(crate) struct Sight {
    org: OrgId,
    audience: Audience,
    seen: HashSet<String>,
}

impl Sight {
    pub(crate) async fn new(app: &App, org: &OrgId, audience: Audience) -> Result<Self, StoreError> {
        let mut seen = HashSet::new();
        if audience != Audience::Everything {
            let page = app.store().read_beside(org).await?.toolsets(audience, None, None, ALL).await?;
            seen.extend(page.items.into_iter().map(|toolset| toolset.id.to_string()));
        }
        Ok(Self { org: org.clone(), audience, seen })
    }

    /// An event as this listener hears it; none if it does not.
    pub(crate) async fn see<'e>(&mut self, app: &App, event: &'e Event) -> Option<Cow<'e, Value>> {
        let whole = Cow::Borrowed(&event.data);
        if let (Some(whose), Some(user)) = (event.private_to, self.audience.only())
            && user != Some(whose)
        {
            return None;
        }
        let Some(id) = toolset_of(event).filter(|_| self.audience != Audience::Everything) else { return Some(whole) };
        // That of the built-in tools is no id that a toolset could have.
        let Ok(toolset) = id.parse::<ToolsetId>() else { return Some(whole) };
        // What cannot be asked may be private.
        let found = app.store().read_beside(&self.org).await.ok()?.toolset(&toolset).await.ok()?;
        if found.is_some_and(|toolset| self.audience.sees(&toolset)) {
            self.seen.insert(id.to_owned());
            return Some(whole);
        }
        if event.name != "tools_changed" || !self.seen.remove(id) {
            return None;
        }
        // It is gone, for this listener at least.
        let mut data = event.data.clone();
        data["reason"] = "uninstall".into();
        Some(Cow::Owned(data))
    }
}

/// The toolset that an event names. The calls of a chat are the chat's, whatever they called.
fn toolset_of(event: &Event) -> Option<&str> {
    match &*event.name {
        "tools_changed" | "toolset_progress" => event.data.get("toolsetId")?.as_str(),
        "mcp_server" => event.data.get("id")?.as_str()?.split('~').next(),
        _ => None,
    }
}
