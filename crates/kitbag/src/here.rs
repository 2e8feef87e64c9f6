//! The chat that a folder has on the command line: the one to use when none is named. Which chat that is stands in
//! `<data>/cli/chats.json`, by the folder's path.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use kitbag_model::ChatTitle;
use kitbag_server::embedded::write_private;
use serde_json::json;

use crate::cli::Place;
use crate::client::{Client, segment};
use crate::data::DataFolder;
use crate::failure::{Doing, Failure};
use crate::output::{Output, text};

const CHATS: &str = "/v1/orgs/local/chats";

/// The chats of all folders.
struct Register {
    file: PathBuf,
    chats: BTreeMap<String, String>,
    /// Two commands in one new folder must not make two chats.
    _lock: File,
}

impl Register {
    fn open(place: &Place) -> Result<Self, Failure> {
        let folder = DataFolder::open(place)?.path().join("cli");
        fs::create_dir_all(&folder).doing(folder.display())?;
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join("lock"));
        let lock = lock.doing(folder.display())?;
        lock.lock().doing(folder.display())?;
        let file = folder.join("chats.json");
        // It only spares typing: what cannot be read is begun anew.
        let chats = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Ok(Self { file, chats, _lock: lock })
    }

    fn keep(&mut self, folder: String, chat: String) -> Result<(), Failure> {
        self.chats.insert(folder, chat);
        write_private(&self.file, &serde_json::to_vec_pretty(&self.chats)?).doing(self.file.display())
    }
}

/// The chat that was named, or that of this folder.
pub(crate) async fn chat(client: &Client, place: &Place, given: Option<String>) -> Result<String, Failure> {
    if let Some(chat) = given {
        return Ok(chat);
    }
    let folder = folder()?;
    let known = Register::open(place)?.chats.remove(&folder.to_string_lossy().into_owned());
    match known {
        Some(chat) if is_there(client, &chat).await? => Ok(chat),
        _ => Err(Failure::wrong_use(format!(
            "no tool was called in {} yet, so it has no chat; name one with --chat. `kitbag chat list` shows them",
            folder.display()
        ))),
    }
}

/// The same; a folder without a chat gets one.
pub(crate) async fn chat_or_new(
    client: &Client,
    place: &Place,
    given: Option<String>,
    output: &Output,
) -> Result<String, Failure> {
    if let Some(chat) = given {
        return Ok(chat);
    }
    let folder = folder()?;
    let key = folder.to_string_lossy().into_owned();
    let mut register = Register::open(place)?;
    if let Some(chat) = register.chats.get(&key)
        && is_there(client, chat).await?
    {
        return Ok(chat.clone());
    }
    let name = folder.file_name().map_or_else(|| key.clone(), |name| name.to_string_lossy().into_owned());
    // A folder may have a name that no chat can have.
    let title = name.parse::<ChatTitle>().ok().map(|_| name);
    let made = client.post(CHATS, &json!({ "title": title })).await?;
    let chat = text(&made, "id").to_owned();
    register.keep(key, chat.clone())?;
    if !output.is_json() {
        output.note(&format!("made the chat {chat} for this folder"));
    }
    Ok(chat)
}

fn folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().and_then(|folder| folder.canonicalize()).doing("the current folder cannot be read")
}

async fn is_there(client: &Client, chat: &str) -> Result<bool, Failure> {
    match client.get(&format!("{CHATS}/{}", segment(chat))).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.code == "NOT_FOUND" => Ok(false),
        Err(failure) => Err(failure),
    }
}
