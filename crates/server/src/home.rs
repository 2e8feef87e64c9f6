//! Where an organisation's files are, below the data folder.

use std::path::{Path, PathBuf};

use kitbag_model::OrgId;

/// The folder that everybody's but `local`'s are below.
pub(crate) const OTHERS: &str = "orgs";

/// The folder of an organisation. That of `local` is the data folder itself.
pub(crate) fn of(data: &Path, org: &OrgId) -> PathBuf {
    if *org == OrgId::local() { data.to_owned() } else { data.join(OTHERS).join(org.as_str()) }
}
