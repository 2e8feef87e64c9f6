//! The text of a credential: `<owner>.<id>.<secret>`. It carries whose it is, an organisation's or a person's, so that the tenant is
//! known before the first row is read and no lookup ever crosses tenants.

use std::fmt::Display;
use std::str::FromStr;

use crate::secret::Secret;

/// Writes one.
pub(crate) fn join(owner: &impl Display, id: &impl Display, secret: &Secret) -> String {
    format!("{owner}.{id}.{}", secret.expose())
}

/// Reads what [`join`] wrote, and nothing else.
pub(crate) fn split<Owner: FromStr, Id: FromStr>(text: &str) -> Option<(Owner, Id, Secret)> {
    let mut parts = text.split('.');
    let (owner, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && secret.len() == 64 && secret.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then_some(())?;
    Some((owner.parse().ok()?, id.parse().ok()?, Secret::new(secret)))
}
