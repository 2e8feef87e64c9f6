//! The second half of a sign-in: the answer that a browser brought is checked, and the code becomes tokens.

use std::sync::Arc;

use kitbag_model::{OrgId, Secret, SecretHash};
use url::Url;

use super::authorizer::{Authorizer, Callback, Finished, Server};
use super::begin::{is_over, server_of};
use super::error::{AuthError, tame};
use super::keeper::{Kind, Slot};
use super::records::SignInRecord;
use super::renew::see_through;
use super::token::{self, Proven};

impl Authorizer {
    /// Ends a sign-in that `person` of `org` began, with what came back. It is good for once, whatever comes of it.
    pub async fn finish(
        self: &Arc<Self>,
        org: &OrgId,
        person: &str,
        callback: Callback,
    ) -> Result<Finished, AuthError> {
        let key = server_of(&callback.state).ok_or(AuthError::UnknownState)?;
        let slot = Slot { org: org.clone(), server: key, kind: Kind::SignIn };
        let record: SignInRecord = self.load_slot(&slot).await?.ok_or(AuthError::UnknownState)?;
        let state = Secret::new(callback.state.clone()).hash();
        // Only who has the state may end the sign-in; all others leave it as it is.
        if SecretHash::from_hex(&record.state) != Some(state) {
            return Err(AuthError::UnknownState);
        }
        if !self.delete_slot(&slot).await? {
            return Err(AuthError::UnknownState);
        }
        if record.person != person {
            return Err(AuthError::OtherPerson);
        }
        if is_over(&record, self.time()) {
            return Err(AuthError::Expired);
        }
        let code = code(callback, &record)?;
        let url = Url::parse(&record.server).map_err(|_| AuthError::Unreadable)?;
        let server = Server { org: slot.org, key: slot.server, url };
        let this = Arc::clone(self);
        // A browser that goes away does not take the tokens with it: the code is used up.
        see_through(async move {
            this.exchange(&server, &record, &code).await?;
            Ok(Finished { server: server.key })
        })
        .await
    }

    async fn exchange(&self, server: &Server, record: &SignInRecord, code: &Secret) -> Result<(), AuthError> {
        let proven = Proven::new(&record.identity, &record.issuer.name, self.now())?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &record.redirect_uri),
            ("code_verifier", &record.verifier),
            ("resource", &record.resource),
        ];
        let http = self.http(&server.org);
        let granted = match token::ask(&http, &record.issuer.token_endpoint, proven, &form).await {
            Ok(granted) => granted,
            Err(error) => {
                if matches!(&error, AuthError::Denied { code, .. } if code == "invalid_client") {
                    self.forget_client(server, &record.issuer.name).await?;
                }
                return Err(error);
            }
        };
        let flight = self.flight(server);
        let _held = flight.lock.lock().await;
        let tokens = granted.into_record(record, self.now());
        self.save(server, Kind::Tokens, &tokens).await?;
        flight.learn(server, Some(Arc::new(tokens)));
        Ok(())
    }
}

/// The code of an answer. Whose answer it is comes first: not even an error of somebody else's is believed (RFC 9207).
fn code(callback: Callback, record: &SignInRecord) -> Result<Secret, AuthError> {
    match &callback.iss {
        // Byte for byte. A spelling that only means the same is not the same.
        Some(iss) if *iss != record.issuer.name => return Err(AuthError::WrongIss),
        None if record.iss_required => return Err(AuthError::NoIss),
        _ => {}
    }
    if let Some(error) = callback.error {
        let description = callback.error_description.as_deref().map(tame);
        return Err(AuthError::Denied { code: tame(&error), description });
    }
    callback.code.filter(|code| !code.is_empty()).map(Secret::new).ok_or(AuthError::NoCode)
}
