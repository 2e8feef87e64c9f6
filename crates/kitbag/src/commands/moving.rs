//! `kitbag admin move`, `backup` and `restore`: a whole installation from one place to another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kitbag_guard::dial::EgressPolicy;
use kitbag_model::Secret;
use kitbag_server::BlobSettings;
use kitbag_server::moving::{self, Moved, Source};
use kitbag_store::Location;
use serde_json::json;
use tempfile::TempDir;

use crate::cli::Place;
use crate::config::{self, Config};
use crate::data::{Attempt, DataFolder, Hold};
use crate::failure::{Doing, Failure};
use crate::output::Output;

/// So much of a bucket's bytes stays on this machine. One that is larger is there until it is read, and goes.
const COPIES: u64 = 1 << 30;

/// A place, held as long as it is used.
struct Held {
    place: moving::Place,
    _folders: Vec<Hold>,
    _copies: Option<TempDir>,
}

/// From one place to another, each a data folder or the URL of a database's owner.
pub(crate) async fn run(
    (from, from_blobs): (&str, Option<&str>),
    (to, to_blobs): (&str, Option<&str>),
    dry_run: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let from = named(from, from_blobs, true)?;
    let to = named(to, to_blobs, false)?;
    go(&from, &to, Source::Resting, dry_run, output).await
}

/// This installation into a folder.
pub(crate) async fn backup(
    place: &Place,
    folder: &Path,
    owner: Option<String>,
    dry_run: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let (from, to) = (here(place, owner, Source::Served)?, folder_at(folder, None, false)?);
    go(&from, &to, Source::Served, dry_run, output).await
}

/// A folder into this installation.
pub(crate) async fn restore(
    place: &Place,
    folder: &Path,
    owner: Option<String>,
    dry_run: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let (from, to) = (folder_at(folder, None, true)?, here(place, owner, Source::Resting)?);
    go(&from, &to, Source::Resting, dry_run, output).await
}

async fn go(from: &Held, to: &Held, source: Source, dry_run: bool, output: &Output) -> Result<ExitCode, Failure> {
    let done = match dry_run {
        true => moving::look(&from.place, &to.place).await,
        false => moving::run(&from.place, &to.place, source).await,
    };
    let Moved { tables, rows, chats, blobs, sent, toolsets, bundles, served_by } =
        done.map_err(|error| Failure::failed(error.to_string()))?;
    // A backup waits for nobody.
    let in_the_way = if source == Source::Resting { served_by } else { Vec::new() };
    let value = json!({
        "dryRun": dry_run, "tables": tables, "rows": rows, "chats": chats, "blobs": blobs, "sent": sent,
        "toolsets": toolsets, "bundles": bundles, "inTheWay": in_the_way,
    });
    output.result(&value, |_| {
        let what = format!(
            "{rows} rows of {tables} tables, {blobs} blobs of {chats} chats, the files of {toolsets} toolsets, {bundles} published bundles"
        );
        match dry_run {
            true if !in_the_way.is_empty() => {
                format!("Servers have to be stopped first: {}. These would be moved: {what}.", in_the_way.join(", "))
            }
            true => format!("There is nothing in the way. These would be moved: {what}."),
            false => format!("Moved and compared: {what}. {sent} blobs were not there before. The source is as it was."),
        }
    })
}

/// A folder, or the URL of a database with a bucket or a folder for bytes.
fn named(text: &str, blobs: Option<&str>, is_source: bool) -> Result<Held, Failure> {
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return folder_at(Path::new(text), blobs, is_source);
    }
    let blobs = blobs.ok_or_else(|| {
        Failure::wrong_use(
            "a PostgreSQL database has no bytes: name a bucket or a folder with --from-blobs or --to-blobs",
        )
    })?;
    let mut held = match blobs.starts_with("s3://") {
        true => in_bucket(blobs)?,
        false => folder_at(Path::new(blobs), None, false)?,
    };
    held.place.database = Location::Postgres(Secret::new(text.to_owned()));
    Ok(held)
}

/// Bytes in a bucket, with copies in a folder that goes again.
fn in_bucket(url: &str) -> Result<Held, Failure> {
    let bucket = config::open_bucket(url, &EgressPolicy::default())?;
    let copies = TempDir::new().doing("cannot make a folder for copies")?;
    let (data, blobs) = (
        copies.path().to_owned(),
        BlobSettings { bucket: Some(bucket), cache_bytes: COPIES, ..BlobSettings::default() },
    );
    let place = moving::Place { database: Location::Sqlite(PathBuf::new()), key: data.clone(), data, blobs };
    Ok(Held { place, _folders: Vec::new(), _copies: Some(copies) })
}

/// A data folder with SQLite in it, and its bytes there or in a bucket.
fn folder_at(path: &Path, blobs: Option<&str>, is_source: bool) -> Result<Held, Failure> {
    if is_source && !path.join("kitbag.db").is_file() {
        return Err(Failure::wrong_use(format!("{} is no data folder: there is no kitbag.db in it", path.display())));
    }
    let folder = DataFolder::open(&Place { data: Some(path.to_owned()), config: None })?;
    let hold = hold(&folder)?;
    let mut held = match blobs {
        Some(url) => in_bucket(url)?,
        None => Held {
            place: moving::Place {
                database: Location::Sqlite(PathBuf::new()),
                data: folder.path().to_owned(),
                blobs: BlobSettings::default(),
                key: folder.path().to_owned(),
            },
            _folders: Vec::new(),
            _copies: None,
        },
    };
    held.place.database = Location::Sqlite(folder.database_file());
    held._folders.push(hold);
    Ok(held)
}

/// The installation that this program's settings speak of.
fn here(place: &Place, owner: Option<String>, source: Source) -> Result<Held, Failure> {
    let folder = DataFolder::open(place)?;
    let config = Config::of_folder(&folder, place.config.as_deref())?;
    let database = match (config.database, owner) {
        (Location::Postgres(_), Some(owner)) => Location::Postgres(Secret::new(owner)),
        (Location::Postgres(_), None) => {
            return Err(Failure::wrong_use(
                "on PostgreSQL this is the owner's work: give its URL with --database or KITBAG_OWNER_DATABASE",
            ));
        }
        (sqlite, _) => sqlite,
    };
    let (data, blobs) = (folder.path().to_owned(), config.settings.blobs);
    let mut place = moving::Place { database, key: data.clone(), data, blobs };
    // Nothing of what is elsewhere is in the folder of the server that may be running here: only copies, which are its own.
    let is_elsewhere = place.blobs.bucket.is_some() && matches!(place.database, Location::Postgres(_));
    if source == Source::Served && is_elsewhere {
        let copies = TempDir::new().doing("cannot make a folder for copies")?;
        place.data = copies.path().to_owned();
        return Ok(Held { place, _folders: Vec::new(), _copies: Some(copies) });
    }
    let hold = hold(&folder)?;
    Ok(Held { place, _folders: vec![hold], _copies: None })
}

/// Nobody serves the folder meanwhile.
fn hold(folder: &DataFolder) -> Result<Hold, Failure> {
    match folder.hold_alone()? {
        Attempt::Held(hold) => Ok(hold),
        Attempt::Taken => Err(Failure::wrong_use(format!(
            "the data folder {} is in use. Stop what uses it first",
            folder.path().display()
        ))),
    }
}
