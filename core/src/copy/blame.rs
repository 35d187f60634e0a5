//! Whose word stands when both ends of a transfer complain: a lost channel is the symptom of what
//! the other end says.

use crate::units::{Error, ErrorCode, Span, Time};

/// How long the peer's word is worth waiting for when a channel was lost, besides a round trip.
const WORD_TIMEOUT: Span = Span::from_secs(2);

/// What is known of the reason why data stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// This is it.
    Settled(Error),
    /// The peer, which fails by closing its channels, has not said why yet. What it says until then
    /// stands, else this error.
    Unsettled {
        /// What was noticed here.
        error: Error,
        /// How long its word is worth waiting for.
        until: Time,
    },
}

impl Blame {
    /// Why data stopped at `now`: `error` is what the threads that move it noticed, `told` what the
    /// peer said meanwhile on its control connection, which is `rtt` long, or is gone.
    pub fn of(now: Time, error: Error, told: Option<Error>, rtt: Option<Span>) -> Blame {
        match (told, rtt) {
            _ if error.code != ErrorCode::ChannelLost => Blame::Settled(error),
            (Some(told), _) => Blame::Settled(told),
            (None, Some(rtt)) => Blame::Unsettled { error, until: now + WORD_TIMEOUT + rtt },
            (None, None) => Blame::Settled(error),
        }
    }
}

/// Of the errors of two servers that move data between them the one that says most: a lost
/// connection is the other end's symptom, and a refusal without a known reason is less than one
/// with it.
pub fn of_two_servers(first: Error, second: Option<Error>) -> Error {
    match second {
        Some(second) if says(&second) > says(&first) => second,
        _ => first,
    }
}

/// How much an error of one of two servers says of what went wrong.
fn says(error: &Error) -> u8 {
    match error.code {
        ErrorCode::ChannelLost
        | ErrorCode::DataConnection
        | ErrorCode::Aborted
        | ErrorCode::Incomplete => 0,
        // What servers say in words alone, a connection that was closed among them.
        ErrorCode::Failed | ErrorCode::Refused | ErrorCode::Rejected => 1,
        _ => 2,
    }
}
