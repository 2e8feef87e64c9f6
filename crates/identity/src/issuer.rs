//! One issuer: how it is set up, and what it said of itself and its keys.

use std::fmt;
use std::sync::Arc;

use kitbag_guard::dial::EgressPolicy;
use serde::Deserialize;

use crate::http::Http;
use crate::kept::Kept;
use crate::keys::{Document, KeySet};
use crate::metadata::{Metadata, discover};
use crate::settings::IssuerSettings;

/// An issuer. Clones share what is kept of it; nothing is asked before somebody needs it.
#[derive(Clone)]
pub struct Issuer(Arc<Inner>);

struct Inner {
    settings: IssuerSettings,
    http: Http,
    metadata: Kept<Metadata>,
    keys: Kept<KeySet>,
}

impl Issuer {
    /// The issuer of these settings, which is asked as far as `egress` allows.
    pub fn new(settings: IssuerSettings, egress: &EgressPolicy) -> Self {
        let http = Http::new(&settings.issuer, egress);
        let (asks, named) = (http.clone(), settings.issuer.clone());
        let metadata = Kept::new(move || {
            let (asks, named) = (asks.clone(), named.clone());
            async move { discover(&asks, &named).await }
        });
        let (asks, described) = (http.clone(), metadata.clone());
        let keys = Kept::new(move || {
            let (asks, described) = (asks.clone(), described.clone());
            async move {
                let place = described.get().await?.jwks_uri.clone();
                Ok(KeySet::read(asks.get::<Document>(&place, None).await?))
            }
        });
        Self(Arc::new(Inner { settings, http, metadata, keys }))
    }

    /// How it is set up.
    pub fn settings(&self) -> &IssuerSettings {
        &self.0.settings
    }

    /// The issuer that a token says it is of. Nothing is proven by that: it says whom to ask for the keys.
    pub fn named_by(token: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Named {
            iss: String,
        }
        jsonwebtoken::dangerous::insecure_decode_claims::<Named>(token).ok().map(|named| named.iss)
    }

    pub(crate) fn http(&self) -> &Http {
        &self.0.http
    }

    pub(crate) fn metadata(&self) -> &Kept<Metadata> {
        &self.0.metadata
    }

    pub(crate) fn keys(&self) -> &Kept<KeySet> {
        &self.0.keys
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({})", self.0.settings.id)
    }
}
