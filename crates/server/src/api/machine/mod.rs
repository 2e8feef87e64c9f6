//! What the server is and how programs reach it. About the machine only the organisation `local` is told: its owner runs it.

pub(crate) mod checks;
pub(crate) mod connections;
pub(crate) mod facts;
mod sizes;
