//! Errors as the API tells them: `{"code","message","details"?}` with a fitting status. Codes are stable, messages are
//! for people. What went wrong inside is logged with the request's id and never told.

use std::fmt::Display;

use axum::Json;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use kitbag_formats::bundle;
use kitbag_store::StoreError;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The codes that callers rely on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Code {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    ToolsetNotFound,
    ToolNotFound,
    InvalidArguments,
    InvalidBundle,
    InvalidManifest,
    InvalidSkillBundle,
    InvalidMcpPlaceholder,
    /// Two servers of one toolset have one name.
    McpServerNameConflict,
    AmbiguousServerId,
    PublicSlugConflict,
    PairingTokenInvalid,
    PairingTokenExpired,
    McpServerNotConnected,
    NeedsTrust,
    /// A tool is not what was accepted.
    Quarantined,
    Conflict,
    PreconditionFailed,
    MethodNotAllowed,
    Timeout,
    PayloadTooLarge,
    RangeNotSatisfiable,
    UnsupportedMediaType,
    QuotaExceeded,
    RateLimited,
    BlobCorrupt,
    Internal,
    Unavailable,
    /// The organisation gave no key for the model.
    LlmSecretRequired,
    LlmUnavailable,
    ToolsetBuilderSessionNotFound,
    ToolsetBuilderSessionFinalized,
    ToolsetBuilderSessionFull,
    ToolsetBuilderInvalidModelOutput,
}

