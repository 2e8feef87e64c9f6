//! Who somebody is here whom an issuer vouches for. Its word for an address makes nobody a person who is known already: for that they have to
//! be signed in, and link the issuer themselves.

use kitbag_identity::{Claimed, Issuer};
use kitbag_model::{
    Action, Email, Identity, NewLinkedIdentity, NewPerson, OrgId, OrgRole, Person, SessionId, Timestamp, UserId,
};
use kitbag_store::{PersonTx, StoreError};
use serde_json::json;

use crate::api::error::{ApiError, Code};
use crate::api::invitations::{accept, read};
use crate::app::App;

/// Why somebody does not come in. The page tells each by its code.
#[derive(Debug)]
pub(crate) enum Denied {
    /// Nobody invited them, and the issuer's people do not come in by themselves.
    NotInvited,
    /// The issuer does not say that the address is theirs.
    EmailUnverified,
    /// The address is of another domain than those that may come in.
    DomainRefused,
    /// Somebody has this address here, who must sign in as before and link the issuer.
    AddressKnown,
    /// The invitation does not work any more.
    InvitationEnded,
    /// The invitation is for another address.
    OtherAddress,
    /// What the issuer calls them is somebody else's here.
    IdentityTaken,
    /// Who wanted to link it is no longer signed in.
    SignedOut,
    /// Something went wrong inside.
    Failed(ApiError),
}

