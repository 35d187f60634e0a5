//! The table of error codes is sorted, and each code says whether trying again is of use.

use super::*;

#[test]
fn slugs_are_sorted_well_formed_and_found_again() {
    assert!(ErrorCode::ALL.windows(2).all(|pair| pair[0].slug() < pair[1].slug()));
    for &code in ErrorCode::ALL {
        let is_slug = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(code.slug().bytes().all(is_slug), "{code}");
        assert_eq!(ErrorCode::from_slug(code.slug()), Some(code));
        assert!(!code.meaning().is_empty() && !code.faults().is_empty(), "{code}");
    }
    assert_eq!(ErrorCode::from_slug("of-a-later-version"), None);
    let own = ErrorCode::Other("my-store-is-shut");
    assert_eq!((own.to_string().as_str(), own.retry()), ("my-store-is-shut", Retry::Never));
}

#[test]
fn what_an_outage_breaks_is_tried_again() {
    for (code, retry) in [
        (ErrorCode::ChannelLost, Retry::Now),
        (ErrorCode::DataConnection, Retry::Now),
        (ErrorCode::DigestMismatch, Retry::Now),
        (ErrorCode::ControlClosed, Retry::After),
        (ErrorCode::Unreachable, Retry::After),
        (ErrorCode::PeerSilent, Retry::After),
        (ErrorCode::ServerClosing, Retry::After),
        (ErrorCode::Busy, Retry::After),
        (ErrorCode::LoginRefused, Retry::Never),
        (ErrorCode::PathNotFound, Retry::Never),
        (ErrorCode::NoSpace, Retry::Never),
        (ErrorCode::Usage, Retry::Never),
    ] {
        assert_eq!(code.retry(), retry, "{code}");
    }
}

#[test]
fn a_code_stands_as_its_slug_in_json() {
    let json = serde_json::to_string(&ErrorCode::NoRdmaPath).expect("a string");
    assert_eq!(json, "\"no-rdma-path\"");
}
