//! What the bearer of a token may do.

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

#[cfg(test)]
mod tests {
    use super::*;

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
