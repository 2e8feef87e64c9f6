//! The code of a toolset, as workers want it.

use kitbag_model::{Installed, OrgId};
use kitbag_python::{Entry, Program};

use super::{ToolsetError, Toolsets};

impl Toolsets {
    /// The code of all toolsets of all organisations.
    pub(super) async fn programs(&self) -> Result<Vec<Program>, ToolsetError> {
        let mut programs = Vec::new();
        for org in self.store.system().await?.organization_ids().await? {
            let installed = self.store.read_beside(&org).await?.all_installed().await?;
            programs.extend(installed.iter().map(|one| self.program(&org, one)));
        }
        Ok(programs)
    }

    /// The code of an installed toolset. It reaches the machine's network only if a person trusts it and the organisation may; what it leaves running
    /// stays in the sandbox, and is listed and stopped with the chat.
    pub(super) fn program(&self, org: &OrgId, one: &Installed) -> Program {
        let files = one.toolset.generation.clone().unwrap_or_default();
        let trusted = one.is_trusted();
        let network = one.permissions.network && trusted && self.servers.may_be_in_network(org);
        let listen = one.permissions.listen;
        let entry = |tool: &kitbag_model::PythonTool| Entry {
            entrypoint: tool.entrypoint.clone(),
            input_schema: tool.input_schema.clone(),
        };
        Program {
            org: org.clone(),
            toolset: one.toolset.id.to_string(),
            folder: self.shelf(org).folder_of(&one.toolset.id, &files),
            // A parent that was started without a permission does not get it later.
            generation: format!(
                "{files}{}{}",
                if network { "+network" } else { "" },
                if listen { "+listen" } else { "" }
            ),
            entries: one.tools.iter().map(entry).collect(),
            needs: one.python.clone(),
            network,
            listen,
            trusted,
        }
    }
}
