//! The token of the embedded mode: one, random, with both scopes, kept in the data folder for its owner's eyes only.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use kitbag_model::{BearerToken, NewToken, OrgId, Scopes, Secret, Timestamp};
use kitbag_store::{Store, StoreError};

/// Why there is no embedded token.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedTokenError {
    /// Its file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The token in `file`, or a new one if there is none or it was revoked.
pub async fn ensure(file: &Path, store: &Store) -> Result<Secret, EmbeddedTokenError> {
    let failed = |source| EmbeddedTokenError::File { path: file.to_owned(), source };
    let org = OrgId::local();
    let kept = match fs::read(file) {
        Ok(text) => String::from_utf8_lossy(&text).trim().parse::<BearerToken>().ok().filter(|token| token.org == org),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let Some(token) = kept {
        let row = store.read(&org).await?.token(token.id).await?;
        if row.is_some_and(|row| row.admits(&token.secret, Timestamp::now())) {
            return Ok(token.to_secret());
        }
    }
    let token = BearerToken::generate(org.clone());
    let name = "embedded".parse().expect("a short word is a name");
    let mut tx = store.write(&org).await?;
    let (id, hash) = (token.id, token.secret.hash());
    tx.create_token(&NewToken { id, name, hash, scopes: Scopes::ALL, expires_at: None, user: None }).await?;
    // The file comes before the commit: a row without its file would be a token that nobody holds.
    let text = token.to_secret();
    write_private(file, text.expose().as_bytes()).map_err(failed)?;
    tx.commit().await?;
    Ok(text)
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