impl Denied {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NotInvited => "not_invited",
            Self::EmailUnverified => "email_unverified",
            Self::DomainRefused => "domain_refused",
            Self::AddressKnown => "address_known",
            Self::InvitationEnded => "invitation_ended",
            Self::OtherAddress => "other_address",
            Self::IdentityTaken => "identity_taken",
            Self::SignedOut => "signed_out",
            Self::Failed(_) => "failed",
        }
    }
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ApiError> for Denied {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// Who it is: somebody who came before, or somebody new who may come in. With an invitation they become a member.
pub(crate) async fn admit(
    app: &App,
    issuer: &Issuer,
    claimed: &Claimed,
    invitation: Option<&str>,
) -> Result<UserId, Denied> {
    let email = proven_address(issuer, claimed)?;
    let link = link_of(issuer, claimed);
    // Once more if somebody was quicker: the same person in another tab.
    for _ in 0..2 {
        if let Some(user) = app.store().whose(&link.identity).await? {
            if let Some(text) = invitation {
                accept_as(app, user, email.as_ref(), text).await?;
            }
            return Ok(user);
        }
        match newcomer(app, issuer, claimed, email.as_ref(), &link, invitation).await {
            Err(Denied::IdentityTaken) => {}
            done => return done,
        }
    }
    Err(Denied::AddressKnown)
}

/// Gives somebody who is signed in another way in.
pub(crate) async fn link(
    app: &App,
    issuer: &Issuer,
    claimed: &Claimed,
    (user, session): (UserId, SessionId),
) -> Result<(), Denied> {
    proven_address(issuer, claimed)?;
    let link = link_of(issuer, claimed);
    let mut tx = app.store().person(user).await?;
    let signed_in = tx.session(session).await?.is_some_and(|session| Timestamp::now() < session.expires_at);
    if !signed_in || tx.found().await?.is_none() {
        return Err(Denied::SignedOut);
    }
    match app.store().whose(&link.identity).await? {
        Some(whose) if whose == user => return Ok(()),
        Some(_) => return Err(Denied::IdentityTaken),
        None => {}
    }
    tx.link_identity(&link).await.map_err(taken)?;
    tx.commit().await?;
    tracing::info!(%user, issuer = link.issuer, "somebody linked an issuer");
    Ok(())
}

/// The address that the issuer vouches for. Where only some domains may come in, there must be one.
fn proven_address(issuer: &Issuer, claimed: &Claimed) -> Result<Option<Email>, Denied> {
    let settings = issuer.settings();
    let email = claimed.email.clone().filter(|_| claimed.is_verified || settings.trust_email);
    match &email {
        Some(email) if !settings.allows(email) => Err(Denied::DomainRefused),
        None if !settings.allow_domains.is_empty() => Err(Denied::EmailUnverified),
        _ => Ok(email),
    }
}

fn link_of(issuer: &Issuer, claimed: &Claimed) -> NewLinkedIdentity {
    let settings = issuer.settings();
    NewLinkedIdentity {
        identity: Identity::of_issuer(settings.issuer.as_str(), &claimed.subject),
        issuer: settings.id.to_string(),
        label: claimed.email.as_ref().map(Email::to_string),
    }
}

/// Somebody who was not known until now, if they may come in.
async fn newcomer(
    app: &App,
    issuer: &Issuer,
    claimed: &Claimed,
    email: Option<&Email>,
    link: &NewLinkedIdentity,
    invitation: Option<&str>,
) -> Result<UserId, Denied> {
    let email = email.ok_or(Denied::EmailUnverified)?;
    let by_address = Identity::of_email(email);
    if app.store().whose(&by_address).await?.is_some() {
        return Err(Denied::AddressKnown);
    }
    let name = claimed.name.as_deref().and_then(|name| name.parse().ok());
    let new = NewPerson { id: UserId::generate(), email: email.clone(), display_name: name, password_hash: None };
    let person = Person {
        id: new.id,
        email: email.clone(),
        display_name: new.display_name.as_ref().map(ToString::to_string),
        password_hash: None,
        created_at: Timestamp::now(),
    };
    if let Some(text) = invitation {
        let (org, invitation) = read::open(app, text).await.map_err(ended)?;
        if invitation.email != *email {
            return Err(Denied::OtherAddress);
        }
        let mut tx = created(app, &new, &by_address, link).await?.enter(&org).await?;
        accept::take_up(&mut tx, &person, &invitation).await.map_err(ended)?;
        tx.commit().await?;
        app.events().members_changed(&org, Some(person.id), "joined");
    } else if let Some((org, role)) = joined(app, issuer).await? {
        let mut tx = created(app, &new, &by_address, link).await?.enter(&org).await?;
        tx.add_member(&person, role).await?;
        let details = json!({ "email": email.as_str(), "role": role.as_str(), "issuer": link.issuer });
        let who = format!("{email} (user {})", person.id);
        tx.audit(&who, Action::MemberAdded, &person.id.to_string(), &details).await?;
        tx.commit().await?;
        app.events().members_changed(&org, Some(person.id), "joined");
    } else if issuer.settings().open {
        created(app, &new, &by_address, link).await?.commit().await?;
    } else {
        return Err(Denied::NotInvited);
    }
    tracing::info!(user = %person.id, issuer = link.issuer, "somebody new came in through an issuer");
    Ok(person.id)
}

/// The organisation that the issuer's people become members of.
async fn joined(app: &App, issuer: &Issuer) -> Result<Option<(OrgId, OrgRole)>, StoreError> {
    let Some((org, role)) = issuer.settings().joins.clone() else { return Ok(None) };
    if app.store().read_beside(&org).await?.organization().await?.is_none() {
        tracing::warn!(%org, issuer = %issuer.settings().id, "default_org: there is no such organisation");
        return Ok(None);
    }
    Ok(Some((org, role)))
}

async fn created(app: &App, new: &NewPerson, name: &Identity, link: &NewLinkedIdentity) -> Result<PersonTx, Denied> {
    let mut tx = app.store().person(new.id).await?;
    tx.create(new, std::slice::from_ref(name)).await.map_err(taken)?;
    tx.link_identity(link).await.map_err(taken)?;
    Ok(tx)
}

/// Somebody who is known accepts an invitation that is for them.
async fn accept_as(app: &App, user: UserId, email: Option<&Email>, text: &str) -> Result<(), Denied> {
    let (org, invitation) = read::open(app, text).await.map_err(ended)?;
    let mut tx = app.store().person(user).await?;
    let person = tx.found().await?.ok_or(Denied::SignedOut)?;
    if invitation.email != person.email && Some(&invitation.email) != email {
        return Err(Denied::OtherAddress);
    }
    let mut tx = tx.enter(&org).await?;
    match accept::take_up(&mut tx, &person, &invitation).await {
        Ok(()) => {
            tx.commit().await?;
            app.events().members_changed(&org, Some(user), "joined");
            Ok(())
        }
        // They are a member already, and come in as they are.
        Err(error) if error.code() == Code::Conflict => Ok(()),
        Err(error) => Err(ended(error)),
    }
}

fn taken(error: StoreError) -> Denied {
    match error {
        StoreError::Exists => Denied::IdentityTaken,
        other => other.into(),
    }
}

fn ended(error: ApiError) -> Denied {
    match error.code() {
        Code::NotFound => Denied::InvitationEnded,
        _ => Denied::Failed(error),
    }
}
