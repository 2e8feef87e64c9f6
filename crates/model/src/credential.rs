//! The text of a credential: `<organisation>.<id>.<secret>`. It carries its organisation, so that the tenant is known
//! before the first row is read and no lookup ever crosses tenants.

use std::fmt::Display;
use std::str::FromStr;

use crate::id::OrgId;
use crate::secret::Secret;

/// Writes one.
pub(crate) fn join(org: &OrgId, id: &impl Display, secret: &Secret) -> String {
    format!("{org}.{id}.{}", secret.expose())
}

/// Reads what [`join`] wrote, and nothing else.
pub(crate) fn split<Id: FromStr>(text: &str) -> Option<(OrgId, Id, Secret)> {
    let mut parts = text.split('.');
    let (org, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && secret.len() == 64 && secret.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then_some(())?;
    Some((org.parse().ok()?, id.parse().ok()?, Secret::new(secret)))
}
