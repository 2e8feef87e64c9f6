//! The skills of toolsets, as their clients find them: through the protocol's extension, and for clients that do not know it as
//! resources and prompts. Nothing of a skill is run or followed here; hosts check what they read by its digest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kitbag_formats::skill::{ENTRY, Strictness, read as read_skill};
use kitbag_mcp::serve::Fault;
use kitbag_model::{SkillId, ToolsetFile, WorkPath};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::files;
use super::lists::no_resource;
use super::menu::Menu;
use super::tools::{fault, internal};
use super::view::View;
use crate::toolsets::OfferedSkill;

/// A skill on the menu.
pub(super) struct Served {
    pub(super) skill: OfferedSkill,
    /// Its folder's address. Its last part is the skill's name, whatever its toolset calls it.
    pub(super) base: String,
    /// What it is called as a prompt.
    pub(super) prompt: String,
}

impl Served {
    pub(super) fn new(skill: OfferedSkill) -> Self {
        let (toolset, id) = (&skill.toolset, &skill.id);
        let other = skill.name.parse::<SkillId>().ok().filter(|name| name != id);
        let base = match other {
            Some(name) => format!("skill://{toolset}/{id}/{name}"),
            None => format!("skill://{toolset}/{id}"),
        };
        let prompt = format!("skill__{toolset}__{id}");
        Self { skill, base, prompt }
    }

    /// The address of the file that makes it a skill.
    pub(super) fn uri(&self) -> String {
        format!("{}/{ENTRY}", self.base)
    }

    fn entry_path(&self) -> Option<WorkPath> {
        WorkPath::below(self.skill.folder.as_str(), ENTRY).ok()
    }

    /// The path below its folder that an address means; empty for the folder.
    fn inside<'u>(&self, uri: &'u str) -> Option<&'u str> {
        let rest = uri.strip_prefix(self.base.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }

    /// The address of one of its files.
    fn address(&self, file: &ToolsetFile) -> Option<String> {
        let path = file.path.as_str().strip_prefix(self.skill.folder.as_str())?.strip_prefix('/')?;
        Some(format!("{}/{}", self.base, files::escaped(path)))
    }

    /// What must be other for a client to notice.
    pub(super) fn mark(&self) -> String {
        let OfferedSkill { name, description, generation, .. } = &self.skill;
        format!("{} {name:?} {description:?} {generation:?}", self.base)
    }

    /// As one of the resources.
    pub(super) fn resource(&self) -> Value {
        let mut shown = json!({ "uri": self.uri(), "name": self.skill.name, "mimeType": "text/markdown" });
        if let Some(description) = &self.skill.description {
            shown["description"] = description.as_str().into();
        }
        shown
    }

    /// As one of the prompts.
    pub(super) fn shown_prompt(&self) -> Value {
        let mut shown = json!({ "name": self.prompt, "title": self.skill.name });
        if let Some(description) = &self.skill.description {
            shown["description"] = description.as_str().into();
        }
        shown
    }

    /// As the extension shows it: what it says of itself, and all of its files with their digests.
    pub(super) async fn entry(&self, view: &View) -> Result<Value, Fault> {
        let files = self.files(view).await?;
        let text = self.text(view).await?;
        let folder = self.skill.folder.name();
        let read = read_skill(text.as_bytes(), Some(folder), Strictness::Lenient);
        let front = read.map_err(|problems| internal(&problems))?.skill.front_matter;
        let resource = |file: &ToolsetFile| {
            let uri = self.address(file)?;
            Some(json!({ "uri": uri, "digest": format!("sha256:{}", file.sha256), "size": file.size }))
        };
        let resources: Vec<Value> = files.iter().filter_map(resource).collect();
        Ok(json!({ "uri": self.uri(), "frontmatter": front, "resources": resources }))
    }

    async fn files(&self, view: &View) -> Result<Vec<ToolsetFile>, Fault> {
        view.app.toolsets().skill_files(&view.org, &self.skill).await.map_err(|error| fault(error.into()))
    }

    async fn content(&self, view: &View, path: &WorkPath) -> Result<Option<Vec<u8>>, Fault> {
        let found = view.app.toolsets().skill_file(&view.org, &self.skill, path).await;
        found.map_err(|error| fault(error.into()))
    }

    /// The text of its `SKILL.md`.
    async fn text(&self, view: &View) -> Result<String, Fault> {
        let missing = || no_resource(&self.uri(), true);
        let path = self.entry_path().ok_or_else(missing)?;
        let bytes = self.content(view, &path).await?.ok_or_else(missing)?;
        String::from_utf8(bytes).map_err(|error| internal(&error))
    }

    /// `resources/read` of one of its files.
    pub(super) async fn read(&self, view: &View, uri: &str, stateless: bool) -> Result<Box<RawValue>, Fault> {
        let missing = || no_resource(uri, stateless);
        let inside = self.inside(uri).and_then(files::path_of).ok_or_else(missing)?;
        let path = WorkPath::below(self.skill.folder.as_str(), inside.as_str()).map_err(|_| missing())?;
        let bytes = self.content(view, &path).await?.ok_or_else(missing)?;
        let mut content = json!({ "uri": uri, "mimeType": files::kind(path.as_str()) });
        match String::from_utf8(bytes) {
            Ok(text) => content["text"] = text.into(),
            Err(error) => content["blob"] = STANDARD.encode(error.as_bytes()).into(),
        }
        to_raw_value(&json!({ "contents": [content] })).map_err(|error| internal(&error))
    }

    /// What lies directly in its folder, or in one below.
    pub(super) async fn folder(&self, view: &View, uri: &str) -> Result<Vec<Value>, Fault> {
        let missing = || no_folder(uri);
        let uri = uri.strip_suffix('/').unwrap_or(uri);
        let folder = match self.inside(uri).ok_or_else(missing)? {
            "" => self.skill.folder.clone(),
            inside => {
                let inside = files::path_of(inside).ok_or_else(missing)?;
                WorkPath::below(self.skill.folder.as_str(), inside.as_str()).map_err(|_| missing())?
            }
        };
        let (prefix, mut found) = (format!("{folder}/"), Vec::<Value>::new());
        for file in self.files(view).await? {
            let Some(inside) = file.path.as_str().strip_prefix(&prefix) else { continue };
            let child = match inside.split_once('/') {
                Some((name, _)) => json!({
                    "uri": format!("{uri}/{}", files::escaped(name)), "name": name, "mimeType": "inode/directory",
                }),
                None => json!({
                    "uri": format!("{uri}/{}", files::escaped(inside)), "name": inside, "mimeType": files::kind(inside),
                    "size": file.size,
                }),
            };
            // Files come by path, so that all of one folder come together.
            if found.last().is_none_or(|last| last["uri"] != child["uri"]) {
                found.push(child);
            }
        }
        if found.is_empty() { Err(missing()) } else { Ok(found) }
    }

    /// `prompts/get`: what a model reads, and where the rest is.
    pub(super) async fn message(&self, view: &View) -> Result<Box<RawValue>, Fault> {
        let mut text = self.text(view).await?;
        let own = self.uri();
        let addresses = self.files(view).await?;
        let others = addresses.iter().filter_map(|file| self.address(file)).filter(|address| *address != own);
        let others: Vec<String> = others.map(|address| format!("- {address}")).collect();
        if !others.is_empty() {
            let base = &self.base;
            let all = others.join("\n");
            text.push_str(&format!(
                "\n\n---\nPaths in this skill are relative to {base}/. Its other files are resources of this server:\n{all}\n"
            ));
        }
        let mut result = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] });
        if let Some(description) = &self.skill.description {
            result["description"] = description.as_str().into();
        }
        to_raw_value(&result).map_err(|error| internal(&error))
    }
}

