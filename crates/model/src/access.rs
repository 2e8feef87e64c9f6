//! What the bearer of a token may do, and what a member of an organisation may.

use std::fmt;
use std::str::FromStr;

/// One right.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// List, read, call. What an agent gets.
    Use,
    /// Decide, trust, install, override, settings. What a person keeps, so that no agent approves its own calls.
    Manage,
}

impl Scope {
    /// Every scope there is, in the order they are written.
    pub const ALL: [Self; 2] = [Self::Use, Self::Manage];

    /// As it is written in the API and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::Manage => "manage",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no scope.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown scope; the scopes are use and manage")]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(UnknownScope)
    }
}

/// The rights of one token. Neither scope includes the other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Scopes {
    r#use: bool,
    manage: bool,
}

impl Scopes {
    /// Both.
    pub const ALL: Self = Self { r#use: true, manage: true };

    /// Whether `scope` is among them.
    pub fn contains(self, scope: Scope) -> bool {
        match scope {
            Scope::Use => self.r#use,
            Scope::Manage => self.manage,
        }
    }

    /// Whether there is no right at all.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Those that both have.
    pub fn and(self, other: Self) -> Self {
        Self { r#use: self.r#use && other.r#use, manage: self.manage && other.manage }
    }

    /// The scopes, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::default(), |mut all, scope| {
            match scope {
                Scope::Use => all.r#use = true,
                Scope::Manage => all.manage = true,
            }
            all
        })
    }
}

/// Words with a space between, as OAuth writes scopes.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Scope::as_str).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        text.split_ascii_whitespace().map(str::parse).collect()
    }
}

/// What a member is in an organisation. Each may do all that the ones behind it may.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum OrgRole {
    /// Makes and unmakes owners, and everything below.
    Owner,
    /// Writes: toolsets, trust, settings, members, the gallery.
    Admin,
    /// Reads, and uses tools.
    Member,
}

impl OrgRole {
    /// Every role there is, the highest first.
    pub const ALL: [Self; 3] = [Self::Owner, Self::Admin, Self::Member];

    /// As it is written in the API and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Member => "member",
        }
    }

    /// Whether it may change what belongs to the organisation.
    pub fn manages(self) -> bool {
        self != Self::Member
    }

    /// The most that a token of somebody with this role may do.
    pub fn scopes(self) -> Scopes {
        if self.manages() { Scopes::ALL } else { Scopes { r#use: true, manage: false } }
    }
}

impl fmt::Display for OrgRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown role; the roles are owner, admin and member")]
pub struct UnknownRole;

impl FromStr for OrgRole {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_bounds_the_scopes_of_its_tokens() {
        assert_eq!(OrgRole::Admin.scopes().and(Scopes::ALL), Scopes::ALL);
        assert_eq!(OrgRole::Member.scopes().and(Scopes::ALL).to_string(), "use");
        assert_eq!(OrgRole::Member.scopes().and("manage".parse().expect("a scope")), Scopes::default());
        for role in OrgRole::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert_eq!("Owner".parse::<OrgRole>(), Err(UnknownRole));
    }

    #[test]
    fn written_and_read() {
        assert_eq!(Scopes::ALL.to_string(), "use manage");
        assert_eq!("manage use".parse(), Ok(Scopes::ALL));
        assert_eq!("".parse(), Ok(Scopes::default()));
        assert_eq!("use Manage".parse::<Scopes>(), Err(UnknownScope));
    }

    #[test]
    fn no_scope_includes_the_other() {
        let only_use: Scopes = [Scope::Use].into_iter().collect();
        assert!(only_use.contains(Scope::Use) && !only_use.contains(Scope::Manage));
        let only_manage: Scopes = [Scope::Manage].into_iter().collect();
        assert!(only_manage.contains(Scope::Manage) && !only_manage.contains(Scope::Use));
    }
}
