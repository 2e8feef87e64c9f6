//! What tokens say, and the checks that all of them share.

use std::time::SystemTime;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::{IssuerError, tame};

/// How far clocks may be apart, in seconds.
const SKEW: f64 = 60.0;
/// OpenID Connect allows 255; some issuers do not count.
const LONGEST_SUBJECT: usize = 512;

/// What may stand in a token that is read here.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    #[serde(default, deserialize_with = "one_or_many")]
    pub(crate) aud: Vec<String>,
    pub(crate) exp: f64,
    #[serde(default)]
    pub(crate) iat: Option<f64>,
    #[serde(default)]
    pub(crate) nbf: Option<f64>,
    #[serde(default)]
    pub(crate) nonce: Option<String>,
    #[serde(default)]
    pub(crate) azp: Option<String>,
    #[serde(default)]
    pub(crate) client_id: Option<String>,
    #[serde(default, deserialize_with = "words")]
    pub(crate) scope: Vec<String>,
    #[serde(default, deserialize_with = "words")]
    pub(crate) scp: Vec<String>,
    /// What the token is bound to beside its text.
    #[serde(default)]
    pub(crate) cnf: Option<Value>,
    #[serde(default)]
    pub(crate) at_hash: Option<Value>,
    #[serde(flatten)]
    pub(crate) person: PersonClaims,
}

/// What is said of a person, in an ID token or on its own.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PersonClaims {
    #[serde(default)]
    pub(crate) email: Option<String>,
    /// Some write it as text.
    #[serde(default)]
    pub(crate) email_verified: Option<Value>,
    #[serde(default)]
    pub(crate) name: Option<String>,
}

impl PersonClaims {
    pub(crate) fn is_verified(&self) -> bool {
        self.email_verified.as_ref().is_some_and(|value| *value == Value::Bool(true) || value.as_str() == Some("true"))
    }
}

impl Claims {
    /// Who says it, of whom, and when.
    pub(crate) fn check(&self, issuer: &str) -> Result<(), IssuerError> {
        if self.iss != issuer {
            return Err(IssuerError::invalid(format!("it is of the issuer {:?}", tame(&self.iss))));
        }
        if self.sub.is_empty() || self.sub.len() > LONGEST_SUBJECT {
            return Err(IssuerError::invalid("its subject has no name that is used here"));
        }
        let now = now();
        if self.exp <= now - SKEW {
            return Err(IssuerError::invalid("its time is up"));
        }
        if self.nbf.is_some_and(|start| start > now + SKEW) || self.iat.is_some_and(|start| start > now + SKEW) {
            return Err(IssuerError::invalid("its time has not come"));
        }
        Ok(())
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(f64::MAX, |time| time.as_secs_f64())
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// A list, or words with spaces between.
fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(text) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        OneOrMany::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Claims {
        serde_json::from_value(value).expect("claims")
    }

    #[test]
    fn times() {
        let at = |exp: f64, iat: f64, nbf: Option<f64>| {
            let claims = read(
                json!({ "iss": "i", "sub": "s", "exp": now() + exp, "iat": now() + iat, "nbf": nbf.map(|nbf| now() + nbf) }),
            );
            claims.check("i").is_ok()
        };
        assert!(at(100.0, -5.0, None) && at(-30.0, -100.0, None) && at(100.0, 30.0, Some(30.0)));
        assert!(!at(-90.0, -100.0, None) && !at(100.0, 90.0, None) && !at(100.0, 0.0, Some(90.0)));
        assert!(read(json!({ "iss": "i", "sub": "s", "exp": 1e300 })).check("i").is_ok());
        assert!(serde_json::from_value::<Claims>(json!({ "iss": "i", "sub": "s" })).is_err(), "an end is needed");
    }

    #[test]
    fn names() {
        let claims = read(json!({ "iss": "i", "sub": "s", "exp": 1e12, "aud": "a", "scope": "a  b", "scp": ["c"] }));
        assert_eq!((claims.aud.len(), claims.scope.len(), claims.scp.len()), (1, 2, 1));
        assert!(claims.check("j").is_err());
        assert!(read(json!({ "iss": "i", "sub": "", "exp": 1e12 })).check("i").is_err());
        let verified = |value: Value| {
            read(json!({ "iss": "i", "sub": "s", "exp": 1, "email_verified": value })).person.is_verified()
        };
        assert!(verified(json!(true)) && verified(json!("true")));
        for no in [json!(false), json!("false"), json!("TRUE"), json!(1), json!(null), json!({})] {
            assert!(!verified(no.clone()), "{no}");
        }
    }
}
