//! How a provider can fail us. Every text may be shown to who asked: no key is in it, whatever the provider repeats.

use std::time::Duration;

use kitbag_guard::dial::{FetchError, Refused, Unsent};

use crate::provider::Provider;

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waited {
    /// The first byte of the answer.
    FirstByte,
    /// The next piece of it.
    Idle,
    /// All of it.
    Total,
}

/// Why there is no answer, or no more of it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The rules for egress do not allow the provider's address.
    #[error(transparent)]
    NotAllowed(#[from] Refused),
    /// The key has letters in it that no header takes.
    #[error("the provider's key cannot be sent: it has a line end or another odd letter in it")]
    KeyUnusable,
    /// The provider does not take the key (401, 403).
    #[error("the provider refuses the key: {message}")]
    KeyRefused {
        /// In the provider's words.
        message: String,
    },
    /// The provider does not have the model, or the address is not the right one (404).
    #[error("the provider does not know the model: {message}")]
    ModelUnknown {
        /// In the provider's words.
        message: String,
    },
    /// The provider does not take the question; asked again it would not either.
    #[error("the provider does not take the question ({status}): {message}")]
    BadRequest {
        /// The status of HTTP.
        status: u16,
        /// In the provider's words.
        message: String,
    },
    /// It was asked too often, or too much (429).
    #[error("the provider was asked too often: {message}")]
    TooManyRequests {
        /// How long it wants to be left alone, if it says.
        retry_after: Option<Duration>,
        /// In the provider's words.
        message: String,
    },
    /// It does not answer, or not now.
    #[error("the provider is not available: {message}")]
    Unavailable {
        /// The status of HTTP; none if there is no connection.
        status: Option<u16>,
        /// How long it wants to be left alone, if it says.
        retry_after: Option<Duration>,
        /// In the provider's words, or why there is no connection.
        message: String,
    },
    /// The answer broke off before its end. What was heard of it is not all.
    #[error("the provider's answer broke off before its end: {0}")]
    CutOff(String),
    /// The answer is not what this wire has.
    #[error("the provider's answer cannot be understood: {0}")]
    Malformed(String),
    /// Nothing came for too long.
    #[error("the provider is too slow: {}", too_slow(*waited, *limit))]
    TooSlow {
        /// What was waited for.
        waited: Waited,
        /// How long.
        limit: Duration,
    },
    /// The answer is longer than allowed.
    #[error("the provider's answer is too long: more than {limit} {unit}")]
    TooLarge {
        /// How much is allowed.
        limit: usize,
        /// Of what.
        unit: &'static str,
    },
}

fn too_slow(waited: Waited, limit: Duration) -> String {
    match waited {
        Waited::FirstByte => format!("it did not begin to answer within {limit:?}"),
        Waited::Idle => format!("nothing came for {limit:?}"),
        Waited::Total => format!("it was not done within {limit:?}"),
    }
}

impl LlmError {
    /// Whether it may be over in a moment, so that asking again makes sense while nothing was given out.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::TooManyRequests { .. } | Self::CutOff(_) => true,
            Self::Unavailable { status, .. } => {
                status.is_none_or(|status| matches!(status, 500 | 502 | 503 | 504 | 529))
            }
            _ => false,
        }
    }

    /// How long the provider wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyRequests { retry_after, .. } | Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(crate) fn no_client(provider: &Provider, error: FetchError) -> Self {
        match error {
            FetchError::Refused(refused) => Self::NotAllowed(refused),
            other => Self::unreachable(provider, &other.to_string()),
        }
    }

    pub(crate) fn unsent(provider: &Provider, error: Unsent) -> Self {
        match error {
            Unsent::Refused(refused) => Self::NotAllowed(refused),
            Unsent::Unanswered(why) => Self::unreachable(provider, &why.reason),
        }
    }

    fn unreachable(provider: &Provider, reason: &str) -> Self {
        let message = provider.tame(&format!("`{}`: {reason}", provider.host()));
        Self::Unavailable { status: None, retry_after: None, message }
    }
}

/// A provider's no, by its status or in the middle of a stream.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Complaint {
    /// The status of HTTP, or the one that it would have been.
    pub(crate) status: u16,
    /// In its words.
    pub(crate) message: String,
    /// How long it wants to be left alone.
    pub(crate) retry_after: Option<Duration>,
}

impl Complaint {
    pub(crate) fn into_error(self, provider: &Provider) -> LlmError {
        let Self { status, retry_after, message } = self;
        let message = match provider.tame(message.trim()) {
            empty if empty.is_empty() => format!("it answered {status} without a word"),
            words => words,
        };
        match status {
            401 | 403 => LlmError::KeyRefused { message },
            404 => LlmError::ModelUnknown { message },
            429 => LlmError::TooManyRequests { retry_after, message },
            500.. => LlmError::Unavailable { status: Some(status), retry_after, message },
            300..=399 => LlmError::Malformed(format!("it answers {status} and wants to be asked elsewhere")),
            _ => LlmError::BadRequest { status, message },
        }
    }
}

/// Why a stream cannot be read on.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Broken {
    /// The provider says so.
    Complaint(Complaint),
    /// It is nothing that the wire has. The text has nothing of it.
    Malformed(String),
}

impl Broken {
    pub(crate) fn into_error(self, provider: &Provider) -> LlmError {
        match self {
            Self::Complaint(complaint) => complaint.into_error(provider),
            Self::Malformed(reason) => LlmError::Malformed(reason),
        }
    }
}
