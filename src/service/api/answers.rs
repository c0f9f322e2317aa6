//! Responses of the API: extractors, JSON, JSON Lines, and error bodies.

use axum::Json as AxumJson;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::header::{ACCEPT, CONTENT_TYPE, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::store::{FoundSite, StoreError};
use crate::verdicts::{DecisionView, JudgedSiteView};
use crate::web::{SiteId, sanitized_json};

/// The content type of JSON Lines.
pub(super) const JSON_LINES: &str = "application/x-ndjson";

/// An error response.
#[derive(Debug)]
pub(super) struct ApiProblem {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// `Retry-After`, in seconds.
    retry_after: Option<u64>,
}

/// The body of an error response
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProblemBody {
    error: ProblemDetail,
}

#[derive(Debug, Serialize, ToSchema)]
struct ProblemDetail {
    /// A stable code, for programs
    code: &'static str,
    /// What is wrong and what to do, for people
    message: String,
}

/// axum's `Json`: a body that is refused with a [`ApiProblem`], or a response without control characters.
pub(super) struct Json<T>(pub(super) T);

/// axum's `Query`, refused with a [`ApiProblem`].
pub(super) struct Query<T>(pub(super) T);

/// axum's `Path`, refused with a [`ApiProblem`].
pub(super) struct Path<T>(pub(super) T);

/// A judged site, in short
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct SiteLine {
    /// The topic it was judged for
    topic: String,
    host: String,
    #[serde(flatten)]
    judged: JudgedSiteView,
    decision: Option<DecisionView>,
    /// Whether it is on the list of the topic
    listed: bool,
}

// === impl ApiProblem ===

impl ApiProblem {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        Self {
            status,
            code,
            message,
            retry_after: None,
        }
    }

    pub(super) fn bad_request(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    pub(super) fn not_found(message: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    pub(super) fn conflict(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// A cursor of the feed belongs to another store, so the client must begin again at 0.
    pub(super) fn other_store(message: String) -> Self {
        Self::new(StatusCode::CONFLICT, "other-store", message)
    }

    pub(super) fn starting(message: String) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "starting", message)
        }
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message.to_owned())
    }

    pub(super) fn forbidden(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message.to_owned())
    }

    pub(super) fn wrong_method() -> Self {
        let message = "this method is not supported here; the header `allow` lists those that are";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "wrong-method",
            message.to_owned(),
        )
    }

    pub(super) fn wrong_host() -> Self {
        let message = "this is not a host name of the daemon: use its address or localhost, or \
                       add the name to `hosts` in [api]";
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong-host",
            message.to_owned(),
        )
    }

    pub(super) fn too_many(retry_after: u64) -> Self {
        let message = format!("too many requests; retry in {retry_after} s");
        Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", message)
        }
    }

    pub(super) fn too_busy() -> Self {
        let message = "too many pages are being tried; retry in a second".to_owned();
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
        }
    }

    pub(super) fn too_slow() -> Self {
        let message = "the request timed out; a change may still have been made, so check before \
                       you retry";
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", message.to_owned())
    }

    pub(super) fn unreachable(message: String) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "no-page", message)
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the API cannot use the store");
        // The cause is for the operator only: it is in the log.
        let message = "the store cannot be used; see the log of the daemon";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store-unusable",
            message.to_owned(),
        )
    }
}

impl From<QueryRejection> for ApiProblem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<PathRejection> for ApiProblem {
    fn from(rejection: PathRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<JsonRejection> for ApiProblem {
    fn from(rejection: JsonRejection) -> Self {
        let (status, message) = (rejection.status(), rejection.body_text());
        let code = match status {
            StatusCode::PAYLOAD_TOO_LARGE => "too-large",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "not-json",
            _ => return Self::bad_request(message),
        };
        Self::new(status, code, message)
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            error: ProblemDetail {
                code: self.code,
                message: self.message,
            },
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

// === impl Json ===

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], json(&self.0)).into_response()
    }
}

fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value);
    sanitized_json(json.expect("all responses can be written as JSON"))
}

// === impl extractors ===

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        let extract::Query(query) = extract::Query::from_request_parts(parts, state).await?;
        Ok(Self(query))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        let extract::Path(path) = extract::Path::from_request_parts(parts, state).await?;
        Ok(Self(path))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiProblem> {
        let AxumJson(body) = AxumJson::from_request(request, state).await?;
        Ok(Self(body))
    }
}

// === impl views ===

impl SiteLine {
    pub(super) fn new(topic: &str, found: FoundSite) -> Self {
        Self {
            topic: topic.to_owned(),
            host: found.judged.site.to_string(),
            judged: JudgedSiteView::from(&found.judged),
            decision: found.decision.map(DecisionView::from),
            listed: found.is_listed,
        }
    }
}

/// Parses a host of a path or a query.
pub(super) fn site(host: &str) -> Result<SiteId, ApiProblem> {
    let site = host.parse();
    site.map_err(|error| ApiProblem::bad_request(format!("`{host}` is not a host: {error}")))
}

/// Whether the client accepts JSON Lines.
pub(super) fn wants_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains(JSON_LINES))
}

/// A response in JSON Lines, with a `Link` to the next batch if there is one.
pub(super) fn lines<T: Serialize>(
    values: impl IntoIterator<Item = T>,
    next: Option<&str>,
) -> Response {
    let mut body = String::new();
    for value in values {
        body.push_str(&json(&value));
        body.push('\n');
    }
    let mut response = ([(CONTENT_TYPE, JSON_LINES)], body).into_response();
    let link = next.map(|next| format!("<{next}>; rel=\"next\""));
    if let Some(link) = link.and_then(|link| HeaderValue::from_str(&link).ok()) {
        response.headers_mut().insert(LINK, link);
    }
    response
}
