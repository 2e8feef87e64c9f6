//! Skills by themselves, before they are part of a toolset.

pub(crate) mod check;
