//! The files of the page: those in the program, or those of a folder for whoever works on them.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, Code};
use crate::api::input::PathOf;
use crate::app::App;

/// The name of such a file has a hash of its content in it.
const NEVER_CHANGES: &str = "public, max-age=31536000, immutable";

/// Where the files of the page are.
#[derive(Clone, Debug)]
pub enum PageFiles {
    /// In the program.
    BuiltIn(fn(&str) -> Option<PageFile>),
    /// In a folder.
    Folder(PathBuf),
}

/// A file, as it is and packed.
#[derive(Debug)]
pub struct PageFile {
    /// What is in it.
    pub plain: Cow<'static, [u8]>,
    /// The same, packed with Brotli, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

/// What is shown before anybody is let in, and where there is no page.
fn own(name: &str) -> Option<&'static str> {
    match name {
        "plain.css" => Some(include_str!("assets/plain.css")),
        "icon.svg" => Some(include_str!("assets/icon.svg")),
        _ => None,
    }
}

pub(super) async fn find(app: &App, name: &str) -> Option<PageFile> {
    if let Some(text) = own(name) {
        return Some(PageFile { plain: Cow::Borrowed(text.as_bytes()), brotli: None });
    }
    let folder = match &app.settings().page {
        PageFiles::BuiltIn(file) => return file(name),
        PageFiles::Folder(folder) => folder,
    };
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let content = tokio::fs::read(folder.join(name)).await.ok().filter(|_| inside)?;
    Some(PageFile { plain: Cow::Owned(content), brotli: None })
}

/// `GET /page/{*file}`. Nothing in them is secret: anybody who may reach the server may have them.
pub(super) async fn asset(
    State(app): State<App>,
    headers: HeaderMap,
    PathOf(name): PathOf<String>,
) -> Result<Response, ApiError> {
    let missing = || ApiError::new(Code::NotFound, format!("the page has no file {name:?}"));
    let found = find(&app, &name).await.ok_or_else(missing)?;
    let kind = mime_guess::from_path(&name).first_or_octet_stream();
    let cache = if name.starts_with("assets/") { NEVER_CHANGES } else { "no-cache" };
    let mut response = match found.brotli.filter(|_| takes_brotli(&headers)) {
        Some(packed) => ([(header::CONTENT_ENCODING, "br")], packed).into_response(),
        None => found.plain.into_owned().into_response(),
    };
    let told = response.headers_mut();
    told.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_str(&with_charset(kind.essence_str())).map_err(ApiError::internal)?,
    );
    told.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    told.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

fn with_charset(kind: &str) -> String {
    if kind.starts_with("text/") { format!("{kind}; charset=utf-8") } else { kind.to_owned() }
}

fn takes_brotli(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|text| text.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("br") && parts.next().is_none_or(|quality| quality.trim_start_matches("q=") != "0")
    })
}
