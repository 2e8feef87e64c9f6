//! `kitbag doctor --cluster`: what several servers share. Each thing that a server would refuse to start for is a line of its own, and so
//! is what it would not notice before it is too late.

use kitbag_server::checks::{Check, Verdict};
use kitbag_store::{Inspection, Location, OpenError, inspect};

use crate::config::Config;

/// Clocks that differ more than this make leases end too early or too late; half of it is worth a look.
const CLOCK: f64 = 2.0;

pub(super) async fn look(config: &Config) -> Vec<Check> {
    let url = match &config.database {
        Location::Postgres(url) => url,
        Location::Sqlite(path) => {
            let found = format!("SQLite ({}), which one server has for itself", path.display());
            let advice = "give the PostgreSQL that the servers share as KITBAG_DATABASE";
            return vec![Check::wrong("database", Verdict::Bad, found, advice)];
        }
    };
    let mut checks = match inspect(url).await {
        Ok(found) => {
            let mut checks = told(&found);
            checks.extend(addresses(config, &found).await);
            checks
        }
        Err(error) => {
            vec![Check::wrong("database", Verdict::Bad, error.to_string(), "look whether it runs, and at its log")]
        }
    };
    checks.push(bytes(config).await);
    checks
}

/// Where files are kept: what one server writes, the others must be able to read.
async fn bytes(config: &Config) -> Check {
    let Some(bucket) = &config.settings.blobs.bucket else {
        let advice = "give the bucket that the servers share as KITBAG_BLOBS, unless there is one server";
        return Check::wrong("bytes", Verdict::Missing, "in the data folder, which one server has for itself", advice);
    };
    match bucket.check().await {
        Ok(()) => Check::good("bytes", "the bucket answers"),
        Err(error) => Check::wrong("bytes", Verdict::Bad, error.to_string(), "look at its address and credentials"),
    }
}

/// Whether each node is where it says that others reach it. Asked from here, which should be where a node is.
async fn addresses(config: &Config, found: &Inspection) -> Option<Check> {
    let nodes = found.nodes.as_ref()?.iter().filter(|node| node.is_alive);
    let named: Vec<_> = nodes.filter_map(|node| Some((node, node.address.as_deref()?))).collect();
    if named.is_empty() {
        return None;
    }
    let asked: Vec<_> = named.iter().map(|(node, address)| (node.id.as_str(), *address)).collect();
    let (data, given) = (&config.settings.data, config.settings.servers.master_key.as_ref());
    let wrong = match kitbag_server::ping(data, given, &asked).await {
        Ok(Some(wrong)) => wrong,
        Ok(None) => {
            let found = "not asked: there is no master key here";
            let advice = "run it with the KITBAG_MASTER_KEY that the servers have";
            return Some(Check::wrong("addresses", Verdict::Missing, found, advice));
        }
        Err(error) => {
            let advice = "give the key that the servers have";
            return Some(Check::wrong("addresses", Verdict::Bad, error.to_string(), advice));
        }
    };
    let advice = "give each node an --advertise at which the other machines reach just that one (not localhost, not the balancer), let nodes \
                  through the firewall, and give all the same KITBAG_MASTER_KEY";
    Some(match wrong.is_empty() {
        true => Check::good("addresses", format!("all {} answer, and are who they say", named.len())),
        false => Check::wrong("addresses", Verdict::Bad, wrong.join("; "), advice),
    })
}

fn told(found: &Inspection) -> Vec<Check> {
    let mut checks = vec![
        Check::good("database", format!("PostgreSQL {}", found.server)),
        refused("schema", &found.schema, |version| format!("version {version}, as this program needs it")),
        refused("role", &found.role, |role| format!("{role}, an ordinary one")),
        refused("row-level security", &found.walls, |()| "on and forced, with Kitbag's policies alone".to_owned()),
        clock(found.clock),
        connections(found),
    ];
    checks.extend(nodes(found));
    checks
}

/// What a server would refuse says itself what to do.
fn refused<T>(name: &'static str, found: &Result<T, OpenError>, good: impl FnOnce(&T) -> String) -> Check {
    match found {
        Ok(found) => Check::good(name, good(found)),
        Err(error) => {
            Check::wrong(name, Verdict::Bad, error.to_string(), "mend what it says: no server starts like this")
        }
    }
}

fn clock((ahead, exactly): (f64, f64)) -> Check {
    let found = format!("the database is {:+.0} ms from this machine, known to {:.0} ms", ahead * 1e3, exactly * 1e3);
    // What cannot be told apart from the way there and back is no difference.
    let verdict = match ahead.abs() - exactly {
        off if off > CLOCK => Verdict::Bad,
        off if off > CLOCK / 2.0 => Verdict::Missing,
        _ => return Check::good("clock", found),
    };
    Check::wrong("clock", verdict, found, "have both follow the same time servers (chrony, systemd-timesyncd)")
}

fn connections(found: &Inspection) -> Check {
    let all = found.connections;
    let servers = found.nodes.as_ref().map(|nodes| nodes.iter().filter(|node| node.is_alive).count());
    let text = format!("{} of {} are used; a server takes up to {}", all.used, all.most, all.of_a_server);
    let advice = "raise max_connections, or give each server fewer; a pool in front of the database must be one of sessions, since servers listen on their connections";
    // One more than there are: a rolling restart has both for a moment.
    let needed = servers.map(|servers| (servers as i64 + 1) * i64::from(all.of_a_server));
    match needed {
        _ if all.used * 10 >= all.most * 9 => Check::wrong("connections", Verdict::Bad, text, advice),
        Some(needed) if needed > all.most => {
            let text = format!("{text}; {needed} would be needed while one is restarted");
            Check::wrong("connections", Verdict::Missing, text, advice)
        }
        _ => Check::good("connections", text),
    }
}

fn nodes(found: &Inspection) -> Option<Check> {
    let nodes = found.nodes.as_ref()?;
    let one = |node: &kitbag_store::InspectedNode| {
        let address = node.address.as_deref().unwrap_or("no address");
        let state = match (node.is_alive, node.is_draining) {
            (false, _) => ", silent",
            (true, true) => ", stopping",
            (true, false) => "",
        };
        format!("{address} ({}{state})", node.version)
    };
    let text = nodes.iter().map(one).collect::<Vec<_>>().join(", ");
    let text = if text.is_empty() { "none serves".to_owned() } else { text };
    let alive: Vec<_> = nodes.iter().filter(|node| node.is_alive).collect();
    let wrong = |verdict, advice: &str| Some(Check::wrong("nodes", verdict, text.clone(), advice));
    if alive.len() < nodes.len() {
        return wrong(Verdict::Missing, "look at those that are silent; what they held goes to others");
    }
    if alive.len() > 1 && alive.iter().any(|node| node.address.is_none()) {
        return wrong(Verdict::Missing, "give each an --advertise, so that the others can send it what is for it");
    }
    if alive.iter().any(|node| node.version != alive[0].version) {
        return wrong(Verdict::Missing, "finish the upgrade: they are of several versions");
    }
    Some(Check::good("nodes", text))
}
