//! Organisations: who owns rows and files.

use crate::id::OrgId;
use crate::text::line_type;
use crate::time::Timestamp;

line_type!(
    /// What people call an organisation.
    OrganizationName,
    120
);

/// An organisation.
#[derive(Clone, Debug)]
pub struct Organization {
    /// Its id.
    pub id: OrgId,
    /// What people call it.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}
