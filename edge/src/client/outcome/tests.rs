//! What a copy is said to be limited by.

use super::*;

/// What is said of a copy between two others that took ten seconds, of which it was set up and
/// waited for so long, where the two `said` what limited them.
fn between(set_up_s: u64, waited_s: u64, said: [Option<&str>; 2]) -> Outcome {
    let moving = Span::from_secs(10 - set_up_s - waited_s);
    let mut stats = CopyStats {
        direction: DataDirection::Elsewhere,
        moving,
        waited: Span::from_secs(waited_s),
        last_failure: Some("at farline://b:2811/x: no place".to_owned()),
        ..CopyStats::default()
    };
    let server = |(name, ms): (&str, u64)| OtherServer {
        name: name.to_owned(),
        opening: Span::from_millis(ms),
        limited: None,
    };
    let of = |name: &str| SaidLimit { name: name.to_owned(), evidence: "90 %".to_owned() };
    stats.meet_others([("a:2811", 30), ("b:2811", 700)].map(server));
    stats.hear_others(said.map(|said| said.map(of)));
    stats.outcome(Span::from_secs(10), Span::ZERO, 0)
}

#[test]
fn of_two_other_hosts_the_one_is_named() {
    let words = |sender, receiver| between(1, 1, [sender, receiver]).limited_in_words();
    assert_eq!(
        words(Some("disk_read"), Some("network")),
        "reading the source (at the sending node a:2811: 90 %)"
    );
    assert_eq!(
        words(Some("network"), Some("cpu")),
        "a node's processor (at the receiving node b:2811: 90 %)"
    );
    let waited = between(1, 8, [None, None]);
    assert_eq!(waited.limited_by, Limit::Outage);
    let evidence = &waited.limited_evidence;
    assert!(evidence.ends_with(", after: at farline://b:2811/x: no place"), "{evidence}");
    let set_up = between(8, 1, [None, None]);
    assert_eq!(set_up.limited_by, Limit::SetUp);
    let each = "30.0 ms for a session with the sending node a:2811, 700 ms for one with the \
        receiving node b:2811";
    let evidence = set_up.limited_evidence;
    assert!(evidence.ends_with(each), "{evidence}");
}

#[test]
fn of_several_sources_the_first_pair_that_speaks_is_heard() {
    let server = |name: &str| OtherServer { name: name.to_owned(), ..OtherServer::default() };
    let of = |name: &str| SaidLimit { name: name.to_owned(), evidence: String::new() };
    let mut stats = CopyStats::default();
    for (name, said) in [("silent", None), ("first", Some("loss")), ("second", Some("cpu"))] {
        stats.meet_others([name, "to"].map(server));
        stats.hear_others([said.map(of), None]);
    }
    let [sender, _] = stats.others.expect("a pair");
    assert_eq!((&sender.name[..], sender.said()), ("first", Some(("loss", ""))));
}
