//! Refusals as HTTP replies: problems by RFC 9457.

use super::super::wire::{ProblemKind, RefusalDocument};
use super::super::writer::NotDone;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A problem that ends a request.
#[derive(Debug)]
pub(in crate::calendar) struct Problem(pub(super) Box<RefusalDocument>);

impl Problem {
    pub(super) fn new(
        status: u16,
        kind: ProblemKind,
        title: &str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem(Box::new(RefusalDocument::new(status, kind, title, detail.into())))
    }

    pub(super) fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(422, ProblemKind::BadRequest, "The request makes no sense", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(404, ProblemKind::NotFound, "There is no such thing", detail)
    }

    pub(super) fn denied(detail: impl Into<String>) -> Problem {
        Problem::new(403, ProblemKind::Denied, "Not allowed", detail)
    }

    pub(super) fn unknown() -> Problem {
        let detail = "no token or certificate that this calendar knows";
        Problem::new(401, ProblemKind::Unknown, "Who asks is not known", detail)
    }

    pub(super) fn busy() -> Problem {
        let detail = "too many requests wait; ask again in a moment";
        Problem::new(503, ProblemKind::Busy, "The calendar is busy", detail)
    }

    /// A failure of the database, in words that say nothing of this host.
    pub(super) fn store() -> Problem {
        let detail = "what was asked for could not be made durable; nothing was changed";
        Problem::new(503, ProblemKind::Store, "The calendar's database failed", detail)
    }
}

impl Problem {
    /// A database that cannot be read.
    pub(super) fn unread() -> Problem {
        let detail = "what was asked for stands in the database, which does not reply now";
        Problem::new(503, ProblemKind::Store, "The calendar's database failed", detail)
    }

    /// A change of which nobody said whether it was written.
    pub(super) fn in_doubt() -> Problem {
        let detail = "the calendar or its database went away while this was written: ask again \
                      with the same Idempotency-Key, or look what is there";
        Problem::new(503, ProblemKind::InDoubt, "Whether it was done is not known yet", detail)
    }
}

impl From<NotDone> for Problem {
    fn from(not: NotDone) -> Problem {
        match not {
            NotDone::Refused(document) => Problem(document),
            NotDone::KeyReused => Problem::new(
                422,
                ProblemKind::KeyReused,
                "The key belongs to another request",
                "this Idempotency-Key was used for another request: take a new one",
            ),
            NotDone::InDoubt => Problem::in_doubt(),
            NotDone::Store(error) => {
                let mut problem = Problem::store();
                if let Some(hint) = error.hint {
                    problem.0.detail += &format!("; whoever runs the calendar: {hint}");
                }
                problem
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_string(&self.0).unwrap_or_default();
        let mut response = (status, body).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
