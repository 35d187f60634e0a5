//! Ranking and falling back, with drivers that exist only here.

use super::*;
use crate::channels::driver::{Agreed, Dialer, Session};
use crate::channels::{ssh, tcp, tls};
use farline_core::units::{Bytes, ErrorCode};

/// A driver of one fabric, which this host has or has not.
struct Fabric {
    is_here: bool,
}

impl Transport for Fabric {
    fn available(&self) -> Result<(), Error> {
        let none = || Error::new(Fault::Here, ErrorCode::NoRdma, "no device").hint("install one");
        self.is_here.then_some(()).ok_or_else(none)
    }

    fn agree(&self, values: &Values, peer: &Peer<'_>) -> Result<Agreed, Error> {
        if !(peer.has)("FABRIC") {
            let message = format!("{} has no fabric", peer.server);
            return Err(Error::new(Fault::There, ErrorCode::NoRdma, message));
        }
        Ok(Agreed { values: values.clone(), notes: vec!["slower than asked".to_owned()] })
    }

    fn dialer(&self, _: &Session, _: &Values) -> Result<Arc<dyn Dialer>, Error> {
        Err(Error::new(Fault::Bug, ErrorCode::Unsupported, "nobody dials here"))
    }
}

fn registry(is_here: bool, carries: Carries) -> Registry {
    let mut registry = Registry::new();
    for driver in [tcp::driver(), tls::driver(), ssh::driver()] {
        registry.add(driver).expect("a new name");
    }
    let mut capabilities = Capabilities::new(carries);
    (capabilities.same_fabric, capabilities.needs_key) = (true, true);
    capabilities.max_block = Some(Bytes::mib(1));
    let role = Role::Channel(Box::new(Fabric { is_here }));
    let mut fabric = Driver::new("fabric", &["fabric"], "", capabilities, role);
    (fabric.title, fabric.features) = ("Fabric", &["FABRIC"]);
    registry.add(fabric).expect("a new name");
    registry
}

fn need<'a>(asked: Option<&'a Stack>, has: &'a dyn Fn(&str) -> bool) -> Need<'a> {
    Need {
        asked,
        encrypt: false,
        keyed: true,
        tunnel: Tunnelled::No,
        peer: Peer { server: "dtn2", has },
    }
}

fn shown(offers: &Offers) -> Vec<(String, Route)> {
    offers.ranked.iter().map(|offer| (offer.stack.to_string(), offer.route)).collect()
}

fn ranked(registry: &Registry, need: &Need<'_>) -> Vec<(String, Route)> {
    shown(&registry.offers(need).expect("a way"))
}

fn ways(expected: &[(&str, Route)]) -> Vec<(String, Route)> {
    expected.iter().map(|&(stack, route)| (stack.to_owned(), route)).collect()
}

const ALL: &dyn Fn(&str) -> bool = &|_| true;
const NOTHING: &dyn Fn(&str) -> bool = &|_| false;

#[test]
fn nothing_asked_for_goes_straight_then_to_the_control_port() {
    let registry = registry(true, Carries::RegisteredSlots);
    let expected = ways(&[("tcp", Route::Straight), ("tcp", Route::ControlPort)]);
    assert_eq!(ranked(&registry, &need(None, ALL)), expected, "no fabric unless asked for");
    let stock = Need { keyed: false, ..need(None, NOTHING) };
    assert_eq!(ranked(&registry, &stock), ways(&[("tcp", Route::Straight)]));
}

#[test]
fn encryption_puts_a_layer_over_every_offer() {
    let registry = registry(true, Carries::OrderedBytes);
    let asked = registry.stack("fabric").expect("a stack");
    let private = Need { encrypt: true, ..need(Some(&asked), ALL) };
    let expected = ways(&[
        ("tls+fabric", Route::Straight),
        ("tls+tcp", Route::Straight),
        ("tls+tcp", Route::ControlPort),
    ]);
    assert_eq!(ranked(&registry, &private), expected);
    let unkeyed = Need { encrypt: true, keyed: false, ..need(None, ALL) };
    assert_eq!(registry.offers(&unkeyed).expect_err("no key").code, ErrorCode::CannotEncrypt);
}

#[test]
fn slots_are_not_offered_where_data_must_be_encrypted() {
    let registry = registry(true, Carries::RegisteredSlots);
    let asked = registry.stack("fabric").expect("a stack");
    let offers = registry.offers(&Need { encrypt: true, ..need(Some(&asked), ALL) }).expect("TLS");
    assert_eq!(shown(&offers)[0], ("tls+tcp".to_owned(), Route::Straight));
    assert_eq!(
        Fallback::new(offers).notes(),
        [
            "over TCP instead of Fabric: nothing encrypts Fabric (`Setting::NoEncrypt` lets data go in the clear)"
        ]
    );
}

