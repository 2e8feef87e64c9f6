//! `agentskills-v1`: a skill with all its files as one JSON object.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kitbag_model::{IdError, PathError, SkillId, WorkPath};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ENTRY, LARGEST_FILE, LARGEST_SKILL, MOST_FILES};

const FORMAT: &str = "agentskills-v1";
const LONGEST_NAME: usize = 120;
const LONGEST_DESCRIPTION: usize = 2000;
const LONGEST_PATH: usize = 200;

/// What is wrong with a skill in JSON.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BundleError {
    /// Not the object that it must be.
    #[error("not a skill: {0}")]
    Shape(String),
    /// Another format.
    #[error("format must be \"agentskills-v1\"")]
    Format,
    /// Another entry.
    #[error("entry must be \"SKILL.md\"")]
    Entry,
    /// The id breaks the rule.
    #[error("id: {0}")]
    Id(#[from] IdError),
    /// A text that is empty or too long.
    #[error("{field} must have {least} to {most} characters")]
    Length {
        /// Which.
        field: &'static str,
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
    /// Too many files.
    #[error("a skill may have at most {MOST_FILES} files, not {has}")]
    TooManyFiles {
        /// How many there are.
        has: usize,
    },
    /// No `SKILL.md`.
    #[error("files must have SKILL.md, spelled so, at the top")]
    NoEntry,
    /// A path that could lead out of the skill's folder, or means two things.
    #[error("files[{index}].path: {reason}")]
    Path {
        /// Which file, counted from 0.
        index: usize,
        /// What is wrong with it.
        reason: PathError,
    },
    /// A path that is too long.
    #[error("files[{index}].path must have at most {LONGEST_PATH} characters")]
    LongPath {
        /// Which file, counted from 0.
        index: usize,
    },
    /// A drive letter, which some systems take for the root of another disk.
    #[error("files[{index}].path must not begin with a drive letter")]
    Drive {
        /// Which file, counted from 0.
        index: usize,
    },
    /// A file that is there already, or that some file systems cannot tell from one that is.
    #[error("files[{index}].path is there twice (upper and lower case do not make a difference)")]
    Twice {
        /// Which file, counted from 0.
        index: usize,
    },
    /// A file that is a folder too.
    #[error("files[{index}].path is a file and a folder at once")]
    FileAndFolder {
        /// Which file, counted from 0.
        index: usize,
    },
    /// An unknown encoding.
    #[error("files[{index}].encoding must be \"utf8\" or \"base64\"")]
    Encoding {
        /// Which file, counted from 0.
        index: usize,
    },
    /// Not base64.
    #[error("files[{index}].content is not base64")]
    Base64 {
        /// Which file, counted from 0.
        index: usize,
    },
    /// A file that is too large.
    #[error("files[{index}] has more than {LARGEST_FILE} bytes")]
    LargeFile {
        /// Which file, counted from 0.
        index: usize,
    },
    /// All files together are too large.
    #[error("the files of a skill may have at most {LARGEST_SKILL} bytes together")]
    LargeSkill,
}

impl BundleError {
    /// Which file it is about, counted from 0; none: all of it.
    pub fn file(&self) -> Option<usize> {
        match self {
            Self::Path { index, .. }
            | Self::LongPath { index }
            | Self::Drive { index }
            | Self::Twice { index }
            | Self::FileAndFolder { index }
            | Self::Encoding { index }
            | Self::Base64 { index }
            | Self::LargeFile { index } => Some(*index),
            _ => None,
        }
    }
}

/// A skill with its files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bundle {
    /// Its id, and the name of its folder.
    pub id: SkillId,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it is used at all.
    pub enabled: bool,
    /// Its files, `SKILL.md` among them.
    pub files: BTreeMap<WorkPath, Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    format: String,
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    entry: String,
    files: Vec<RawFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    /// Tells nothing that the files do not tell; read and forgotten.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "the format has it, so it must not be refused")]
    optional_dirs: Option<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    path: String,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
}

