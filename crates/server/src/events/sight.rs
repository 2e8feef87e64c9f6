//! Which events a listener may hear: none names a toolset that it does not see.

use std::borrow::Cow;
use std::collections::HashSet;

use kitbag_model::{Audience, OrgId, ToolsetId};
use kitbag_store::StoreError;
use serde_json::Value;

use super::Event;
use crate::app::App;

/// The eyes of one listener, and what is hidden from them.
pub(crate) struct Sight {
    org: OrgId,
    audience: Audience,
    /// Toolsets that were hidden when they were last looked at: one that is removed is not there any more to be asked.
    hidden: HashSet<String>,
}

impl Sight {
    pub(crate) async fn new(app: &App, org: &OrgId, audience: Audience) -> Result<Self, StoreError> {
        let mut hidden = HashSet::new();
        if audience != Audience::Everything {
            let all = app.store().read_beside(org).await?.all_installed().await?;
            let private = all.into_iter().filter(|one| !audience.sees(&one.toolset));
            hidden.extend(private.map(|one| one.toolset.id.to_string()));
        }
        Ok(Self { org: org.clone(), audience, hidden })
    }

    /// Whether they are still the eyes of such a listener: somebody's role may have changed.
    pub(crate) fn is_of(&self, audience: Audience) -> bool {
        self.audience == audience
    }

    /// An event as this listener hears it; none if it does not.
    pub(crate) async fn seen<'e>(&mut self, app: &App, event: &'e Event) -> Option<Cow<'e, Value>> {
        let whole = Some(Cow::Borrowed(&event.data));
        let Some(id) = toolset_of(event).filter(|_| self.audience != Audience::Everything) else { return whole };
        let was_hidden = self.hidden.contains(id);
        let found = match id.parse::<ToolsetId>() {
            Ok(id) => match app.store().read_beside(&self.org).await {
                // Whoever cannot be asked may be private.
                Err(_) => return None,
                Ok(mut tx) => tx.toolset(&id).await.ok()?,
            },
            // That of the built-in tools, which everybody sees.
            Err(_) => return whole,
        };
        match found {
            None if was_hidden => {
                self.hidden.remove(id);
                None
            }
            None => whole,
            Some(toolset) if self.audience.sees(&toolset) => {
                self.hidden.remove(id);
                whole
            }
            Some(_) if was_hidden => None,
            Some(_) => {
                // Who knew it hears that it is gone, and no more.
                self.hidden.insert(id.to_owned());
                let mut data = event.data.clone();
                data["reason"] = "uninstall".into();
                (event.name == "tools_changed").then_some(Cow::Owned(data))
            }
        }
    }
}

/// The toolset that an event names. The calls of a chat are the chat's, whatever they called.
fn toolset_of(event: &Event) -> Option<&str> {
    match event.name {
        "tools_changed" | "toolset_progress" => event.data.get("toolsetId")?.as_str(),
        "mcp_server" => event.data.get("id")?.as_str()?.split('~').next(),
        _ => None,
    }
}
