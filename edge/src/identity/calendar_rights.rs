//! What an identity may do at a calendar of bandwidth; which of that its network has is the
//! calendar's to say.

use super::file::quantity;
use farline_core::units::{Bytes, Rate};
use serde::{Deserialize, Serialize};

/// What kind of identity it is at a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarRole {
    /// May do all, and see all.
    Admin,
    /// Books within its rights, and sees its own project.
    User,
    /// Makes circuits: sees what is provisioned, reports of circuits, and nothing else.
    Agent,
    /// Sees its own project, and changes nothing.
    Viewer,
}

/// What somebody may do at a calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarRights {
    /// Whose quotas count.
    pub project: String,
    /// What kind it is.
    pub role: CalendarRole,
    /// Sites at which its circuits may begin and end; `*` is all.
    pub endpoints: Vec<String>,
    /// The highest rate of one reservation.
    pub highest_rate: Option<Rate>,
    /// The most that one reservation may carry.
    pub highest_volume: Option<Bytes>,
    /// When its circuits may begin at the earliest, by RFC 3339.
    pub not_before: Option<String>,
    /// When they have to end, by RFC 3339.
    pub not_after: Option<String>,
}

/// What a token lets its bearer do at a calendar; the second is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "tokens are shown over TLS alone"))]
pub(super) enum CalendarScope {
    /// `calendar.read`
    Read,
    /// `calendar.book`
    Book,
}

#[cfg(feature = "tls")]
impl CalendarScope {
    pub(super) fn read(scope: &str) -> Option<CalendarScope> {
        match scope {
            "calendar.read" => Some(CalendarScope::Read),
            "calendar.book" => Some(CalendarScope::Book),
            _ => None,
        }
    }
}

impl CalendarRights {
    /// What of them a token with this scope has.
    pub(super) fn within(self, scope: Option<CalendarScope>) -> Option<CalendarRights> {
        Some(match scope? {
            CalendarScope::Book => self,
            CalendarScope::Read => CalendarRights { role: CalendarRole::Viewer, ..self },
        })
    }
}

/// `calendar = { project = "climate", role = "user", endpoints = ["*"] }`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CalendarRightsFile {
    /// See [`CalendarRights::project`].
    pub project: String,
    /// See [`CalendarRights::role`].
    pub role: CalendarRole,
    /// See [`CalendarRights::endpoints`].
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// A rate such as `5G`, see [`CalendarRights::highest_rate`].
    pub highest_rate: Option<String>,
    /// A size such as `40TB`, see [`CalendarRights::highest_volume`].
    pub highest_volume: Option<String>,
    /// See [`CalendarRights::not_before`].
    pub not_before: Option<String>,
    /// See [`CalendarRights::not_after`].
    pub not_after: Option<String>,
}

impl CalendarRightsFile {
    pub(super) fn build(self) -> Result<CalendarRights, String> {
        Ok(CalendarRights {
            project: self.project,
            role: self.role,
            endpoints: self.endpoints,
            highest_rate: quantity(self.highest_rate)?,
            highest_volume: quantity(self.highest_volume)?,
            not_before: self.not_before,
            not_after: self.not_after,
        })
    }
}
