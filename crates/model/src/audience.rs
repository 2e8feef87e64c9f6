//! Who looks at an organisation's toolsets: those who manage it see all, a member does not see what others keep private.

use crate::access::{OrgRole, Scope};
use crate::id::{OrgId, UserId};
use crate::installed::Toolset;
use crate::toolset::Visibility;

/// Whose eyes they are. What an audience does not see does not exist for it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Audience {
    /// Whoever manages the organisation, and the program itself.
    Everything,
    /// A member, and everything that works for it; none is a token of nobody.
    Member(Option<UserId>),
}

impl Audience {
    /// What somebody is an audience of. A token of a person counts as that person, whatever its scopes are: what its owner may see, it may
    /// use. In the embedded mode there is one person, and the tokens of nobody are theirs.
    pub fn of(org: &OrgId, role: OrgRole, user: Option<UserId>) -> Self {
        let only_person = *org == OrgId::local() && user.is_none();
        if only_person || role.scopes().contains(Scope::Manage) { Self::Everything } else { Self::Member(user) }
    }

    /// Whether a toolset is there for it.
    pub fn sees(self, toolset: &Toolset) -> bool {
        match self {
            Self::Everything => true,
            Self::Member(user) => {
                toolset.visibility != Visibility::Private || (user.is_some() && toolset.created_by == user)
            }
        }
    }

    /// The person whose private toolsets it sees beside what everybody sees; outer none: it sees all.
    pub fn only(self) -> Option<Option<UserId>> {
        match self {
            Self::Everything => None,
            Self::Member(user) => Some(user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use crate::toolset::SourceType;

    fn toolset(visibility: Visibility, created_by: Option<UserId>) -> Toolset {
        Toolset {
            id: "a".parse().unwrap(),
            name: "A".parse().unwrap(),
            version: "1.0.0".parse().unwrap(),
            description: None,
            enabled: true,
            user_mcp: false,
            installed_at: Timestamp::now(),
            updated_at: Timestamp::now(),
            source_type: SourceType::Local,
            source_ref: None,
            visibility,
            public_slug: None,
            published_at: None,
            adopted_from: None,
            created_by,
            updated_by: None,
            generation: None,
        }
    }

    #[test]
    fn what_is_private_is_its_creators_and_those_who_manage() {
        let (local, acme) = (OrgId::local(), "acme".parse::<OrgId>().unwrap());
        let (ada, bob) = (Some(UserId::generate()), Some(UserId::generate()));
        for (who, org, role, user, sees) in [
            ("an owner", &acme, OrgRole::Owner, bob, true),
            ("an admin", &acme, OrgRole::Admin, bob, true),
            ("who made it", &acme, OrgRole::Member, ada, true),
            ("another member", &acme, OrgRole::Member, bob, false),
            ("a token of nobody that only uses", &acme, OrgRole::Member, None, false),
            ("a token of nobody that manages", &acme, OrgRole::Owner, None, true),
            ("the agent's token in the embedded mode", &local, OrgRole::Member, None, true),
            ("a member of local", &local, OrgRole::Member, bob, false),
        ] {
            let audience = Audience::of(org, role, user);
            assert_eq!(audience.sees(&toolset(Visibility::Private, ada)), sees, "{who}");
            assert!(audience.sees(&toolset(Visibility::Org, ada)), "{who}");
            assert!(audience.sees(&toolset(Visibility::Public, ada)), "{who}");
        }
        // Nobody is not the same person as nobody.
        assert!(!Audience::of(&acme, OrgRole::Member, None).sees(&toolset(Visibility::Private, None)));
    }
}