impl Code {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BAD_REQUEST",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Forbidden => "FORBIDDEN",
            Self::NotFound => "NOT_FOUND",
            Self::ToolsetNotFound => "TOOLSET_NOT_FOUND",
            Self::ToolNotFound => "TOOL_NOT_FOUND",
            Self::InvalidArguments => "INVALID_ARGUMENTS",
            Self::InvalidBundle => "INVALID_BUNDLE",
            Self::InvalidManifest => "INVALID_MANIFEST",
            Self::InvalidSkillBundle => "INVALID_SKILL_BUNDLE",
            Self::InvalidMcpPlaceholder => "INVALID_MCP_PLACEHOLDER",
            Self::McpServerNameConflict => "MCP_SERVER_NAME_CONFLICT",
            Self::AmbiguousServerId => "AMBIGUOUS_SERVER_ID",
            Self::PublicSlugConflict => "PUBLIC_SLUG_CONFLICT",
            Self::PairingTokenInvalid => "PAIRING_TOKEN_INVALID",
            Self::PairingTokenExpired => "PAIRING_TOKEN_EXPIRED",
            Self::McpServerNotConnected => "MCP_SERVER_NOT_CONNECTED",
            Self::NeedsTrust => "NEEDS_TRUST",
            Self::Quarantined => "QUARANTINED",
            Self::Conflict => "CONFLICT",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::QuotaExceeded => "QUOTA_EXCEEDED",
            Self::RateLimited => "RATE_LIMITED",
            Self::BlobCorrupt => "BLOB_CORRUPT",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::Timeout => "TIMEOUT",
            Self::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
            Self::RangeNotSatisfiable => "RANGE_NOT_SATISFIABLE",
            Self::UnsupportedMediaType => "UNSUPPORTED_MEDIA_TYPE",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::LlmSecretRequired => "LLM_SECRET_REQUIRED",
            Self::LlmUnavailable => "LLM_UNAVAILABLE",
            Self::ToolsetBuilderSessionNotFound => "TOOLSET_BUILDER_SESSION_NOT_FOUND",
            Self::ToolsetBuilderSessionFinalized => "TOOLSET_BUILDER_SESSION_FINALIZED",
            Self::ToolsetBuilderSessionFull => "TOOLSET_BUILDER_SESSION_FULL",
            Self::ToolsetBuilderInvalidModelOutput => "TOOLSET_BUILDER_INVALID_MODEL_OUTPUT",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest
            | Self::InvalidArguments
            | Self::InvalidBundle
            | Self::InvalidManifest
            | Self::InvalidSkillBundle
            | Self::InvalidMcpPlaceholder
            | Self::McpServerNameConflict
            | Self::ToolsetBuilderInvalidModelOutput
            | Self::PairingTokenExpired => StatusCode::BAD_REQUEST,
            Self::Unauthorized | Self::PairingTokenInvalid => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound | Self::ToolsetNotFound | Self::ToolNotFound | Self::ToolsetBuilderSessionNotFound => {
                StatusCode::NOT_FOUND
            }
            Self::Conflict
            | Self::AmbiguousServerId
            | Self::PublicSlugConflict
            | Self::McpServerNotConnected
            | Self::NeedsTrust
            | Self::ToolsetBuilderSessionFinalized
            | Self::ToolsetBuilderSessionFull
            | Self::Quarantined => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::QuotaExceeded | Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::BlobCorrupt => StatusCode::INTERNAL_SERVER_ERROR,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::LlmSecretRequired => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable | Self::LlmUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<bundle::Code> for Code {
    fn from(code: bundle::Code) -> Self {
        match code {
            bundle::Code::InvalidBundle => Self::InvalidBundle,
            bundle::Code::InvalidManifest => Self::InvalidManifest,
            bundle::Code::InvalidSkillBundle => Self::InvalidSkillBundle,
            bundle::Code::InvalidMcpPlaceholder => Self::InvalidMcpPlaceholder,
        }
    }
}

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct ApiError {
    code: Code,
    message: String,
    details: Option<Value>,
    /// After how many seconds trying again may help.
    retry_after: Option<u32>,
    /// What to bring, as `WWW-Authenticate` tells it, where that is more than a token. Boxed, since few have it and all carry its room.
    challenge: Option<Box<HeaderValue>>,
}

/// An error as it is written.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorBody {
    /// A stable code, such as `NOT_FOUND`.
    code: String,
    /// What was wrong, where, and what is allowed.
    message: String,
    /// More, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retry_after: None, challenge: None }
    }

    /// Whether something that this server needs is away, so that nobody can say more.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self.code, Code::Unavailable)
    }

    /// The same, with more for programs.
    pub(crate) fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// The same, and after how many seconds trying again may help.
    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The same, and what to bring instead.
    pub(crate) fn challenged(self, challenge: &str) -> Self {
        Self { challenge: HeaderValue::from_str(challenge).ok().map(Box::new), ..self }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The caller's input is wrong at `field`.
    pub(crate) fn invalid(field: &str, reason: impl Display) -> Self {
        let details = serde_json::json!({ "field": field });
        Self::new(Code::BadRequest, format!("{field}: {reason}")).with_details(details)
    }

    /// There is no such thing, or it is not the caller's: the two must look the same.
    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no {what} {id:?}"))
    }

    /// What it says, in words.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// As it is written, for an answer that has it as a part.
    pub(crate) fn into_body(self) -> ErrorBody {
        ErrorBody { code: self.code.as_str().to_owned(), message: self.message, details: self.details }
    }

    /// What it says, for who tells it in another form.
    pub(crate) fn into_told(self) -> (Code, String, Option<Value>) {
        (self.code, self.message, self.details)
    }

    /// A defect. It is logged here, once.
    pub(crate) fn internal(cause: impl Display) -> Self {
        tracing::error!(%cause, "a request failed inside");
        Self::new(Code::Internal, "something went wrong inside; the log has the cause under this answer's x-request-id")
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(cause) => {
                tracing::warn!(%cause, "the database is not available");
                Self::new(Code::Unavailable, "the database does not answer; try again")
            }
            StoreError::LeaseLost => Self::new(Code::Unavailable, "another server took over here meanwhile; try again"),
            StoreError::Full => Self::new(Code::Unavailable, "the database's disk is full: nothing was written"),
            defect => Self::internal(defect),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(mut self) -> Response {
        let challenge = self.challenge.take().map(|challenge| *challenge);
        let (code, retry_after) = (self.code, self.retry_after);
        let mut response = (code.status(), Json(self.into_body())).into_response();
        match code {
            Code::Unauthorized => {
                let challenge = challenge.unwrap_or(HeaderValue::from_static("Bearer realm=\"kitbag\""));
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            Code::Forbidden | Code::BadRequest => {
                response.headers_mut().extend(challenge.map(|challenge| (header::WWW_AUTHENTICATE, challenge)));
            }
            Code::Unavailable | Code::LlmUnavailable | Code::RateLimited | Code::QuotaExceeded => {
                let seconds = HeaderValue::from(retry_after.unwrap_or(1));
                response.headers_mut().insert(header::RETRY_AFTER, seconds);
            }
            _ => {}
        }
        response
    }
}

pub(crate) async fn no_such_route(uri: Uri) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no route {:?}; /docs lists them", uri.path()))
}

pub(crate) async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    ApiError::new(
        Code::MethodNotAllowed,
        format!("{method} is not for {:?}; the Allow header lists what is", uri.path()),
    )
}
