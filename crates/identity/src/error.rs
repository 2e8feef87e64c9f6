//! How an issuer can fail us. The texts are for the operator's log; what a person is told is somebody else's to say.

/// Why an issuer's word was not had, or not believed. No text of it has a token, a code or a secret in it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IssuerError {
    /// It does not answer, or not now.
    #[error("the issuer does not answer: {0}")]
    Unreachable(String),
    /// What it says of itself cannot be used.
    #[error("the issuer's description is of no use: {0}")]
    Description(String),
    /// It said no: the person did not want to, or the client is not what it expects.
    #[error("the issuer refused: {0}")]
    Refused(String),
    /// What it signed, or somebody else did, is not believed.
    #[error("not believed: {0}")]
    Invalid(String),
    /// It is not set up here so that this could work.
    #[error("the issuer is not set up for this: {0}")]
    Settings(String),
}

impl IssuerError {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid(reason.into())
    }
}

/// A stranger's words, as they may stand in a log: one short line of plain letters.
pub(crate) fn tame(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(120).collect()
}