impl Bundle {
    /// Reads the JSON form, or tells everything that is wrong with it.
    pub fn from_json(value: &Value) -> Result<Self, Vec<BundleError>> {
        let raw = Raw::deserialize(value).map_err(|error| vec![BundleError::Shape(shape(&error))])?;
        let mut errors = Vec::new();
        if raw.format != FORMAT {
            errors.push(BundleError::Format);
        }
        if raw.entry != ENTRY {
            errors.push(BundleError::Entry);
        }
        let id = raw.id.parse::<SkillId>().map_err(|error| errors.push(error.into())).ok();
        let description = raw.description.as_deref().unwrap_or_default();
        for (field, text, least, most) in
            [("name", raw.name.as_str(), 1, LONGEST_NAME), ("description", description, 0, LONGEST_DESCRIPTION)]
        {
            if text.trim().chars().count() < least || text.chars().count() > most {
                errors.push(BundleError::Length { field, least, most });
            }
        }
        let files = files(&raw.files, &mut errors);
        match id {
            Some(id) if errors.is_empty() => Ok(Self {
                id,
                name: raw.name,
                description: raw.description,
                enabled: raw.enabled.unwrap_or(true),
                files,
            }),
            _ => Err(errors),
        }
    }

    /// The JSON form. Files that are not text are in base64.
    pub fn to_json(&self) -> Value {
        let file = |(path, bytes): (&WorkPath, &Vec<u8>)| match std::str::from_utf8(bytes) {
            Ok(text) => RawFile { path: path.to_string(), content: text.to_owned(), encoding: Some("utf8".to_owned()) },
            Err(_) => RawFile {
                path: path.to_string(),
                content: BASE64_STANDARD.encode(bytes),
                encoding: Some("base64".to_owned()),
            },
        };
        let raw = Raw {
            format: FORMAT.to_owned(),
            id: self.id.to_string(),
            name: self.name.clone(),
            description: self.description.clone(),
            entry: ENTRY.to_owned(),
            files: self.files.iter().map(file).collect(),
            enabled: Some(self.enabled),
            optional_dirs: None,
        };
        serde_json::to_value(raw).expect("texts and booleans always become JSON")
    }
}

/// What is wrong with the shape of a value, without the value: whatever stands there may be something that nobody should read again.
fn shape(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((what, expected)) if what.starts_with("invalid ") => {
            format!("a value is not what it must be: expected {expected}")
        }
        _ => text,
    }
}

fn files(raw: &[RawFile], errors: &mut Vec<BundleError>) -> BTreeMap<WorkPath, Vec<u8>> {
    let mut files = BTreeMap::new();
    if raw.len() > MOST_FILES {
        errors.push(BundleError::TooManyFiles { has: raw.len() });
        return files;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = 0;
    for (index, file) in raw.iter().enumerate() {
        match one_file(index, file) {
            Ok((path, bytes)) => {
                total += bytes.len();
                if seen.insert(path.as_str().to_lowercase(), index).is_some() {
                    errors.push(BundleError::Twice { index });
                }
                files.insert(path, bytes);
            }
            Err(error) => errors.push(error),
        }
    }
    for (path, index) in &seen {
        let mut above = path.as_str();
        while let Some((folder, _)) = above.rsplit_once('/') {
            if seen.contains_key(folder) {
                errors.push(BundleError::FileAndFolder { index: *index });
            }
            above = folder;
        }
    }
    if total > LARGEST_SKILL {
        errors.push(BundleError::LargeSkill);
    }
    if !files.contains_key(ENTRY) {
        errors.push(BundleError::NoEntry);
    }
    files
}

fn one_file(index: usize, file: &RawFile) -> Result<(WorkPath, Vec<u8>), BundleError> {
    let path: WorkPath = file.path.parse().map_err(|reason| BundleError::Path { index, reason })?;
    if path.as_str().chars().count() > LONGEST_PATH {
        return Err(BundleError::LongPath { index });
    }
    let bytes = path.as_str().as_bytes();
    if bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' {
        return Err(BundleError::Drive { index });
    }
    let content = match file.encoding.as_deref() {
        None | Some("utf8") => file.content.clone().into_bytes(),
        Some("base64") => BASE64_STANDARD.decode(&file.content).map_err(|_| BundleError::Base64 { index })?,
        Some(_) => return Err(BundleError::Encoding { index }),
    };
    if content.len() > LARGEST_FILE { Err(BundleError::LargeFile { index }) } else { Ok((path, content)) }
}
