//! The rules in tables, and what must hold for all lists.

mod tables;
