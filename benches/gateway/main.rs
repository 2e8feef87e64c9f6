//! One hop through Kitbag against the same call made directly, through a bare proxy and through the proxies of others, in one run,
//! as ratios; then the list of many tools, and what an idle server has in memory.
//!
//! The tool is an echo over HTTP. What is measured through Kitbag is the whole of it: the token, the resolution of tools, the
//! arguments checked, the call recorded. The bare proxy passes bytes on and knows nothing; it is the floor for anything that
//! stands in between. All are processes of their own, and all are spoken to in the newest revision that they know; Kitbag is
//! spoken to in the older one too, as most peers are. `--peers FOLDER` says where `scripts/bench-peers` has put the peers.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark")]

mod echo;
mod floor;
mod kitbag;
mod load;
mod peers;

use std::path::Path;
use std::time::{Duration, Instant};

use kitbag::{Kitbag, verdict};
use load::{Era, Measured, Way};

/// All ways have their turn so often.
const ROUNDS: usize = 5;

/// A way that had so long has no further turn.
const LONGEST: Duration = Duration::from_secs(10);

/// Where the ways of which others are a ratio, or which are judged, stand in the list.
const FLOOR: usize = 1;
const KITBAG: usize = 2;

/// What a hop through Kitbag may take to that through the bare proxy.
const LONGEST_CALL: f64 = 2.5;
const FEWEST_CALLS: f64 = 0.5;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["echo"] => echo::be_echo().await,
        ["floor", url] => floor::be_floor(url).await,
        [] => compare(None).await,
        ["--peers", folder] => compare(Some(Path::new(folder))).await,
        _ => println!("what can be given is --peers FOLDER, and nothing else"),
    }
}

async fn compare(installed: Option<&Path>) {
    let echo = echo::start(&["echo"]);
    let address = format!("{}/mcp", echo.url);
    let floor = echo::start(&["floor", &address]);
    let (data, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kitbag = Kitbag::start(data.path());
    kitbag.add("echo", &address, 1).await;
    let way = |name: &str, url: String| Way {
        name: name.to_owned(),
        url,
        tool: "echo",
        token: String::new(),
        era: Era::Newest,
    };
    let mut ways = vec![
        way("directly", address.clone()),
        way("a bare proxy", format!("{}/mcp", floor.url)),
        kitbag.way("Kitbag", "echo", Era::Newest),
        kitbag.way("Kitbag, sessions", "echo", Era::Sessions),
    ];
    let ours = ways.len();
    let peers = peers::start(installed, &address, scratch.path()).await;
    ways.extend(peers.iter().map(|(_, way)| way.clone()));
    for at_once in [1, 16, 64] {
        let mut measured: Vec<Measured> = ways.iter().map(|_| Measured::default()).collect();
        // A round for all that does not count, then in turns, so that what else the machine does is borne by all.
        for way in &ways {
            way.round(at_once, &mut Measured::default()).await;
        }
        let mut spent = vec![Duration::ZERO; ways.len()];
        for _ in 0..ROUNDS {
            for ((way, into), spent) in ways.iter().zip(&mut measured).zip(&mut spent) {
                // Who takes many seconds for a round is known well enough after it.
                if *spent < LONGEST {
                    let began = Instant::now();
                    way.round(at_once, into).await;
                    *spent += began.elapsed();
                }
            }
        }
        tell(at_once, &ways, &measured, ours);
    }
    drop(peers);
    drop(kitbag);
    println!();
    for (servers, tools, is_listed) in [(10, 1, false), (50, 1, false), (10, 40, false), (50, 40, true)] {
        kitbag::idle(servers, tools, &echo.url, is_listed).await;
    }
}

/// A table, and how Kitbag stands in it.
fn tell(at_once: usize, ways: &[Way], measured: &[Measured], ours: usize) {
    let title = format!("{at_once} at a time");
    println!("\n{title:<28}   p50 µs   calls/s   p50 to the bare proxy's   calls/s to the bare proxy's");
    let floor = &measured[FLOOR];
    for (way, one) in ways.iter().zip(measured) {
        let (p50, rate) = (one.p50(), one.rate());
        let failed = if one.failed == 0 { String::new() } else { format!("   {} calls failed", one.failed) };
        println!(
            "{:<28} {p50:>8.0} {rate:>9.0}   {:>23.2}   {:>27.2}{failed}",
            way.name,
            p50 / floor.p50(),
            rate / floor.rate()
        );
    }
    for (peer, one) in ways.iter().zip(measured).skip(ours) {
        // Like with like: what is spoken to in an older revision is compared with Kitbag in that one.
        let of_era = ways.iter().zip(measured).take(ours).skip(KITBAG).find(|(way, _)| way.era == peer.era);
        let (_, kitbag) = of_era.expect("Kitbag is spoken to in both");
        let (p50, rate) = (kitbag.p50() / one.p50(), kitbag.rate() / one.rate());
        let stands = if p50 < 1.0 && rate > 1.0 { "ahead of" } else { "NOT AHEAD of" };
        println!("Kitbag is {stands} {}: {p50:.4} of its p50, {rate:.2} times its calls/s", peer.name);
    }
    // To the floor in whichever era it is spoken to: the slower one counts.
    let kitbag = &measured[KITBAG..ours];
    let p50 = kitbag.iter().map(Measured::p50).fold(0.0, f64::max);
    let rate = kitbag.iter().map(Measured::rate).fold(f64::INFINITY, f64::min);
    let (p50, rate) = (p50 / floor.p50(), rate / floor.rate());
    match at_once {
        1 => println!("at most {LONGEST_CALL} of the bare proxy's p50: {p50:.2}, {}", verdict(p50 <= LONGEST_CALL)),
        16 => println!(
            "at least {FEWEST_CALLS} of the bare proxy's calls/s: {rate:.2}, {}",
            verdict(rate >= FEWEST_CALLS)
        ),
        _ => {}
    }
}
