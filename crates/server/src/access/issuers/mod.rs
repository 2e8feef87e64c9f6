//! Issuers that the operator configured: people sign in there, and clients bring their access tokens ([`lent`]). What is asked of clients
//! that bring none is in [`resource`].

pub(crate) mod lent;
pub(crate) mod pending;
pub(crate) mod resource;

use axum::http::{HeaderMap, header};
use kitbag_guard::dial::EgressPolicy;
use kitbag_identity::{Issuer, IssuerSettings};

use super::origin::only;
use crate::app::App;

/// All of them, in the order of the configuration.
#[derive(Default)]
pub(crate) struct Issuers(Vec<Issuer>);

impl Issuers {
    pub(crate) fn new(settings: &[IssuerSettings], egress: &EgressPolicy) -> Self {
        Self(settings.iter().map(|settings| Issuer::new(settings.clone(), egress)).collect())
    }

    /// Those where people sign in.
    pub(crate) fn for_people(&self) -> impl Iterator<Item = &Issuer> {
        self.0.iter().filter(|issuer| issuer.settings().sign_in)
    }

    /// The one that people call so in addresses.
    pub(crate) fn for_person(&self, id: &str) -> Option<&Issuer> {
        self.for_people().find(|issuer| issuer.settings().id.as_str() == id)
    }

    /// Those whose access tokens are taken at the MCP endpoints.
    pub(crate) fn for_clients(&self) -> impl Iterator<Item = &Issuer> {
        self.0.iter().filter(|issuer| issuer.settings().mcp)
    }

    /// What people call an issuer, of which there may be nothing left but what was kept.
    pub(crate) fn name(&self, id: &str) -> Option<&str> {
        let found = self.0.iter().find(|issuer| issuer.settings().id.as_str() == id);
        found.map(|issuer| issuer.settings().name.as_str())
    }
}

/// The address that whoever sent this reached us under, without a slash behind. Where none is configured it is the name in the request, which
/// has been found to be one of this server's.
pub(crate) fn base_url(app: &App, headers: &HeaderMap) -> String {
    match (&app.settings().public_url, only(headers, &header::HOST)) {
        (None, Some(host)) => format!("http://{}", host.to_ascii_lowercase()),
        _ => app.settings().base_url(),
    }
}
