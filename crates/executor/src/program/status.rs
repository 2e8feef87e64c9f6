//! `kitbag executor status`: what there is to know without asking the server.

use serde_json::{Value, json};

use super::ProgramError;
use super::start::{look, programs};
use crate::Spool;
use crate::credentials::Credentials;
use crate::place::Place;
use crate::prepare::Variables;
use crate::voice::Voice;

pub(super) async fn run(place: &Place, voice: Voice) -> Result<(), ProgramError> {
    let path = place.credentials();
    let credentials = Credentials::read(&path).map_err(ProgramError::at(&path))?;
    let running = place.is_locked().map_err(ProgramError::at(place.folder()))?;
    let unsent = unsent(place)?;
    let engines = look(&programs(), &Variables::of_this_process(Vec::new())).await;
    let told = json!({
        "paired": credentials.as_ref().map(|paired| json!({
            "server": paired.server.to_string(), "executorId": paired.executor_id, "organizationId": paired.organization_id,
        })),
        "running": running,
        "engines": engines.iter().map(|(engine, found)| match found {
            Ok(version) => json!({ "id": engine, "version": version, "missing": null }),
            Err(failure) => json!({ "id": engine, "version": null, "missing": failure.message }),
        }).collect::<Vec<_>>(),
        "unsent": unsent,
    });
    voice.tell(&told, || {
        let mut lines = vec![match &credentials {
            Some(paired) => {
                format!("paired with {} as {} of {}", paired.server, paired.executor_id, paired.organization_id)
            }
            None => "not paired".to_owned(),
        }];
        lines.push(if running { "an executor works here" } else { "no executor works here" }.to_owned());
        lines.extend(engines.iter().map(|(engine, found)| match found {
            Ok(version) => format!("has {engine}, version {version}"),
            Err(failure) => format!("lacks {engine}: {}", failure.message),
        }));
        lines.extend(unsent.iter().map(|one| {
            let end = if one["ended"] == true { "its end" } else { "not its end" };
            format!("unsent of {}: {} events, {end}", one["attempt"].as_str().unwrap_or_default(), one["events"])
        }));
        lines.join("\n")
    });
    Ok(())
}

/// What the server does not know yet, or has not said that it knows. Only looked at: an executor may be writing there.
fn unsent(place: &Place) -> Result<Vec<Value>, ProgramError> {
    let folder = place.spool();
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let left = Spool::open(&folder).and_then(|spool| spool.summary()).map_err(ProgramError::at(&folder))?;
    let line = |(id, events, ended): &(kitbag_model::run::wire::AttemptId, usize, bool)| json!({ "attempt": id.to_string(), "events": events, "ended": ended });
    Ok(left.iter().map(line).collect())
}
