//! What organisations share that is neither a call nor a connection of the database: memory for large things that come in, and connections
//! that stay open. Whoever takes all it can get leaves room for whoever comes next, and who is refused is told to come again.

mod narrow;
mod shares;

use std::time::Duration;

pub(crate) use narrow::Narrow;
pub(crate) use shares::{Share, Shares};

/// So many bundles are worked on at a time: each is in memory, packed and in part unpacked.
const IMPORTS: usize = 2;

/// So many large bodies of JSON are in memory at a time, of 64 MiB at the most, and what is made of them.
const BODIES: usize = 8;

/// So many archives of files are in memory at a time, of 256 MiB at the most.
const ARCHIVES: usize = 4;

/// So many bundles are on their way in at a time, of 100 MiB at the most, each in a file of the inbox, and so many of one caller.
const ARRIVALS: usize = 64;
const ARRIVALS_OF_ONE: usize = 16;

/// One caller may have so many streams open: a page has one or two, a program that follows runs of agents one for each.
const STREAMS_OF_ONE: usize = 256;

/// What is shared by all of a server. Rooms with places of their own (calls, frames) have them themselves.
pub(crate) struct Fair {
    /// Bundles that are imported, toolsets that are made, changed, published and adopted.
    pub(crate) imports: Narrow,
    /// Bundles on their way in, which nothing else counts.
    pub(crate) arrivals: Shares,
    /// Bodies of JSON that are larger than others may be.
    pub(crate) bodies: Narrow,
    /// Archives that are unpacked into workspaces.
    pub(crate) archives: Narrow,
    /// Connections on which somebody listens for what happens.
    pub(crate) streams: Shares,
}

impl Fair {
    /// For a server that has so many connections, and answers within a time.
    pub(crate) fn new(connections: usize, request_timeout: Duration) -> Self {
        let narrow = |most, what| Narrow::new(most, request_timeout, what);
        Self {
            imports: narrow(IMPORTS, "toolsets are imported or changed"),
            arrivals: Shares::new("imports", ARRIVALS, ARRIVALS_OF_ONE),
            bodies: narrow(BODIES, "large bodies are read"),
            archives: narrow(ARCHIVES, "archives are unpacked"),
            // The other half is for whoever asks something and goes.
            streams: Shares::new("streams", connections / 2, STREAMS_OF_ONE),
        }
    }
}

#[cfg(test)]
mod tests;
