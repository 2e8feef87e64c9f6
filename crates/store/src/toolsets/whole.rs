//! Toolsets with their parts. However many there are, each table is asked once: a query for each part of each toolset would be
//! hundreds of them, and one list of tools needs all.

use std::collections::HashMap;

use kitbag_model::{
    ContentHash, Installed, InstalledContainer, InstalledServer, InstalledSkill, Override, OverrideKey, Permissions,
    PythonNeeds, PythonTool, Toolset, ToolsetId,
};

use crate::error::StoreError;
use crate::tx::Tx;

/// Which toolsets: all from one id to another, both included.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
}

impl<'a> Span<'a> {
    /// Ids are made of lower-case letters, digits, `-` and `_`; `~` is behind all of them.
    const ALL: Self = Self { from: "", to: "~" };

    pub(super) fn one(id: &'a ToolsetId) -> Self {
        Self { from: id.as_str(), to: id.as_str() }
    }
}

/// What is read of one table, by toolset.
pub(super) type ByToolset<T> = HashMap<String, Vec<T>>;

/// The rows of one table, put together by toolset in the order they came in.
pub(super) fn by_toolset<R, T>(
    rows: Vec<R>,
    read: impl Fn(R) -> Result<(String, T), StoreError>,
) -> Result<ByToolset<T>, StoreError> {
    let mut found = ByToolset::new();
    for row in rows {
        let (toolset, part) = read(row)?;
        found.entry(toolset).or_default().push(part);
    }
    Ok(found)
}

/// What some toolsets are made of.
struct Parts {
    needs: ByToolset<(PythonNeeds, Permissions)>,
    tools: ByToolset<PythonTool>,
    servers: ByToolset<InstalledServer>,
    containers: ByToolset<InstalledContainer>,
    skills: ByToolset<InstalledSkill>,
    bundle_overrides: ByToolset<(OverrideKey, Override)>,
    user_overrides: ByToolset<(OverrideKey, Override)>,
    trusted: ByToolset<ContentHash>,
}

impl Parts {
    /// A toolset with what is its own. None if somebody removed it meanwhile: a transaction that writes sees what others do.
    fn take(&mut self, toolset: Toolset) -> Option<Installed> {
        fn own<T>(parts: &mut ByToolset<T>, toolset: &Toolset) -> Vec<T> {
            parts.remove(toolset.id.as_str()).unwrap_or_default()
        }
        let (python, permissions) = own(&mut self.needs, &toolset).pop()?;
        Some(Installed {
            tools: own(&mut self.tools, &toolset),
            servers: own(&mut self.servers, &toolset),
            containers: own(&mut self.containers, &toolset),
            skills: own(&mut self.skills, &toolset),
            bundle_overrides: own(&mut self.bundle_overrides, &toolset),
            user_overrides: own(&mut self.user_overrides, &toolset),
            trusted: own(&mut self.trusted, &toolset).pop(),
            python,
            permissions,
            toolset,
        })
    }
}

impl<Mode> Tx<Mode> {
    /// One toolset with its parts.
    pub async fn installed(&mut self, id: &ToolsetId) -> Result<Option<Installed>, StoreError> {
        match self.toolset(id).await? {
            Some(toolset) => Ok(self.parts_of(Span::one(id)).await?.take(toolset)),
            None => Ok(None),
        }
    }

    /// All toolsets with their parts, in the order in which they were installed.
    pub async fn all_installed(&mut self) -> Result<Vec<Installed>, StoreError> {
        let toolsets = self.all_toolsets().await?;
        if toolsets.is_empty() {
            return Ok(Vec::new());
        }
        let mut parts = self.parts_of(Span::ALL).await?;
        Ok(toolsets.into_iter().filter_map(|toolset| parts.take(toolset)).collect())
    }

    async fn parts_of(&mut self, span: Span<'_>) -> Result<Parts, StoreError> {
        let (bundle_overrides, user_overrides) = self.overrides_of(span).await?;
        Ok(Parts {
            needs: self.needs_of(span).await?,
            tools: self.tools_of(span).await?,
            servers: self.servers_of(span).await?,
            containers: self.containers_of(span).await?,
            skills: self.skills_of(span).await?,
            trusted: self.trust_in_itself(span).await?,
            bundle_overrides,
            user_overrides,
        })
    }
}