#[test]
fn a_layer_that_was_asked_for_is_never_left_out() {
    let registry = registry(true, Carries::RegisteredSlots);
    let asked = registry.stack("tls+tcp").expect("a stack");
    let clear = registry.offers(&need(Some(&asked), ALL)).expect_err("it is in the clear");
    assert_eq!((clear.fault, clear.code), (Fault::You, ErrorCode::CannotEncrypt));
    let private = Need { encrypt: true, ..need(Some(&asked), ALL) };
    assert_eq!(ranked(&registry, &private)[0], ("tls+tcp".to_owned(), Route::Straight));
}

#[test]
fn over_ssh_what_has_no_port_goes_through_it() {
    let registry = registry(true, Carries::RegisteredSlots);
    let may = Need { encrypt: true, tunnel: Tunnelled::May, ..need(None, ALL) };
    let expected = ways(&[("tls+tcp", Route::Straight), ("ssh", Route::Tunnel)]);
    assert_eq!(ranked(&registry, &may), expected);
    let asked = registry.stack("fabric").expect("a stack");
    let must = Need { tunnel: Tunnelled::Must, ..need(Some(&asked), ALL) };
    assert_eq!(ranked(&registry, &must), ways(&[("ssh", Route::Tunnel)]), "no other way any more");
}

#[test]
fn ssh_that_was_asked_for_is_the_only_way() {
    let registry = registry(true, Carries::RegisteredSlots);
    let asked = registry.stack("ssh").expect("a stack");
    let over_ssh = Need { encrypt: true, tunnel: Tunnelled::May, ..need(Some(&asked), ALL) };
    assert_eq!(ranked(&registry, &over_ssh), ways(&[("ssh", Route::Tunnel)]));
    let clear = registry.offers(&need(Some(&asked), ALL)).map(|offers| shown(&offers));
    assert_eq!(clear.expect_err("no ssh carries it").fault, Fault::You);
}

#[test]
fn what_this_host_or_the_peer_lacks_is_told_with_its_reason() {
    for (is_here, has, why) in [
        (false, ALL, "over TCP instead of Fabric: no device (install one)"),
        (true, NOTHING, "over TCP instead of Fabric: dtn2 has no fabric"),
    ] {
        let registry = registry(is_here, Carries::RegisteredSlots);
        let asked = registry.stack("fabric").expect("a stack");
        let offers = registry.offers(&need(Some(&asked), has)).expect("TCP is left");
        let mut fallback = Fallback::new(offers);
        assert_eq!(fallback.try_next().expect("TCP").stack.to_string(), "tcp");
        assert_eq!(fallback.instead(), Some(why));
        assert_eq!(fallback.notes(), [why]);
    }
}

#[test]
fn a_driver_that_was_asked_for_and_fails_is_told_once() {
    let registry = registry(true, Carries::RegisteredSlots);
    let asked = registry.stack("fabric").expect("a stack");
    let mut fallback = Fallback::new(registry.offers(&need(Some(&asked), ALL)).expect("a way"));
    assert!(fallback.try_next().expect("the fabric").is_asked);
    fallback
        .failed(Error::new(Fault::Between, ErrorCode::DataConnection, "no route"))
        .expect("TCP next");
    assert_eq!(fallback.try_next().expect("TCP").route, Route::Straight);
    assert_eq!(fallback.notes(), ["over TCP instead of Fabric: no route"]);
    let mut fallback = Fallback::new(registry.offers(&need(Some(&asked), ALL)).expect("a way"));
    fallback.try_next();
    assert_eq!(fallback.instead(), None, "it goes over what was asked for");
    assert_eq!(fallback.notes(), ["slower than asked"], "what came about tells its own");
}

#[test]
fn of_two_routes_that_fail_the_first_says_why() {
    let lost = |what: &str| Error::new(Fault::Between, ErrorCode::DataConnection, what);
    let registry = registry(true, Carries::RegisteredSlots);
    let mut fallback = Fallback::new(registry.offers(&need(None, ALL)).expect("a way"));
    fallback.try_next();
    fallback.failed(lost("port 5000 is closed")).expect("the control port is left");
    fallback.try_next();
    let error = fallback.failed(lost("the control port is closed")).expect_err("nothing is left");
    assert_eq!(error.message, "port 5000 is closed");
}

#[test]
fn what_the_user_got_wrong_is_not_tried_elsewhere() {
    let registry = registry(true, Carries::RegisteredSlots);
    let mut fallback = Fallback::new(registry.offers(&need(None, ALL)).expect("a way"));
    fallback.try_next();
    let wrong = Error::new(Fault::You, ErrorCode::UnknownCongestion, "no `tulip`");
    assert_eq!(fallback.failed(wrong).expect_err("final").code, ErrorCode::UnknownCongestion);
}
