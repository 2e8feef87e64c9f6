//! Files that come in a form.

use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};

use super::Staged;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::workspaces::Arriving;

/// A form, whose files are taken one by one.
pub(crate) struct Form<'a> {
    app: &'a App,
    parts: Multipart,
    left: u64,
    arriving: Option<Arriving>,
    count: usize,
}

/// So many files may come in one form. Empty ones cost an inode each, and no byte of the limit.
const MOST_FILES: usize = 10_000;

/// A file of a form.
pub(crate) struct FormFile {
    /// The field's name.
    pub(crate) field: String,
    /// The name that the file has on the other side.
    pub(crate) name: String,
    pub(crate) file: Staged,
}

impl<'a> Form<'a> {
    /// A form whose files may have `most` bytes together. Those for a workspace are counted while they come, and until the form is let go of.
    pub(crate) async fn open(
        app: &'a App,
        mut request: Request,
        most: u64,
        arriving: Option<Arriving>,
    ) -> Result<Self, ApiError> {
        // The limit is kept here, file by file.
        DefaultBodyLimit::disable().apply(&mut request);
        let parts = Multipart::from_request(request, app).await.map_err(|error| unreadable(&error.body_text()))?;
        Ok(Self { app, parts, left: most, arriving, count: 0 })
    }

    /// What is counted of its files, for whoever has them when the form is over.
    pub(crate) fn into_arriving(self) -> Option<Arriving> {
        self.arriving
    }

    /// The next file; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<FormFile>, ApiError> {
        let patience = self.app.settings().request_timeout;
        let part = tokio::time::timeout(patience, self.parts.next_field()).await;
        let part = part.map_err(|_| ApiError::new(Code::Timeout, "the form did not get on"))?;
        let Some(part) = part.map_err(|error| unreadable(&error.body_text()))? else { return Ok(None) };
        self.count += 1;
        if self.count > MOST_FILES {
            let message = format!("a form may have at most {MOST_FILES} files; send an archive instead");
            return Err(ApiError::new(Code::PayloadTooLarge, message));
        }
        let field = part.name().unwrap_or_default().to_owned();
        let Some(name) = part.file_name().map(plain_name) else {
            let message = format!("the part {field:?} is not a file: it has no file name");
            return Err(ApiError::new(Code::BadRequest, message));
        };
        let file = self.app.inbox().receive(part, self.left, patience, self.arriving.as_mut()).await?;
        self.left = self.left.saturating_sub(file.path().metadata().map_err(ApiError::internal)?.len());
        Ok(Some(FormFile { field, name, file }))
    }
}

fn unreadable(reason: &str) -> ApiError {
    ApiError::new(Code::BadRequest, format!("the form cannot be read: {reason}"))
}

/// A name as it was before the form: there, quotes and ends of lines are written like this, and nothing else is.
fn plain_name(name: &str) -> String {
    name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
}
