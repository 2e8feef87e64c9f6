//! What an organisation gave to be kept sealed, and how the server itself gets at it. Nothing here is told to anybody.

use kitbag_model::{OrgId, OrgSecretName, Secret};
use kitbag_store::StoreError;
use kitbag_vault::UnsealError;

use crate::api::error::ApiError;
use crate::app::App;

/// The kind, among all that is kept sealed, of what an organisation gave.
pub(crate) const ORGANIZATION: &str = "organization";

/// Why a secret that is there cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The database says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no vault.
    #[error("{0}")]
    Vault(String),
    /// The key that sealed it is not here, or it is damaged.
    #[error("the secret {name} cannot be opened: {source}")]
    Sealed {
        /// Which.
        name: OrgSecretName,
        /// Why.
        source: UnsealError,
    },
}

impl App {
    /// Seals a secret for its place.
    pub(crate) async fn seal(&self, org: &OrgId, name: OrgSecretName, value: &Secret) -> Result<Vec<u8>, ApiError> {
        let vault = self.servers().vault().await.map_err(ApiError::internal)?;
        Ok(vault.seal(&[org.as_str(), ORGANIZATION, name.as_str()], value.expose().as_bytes()))
    }

    /// A secret that an organisation gave, for the server's own use.
    pub async fn secret(&self, org: &OrgId, name: OrgSecretName) -> Result<Option<Secret>, SecretError> {
        let sealed = self.store().read_beside(org).await?.secret(ORGANIZATION, name.as_str()).await?;
        let Some(sealed) = sealed else { return Ok(None) };
        let vault = self.servers().vault().await.map_err(|error| SecretError::Vault(error.to_string()))?;
        let opened = vault.unseal(&[org.as_str(), ORGANIZATION, name.as_str()], &sealed);
        let opened = opened.map_err(|source| SecretError::Sealed { name, source })?;
        let text = std::str::from_utf8(&opened);
        Ok(Some(Secret::new(text.map_err(|_| SecretError::Sealed { name, source: UnsealError::Damaged })?)))
    }
}
