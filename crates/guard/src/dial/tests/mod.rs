//! The egress rules against every odd spelling we know, and fetching from servers that misbehave.

mod addresses;
mod fetching;
mod hops;
mod line;
mod origin;
mod secure;
mod twin;
mod urls;