/// The skill of ours that an address is about: that of its folder, or of something in it.
pub(super) fn of<'m>(menu: &'m Menu, uri: &str) -> Option<&'m Served> {
    menu.skills.iter().find(|served| served.inside(uri).is_some())
}

/// There is no such folder for this client.
pub(super) fn no_folder(uri: &str) -> Fault {
    Fault::params(format!("there is no folder {uri:?}")).with_data(json!({ "uri": uri }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn served(id: &str, name: &str) -> Served {
        Served::new(OfferedSkill {
            toolset: "my_kit".parse().unwrap(),
            id: id.parse().unwrap(),
            folder: format!("skills/{id}").parse().unwrap(),
            name: name.to_owned(),
            description: None,
            generation: None,
        })
    }

    #[test]
    fn the_last_part_of_a_folders_address_is_the_skills_name() {
        for (id, name, base) in [
            ("pdf", "pdf", "skill://my_kit/pdf"),
            ("pdf", "pdf-forms", "skill://my_kit/pdf/pdf-forms"),
            // Not a name that a skill may have: no address could end in it.
            ("pdf", "PDF Forms!", "skill://my_kit/pdf"),
        ] {
            assert_eq!(served(id, name).base, base, "{id} {name}");
        }
        assert_eq!(served("pdf", "pdf").prompt, "skill__my_kit__pdf");
    }

    #[test]
    fn an_address_is_inside_or_it_is_not() {
        let skill = served("pdf", "pdf");
        for (uri, inside) in [
            ("skill://my_kit/pdf", Some("")),
            ("skill://my_kit/pdf/SKILL.md", Some("SKILL.md")),
            ("skill://my_kit/pdf/a/b", Some("a/b")),
            ("skill://my_kit/pdf2/SKILL.md", None),
            ("skill://my_kit", None),
            ("skill://other/pdf/SKILL.md", None),
        ] {
            assert_eq!(skill.inside(uri), inside, "{uri}");
        }
    }
}
