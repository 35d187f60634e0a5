//! Who is in a node: connections that have yet to say who they are, and sessions, each counted by
//! address; and which of them goes when there is no room.

use super::limits::NodeLimits;
use super::notices::Notices;
use crate::sys::lock::lock;
use farline_core::units::{Error, ErrorCode, Fault};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A session that was idle for so long may have to go for another.
const SPARE_AFTER: Duration = Duration::from_secs(30);
/// How long a session that moves nothing stays when the node ends: between two parts of a copy no
/// more passes.
const DRAIN_IDLE: Duration = Duration::from_secs(1);
/// How often to look, then.
const DRAIN_LOOK: Duration = Duration::from_millis(100);
/// How long sessions may take to end once they were told to.
const DRAIN_END: Duration = Duration::from_secs(2);

/// One in so many sessions is kept for clients with a name, where some have one.
const KEPT_FOR_NAMES: usize = 4;

/// What a session is told that has to go.
pub(super) const PLACE_WANTED: &str = "You were idle, and your place is wanted; log in again.";
const LOGIN_PLACE_WANTED: &str = "Too many connections that have not logged in; try again later.";
const ENDING: &str = "This node ends; try again later.";
const TOO_MANY_SESSIONS: &str = "Too many sessions; try again later.";

/// Everybody in a node.
#[derive(Debug)]
pub(super) struct Admission {
    limits: NodeLimits,
    /// How many sessions nobody's may be at most; others' places are kept for who has a name.
    most_nobodys: usize,
    notices: Arc<Notices>,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    last_id: u64,
    /// Those that have yet to log in, or to show a key, in the order in which they came.
    waiting: BTreeMap<u64, Guest>,
    sessions: BTreeMap<u64, Guest>,
    is_ending: bool,
}

#[derive(Debug)]
struct Guest {
    address: IpAddr,
    /// Whose session it is.
    name: Option<String>,
    has_spoken: bool,
    is_busy: bool,
    active: Instant,
    /// Why it has to go.
    expel: watch::Sender<Option<&'static str>>,
}

/// One connection's place; free again when this goes.
#[derive(Debug)]
pub(super) struct Visitor {
    admission: Arc<Admission>,
    id: u64,
    expelled: watch::Receiver<Option<&'static str>>,
}

impl Admission {
    /// Where somebody `has_name` a quarter of the sessions is kept for such.
    pub(super) fn new(limits: NodeLimits, has_names: bool, notices: Arc<Notices>) -> Admission {
        let kept = if has_names { limits.sessions / KEPT_FOR_NAMES } else { 0 };
        let most_nobodys = limits.sessions - kept;
        Admission { limits, most_nobodys, notices, guests: Mutex::default() }
    }

    /// Takes in a connection from `ip`. It always has a place; whoever waited longest without a
    /// word may lose its own.
    pub(super) fn enter(self: &Arc<Admission>, ip: IpAddr) -> Visitor {
        let address = place_of(ip);
        let (expel, expelled) = watch::channel(None);
        let mut guests = lock(&self.guests);
        let from_there = |guest: &Guest| guest.address == address;
        if guests.waiting.values().filter(|guest| from_there(guest)).count()
            >= self.limits.logins_per_address
        {
            guests.expel_waiting(from_there);
            self.notices.say("logins_per_address", format_args!("{ip} has too many connections"));
        }
        if guests.waiting.len() >= self.limits.logins {
            guests.expel_waiting(|_| true);
            self.notices.say("logins", format_args!("no room for {ip}; the oldest goes"));
        }
        guests.last_id += 1;
        let id = guests.last_id;
        let (has_spoken, is_busy, active) = (false, false, Instant::now());
        let name = None;
        guests.waiting.insert(id, Guest { address, name, has_spoken, is_busy, active, expel });
        Visitor { admission: Arc::clone(self), id, expelled }
    }

    /// Sessions that move data or are about to answer.
    pub(super) fn busy(&self) -> usize {
        lock(&self.guests).sessions.values().filter(|guest| guest.is_busy).count()
    }

    /// Lets nobody in any more, waits until the transfers that run are through, but no longer than
    /// `within`, and ends what is left.
    pub(super) async fn drain(&self, within: Duration) {
        let begun = Instant::now();
        lock(&self.guests).is_ending = true;
        while !self.expel_sessions(|guest| !guest.is_busy && guest.active.elapsed() > DRAIN_IDLE)
            && begun.elapsed() < within
        {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        let deadline = Instant::now() + DRAIN_END;
        while !self.expel_sessions(|_| true) && Instant::now() < deadline {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    /// Tells those sessions to go; returns whether there is none at all.
    fn expel_sessions(&self, which: impl Fn(&Guest) -> bool) -> bool {
        let guests = lock(&self.guests);
        for guest in guests.sessions.values().filter(|guest| which(guest)) {
            // Told once; it stays on the list until it is gone.
            guest.expel.send_if_modified(|why| why.replace(ENDING).is_none());
        }
        guests.sessions.is_empty()
    }
}

impl Guests {
    /// Sends the oldest of these away, of those that have said nothing if there is one.
    fn expel_waiting(&mut self, which: impl Fn(&Guest) -> bool) {
        let oldest = |spoken: bool| {
            let mut of = self.waiting.iter();
            of.find(|(_, guest)| guest.has_spoken == spoken && which(guest)).map(|(&id, _)| id)
        };
        if let Some(guest) =
            oldest(false).or_else(|| oldest(true)).and_then(|id| self.waiting.remove(&id))
        {
            guest.expel.send_replace(Some(LOGIN_PLACE_WANTED));
        }
    }
}

impl Guest {
    /// Whether it has done nothing for so long that its place may be another's.
    fn is_spare(&self) -> bool {
        self.active.elapsed() >= SPARE_AFTER
    }
}

impl Guests {
    /// Sends the session away that has moved nothing for longest, of those that may go; returns
    /// whether there was one.
    fn make_room(
        &mut self,
        notices: &Notices,
        limit: &'static str,
        may_go: impl Fn(&Guest) -> bool,
    ) -> bool {
        let idle = self.sessions.iter().filter(|(_, guest)| !guest.is_busy && may_go(guest));
        let Some(id) = idle.min_by_key(|(_, guest)| guest.active).map(|(&id, _)| id) else {
            return false;
        };
        if let Some(guest) = self.sessions.remove(&id) {
            notices.say(limit, format_args!("{} was idle and goes", guest.address));
            guest.expel.send_replace(Some(PLACE_WANTED));
        }
        true
    }
}

impl Visitor {
    /// The client said something.
    pub(super) fn spoke(&self) {
        if let Some(guest) = lock(&self.admission.guests).waiting.get_mut(&self.id) {
            guest.has_spoken = true;
        }
    }

    /// What the session does now.
    pub(super) fn active(&self, is_busy: bool) {
        if let Some(guest) = lock(&self.admission.guests).sessions.get_mut(&self.id) {
            (guest.is_busy, guest.active) = (is_busy, Instant::now());
        }
    }

    /// Whether it is a session.
    pub(super) fn is_in(&self) -> bool {
        lock(&self.admission.guests).sessions.contains_key(&self.id)
    }

    /// Makes it a session of `account`, if there is room.
    ///
    /// # Errors
    /// When there is none, or the node ends.
    pub(super) fn log_in(&self, account: Option<(&str, Option<usize>)>) -> Result<(), Error> {
        let (limits, notices) = (&self.admission.limits, &self.admission.notices);
        let refused = |limit: &'static str, words: &str, ip: IpAddr| {
            notices.say(limit, format_args!("{ip} is not let in"));
            Err(Error::new(Fault::There, ErrorCode::ServerClosing, words))
        };
        let mut guests = lock(&self.admission.guests);
        let name = account.map(|(name, _)| name);
        let is_own = |guest: &Guest| name.is_some() && guest.name.as_deref() == name;
        let own = guests.sessions.iter().filter(|(id, guest)| **id != self.id && is_own(guest));
        if let Some((name, Some(most))) = account
            && own.count() >= most
        {
            notices.say("identity_sessions", format_args!("{name} has {most} sessions already"));
            let words = "Too many sessions of yours; try again later.";
            return Err(Error::new(Fault::There, ErrorCode::ServerClosing, words));
        }
        let nobodys = guests.sessions.values().filter(|guest| guest.name.is_none()).count();
        let is_one_too_many = name.is_none() && nobodys >= self.admission.most_nobodys;
        if let Some(guest) = guests.sessions.get_mut(&self.id) {
            // The place that a name gave is no nobody's.
            if is_one_too_many && guest.name.is_some() {
                return refused("sessions", TOO_MANY_SESSIONS, guest.address);
            }
            guest.name = name.map(str::to_owned);
            return Ok(());
        }
        let Some(address) = guests.waiting.get(&self.id).map(|guest| guest.address) else {
            return Err(Error::new(Fault::There, ErrorCode::ServerClosing, LOGIN_PLACE_WANTED));
        };
        if guests.is_ending {
            return refused("drain", ENDING, address);
        }
        // Nobodys of an address, a site's perhaps, keep none out who has a name.
        let is_here =
            |guest: &Guest| guest.address == address && (name.is_none() || guest.name.is_some());
        let here = guests.sessions.values().filter(|guest| is_here(guest)).count();
        if here >= limits.sessions_per_address
            && !guests.make_room(notices, "sessions_per_address", |guest| {
                is_here(guest) && guest.is_spare()
            })
        {
            let words = "Too many sessions from your address; try again later.";
            return refused("sessions_per_address", words, address);
        }
        if guests.sessions.len() >= limits.sessions || is_one_too_many {
            // One of nobody's that moves nothing makes room for whoever is known, however much it
            // says.
            let goes_for_a_name = |guest: &Guest| name.is_some() && guest.name.is_none();
            // Of those with a name none goes for a nobody beyond their number.
            let gives_room = |guest: &Guest| !is_one_too_many || guest.name.is_none();
            if !guests.make_room(notices, "sessions", |guest| {
                gives_room(guest) && (guest.is_spare() || goes_for_a_name(guest))
            }) {
                return refused("sessions", TOO_MANY_SESSIONS, address);
            }
        }
        if let Some(guest) = guests.waiting.remove(&self.id) {
            let (active, name) = (Instant::now(), name.map(str::to_owned));
            guests.sessions.insert(self.id, Guest { active, name, ..guest });
        }
        Ok(())
    }

    /// Returns when this connection has to go, with why; once.
    pub(super) async fn expelled(&mut self) -> &'static str {
        loop {
            if self.expelled.changed().await.is_err() {
                // Told already.
                std::future::pending::<()>().await;
            }
            if let Some(why) = *self.expelled.borrow_and_update() {
                return why;
            }
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut guests = lock(&self.admission.guests);
        guests.waiting.remove(&self.id);
        guests.sessions.remove(&self.id);
    }
}

/// What counts as one address: of IPv6 the network that one site has.
fn place_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) & !u128::from(u64::MAX)).into()),
        ip => ip,
    }
}

#[cfg(test)]
impl Admission {
    /// Everybody, logged in or not.
    pub(super) fn present(&self) -> usize {
        let guests = lock(&self.guests);
        guests.waiting.len() + guests.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(limits: NodeLimits) -> Arc<Admission> {
        Arc::new(Admission::new(limits, false, Arc::default()))
    }

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_expelled(visitor: &Visitor) -> bool {
        visitor.expelled.borrow().is_some()
    }

    #[test]
    fn silent_connections_close_the_node_to_nobody() {
        let limits = NodeLimits { logins: 4, logins_per_address: 3, ..NodeLimits::default() };
        let node = node(limits);
        let crowd: Vec<Visitor> = (0..3).map(|_| node.enter(from(1))).collect();
        crowd[0].spoke();
        let fourth = node.enter(from(1));
        assert!(is_expelled(&crowd[1]), "the oldest silent one of that address goes");
        assert!(!is_expelled(&crowd[0]) && !is_expelled(&crowd[2]) && !is_expelled(&fourth));
        let (_a, honest) = (node.enter(from(2)), node.enter(from(3)));
        assert!(is_expelled(&crowd[2]), "then the oldest of all");
        honest.log_in(None).expect("there is room");
        assert_eq!(crowd[1].log_in(None).expect_err("it went").code, ErrorCode::ServerClosing);
    }

    #[test]
    fn one_identity_has_the_sessions_that_it_may_have() {
        let node = node(NodeLimits::default());
        let visitors: Vec<Visitor> =
            [1, 2, 3, 4].map(|last| node.enter(from(last))).into_iter().collect();
        let alice = Some(("alice", Some(2)));
        visitors[0].log_in(alice).expect("the first");
        visitors[1].log_in(alice).expect("the second");
        visitors[1].log_in(alice).expect("again is no other");
        let third = visitors[2].log_in(alice).expect_err("one too many");
        assert!(third.message.contains("of yours"), "{third}");
        visitors[3].log_in(Some(("bob", Some(2)))).expect("somebody else");
        drop(node);
    }

    #[test]
    fn nobody_keeps_the_place_of_who_is_known() {
        let limits = NodeLimits { sessions: 2, ..NodeLimits::default() };
        let node = node(limits);
        let visitors: Vec<Visitor> = [1, 2, 3, 4].map(|last| node.enter(from(last))).into();
        visitors[0].log_in(None).expect("the first");
        visitors[1].log_in(None).expect("the second");
        visitors[0].active(true);
        visitors[1].active(false);
        visitors[2].log_in(None).expect_err("they have just said something");
        visitors[3].log_in(Some(("alice", None))).expect("whoever moves nothing goes");
        assert!(is_expelled(&visitors[1]) && !is_expelled(&visitors[0]), "but not who does");
        visitors[2].log_in(None).expect_err("alice has said something too");
        assert!(!is_expelled(&visitors[3]));
    }

    #[test]
    fn who_has_a_name_comes_in_though_nobodys_are_all_busy() {
        let limits = NodeLimits { sessions: 4, ..NodeLimits::default() };
        let node = Arc::new(Admission::new(limits, true, Arc::default()));
        let visitors: Vec<Visitor> = (1..=6).map(|last| node.enter(from(last))).collect();
        for visitor in &visitors[..3] {
            visitor.log_in(None).expect("three quarters are for anybody");
            visitor.active(true);
        }
        let full = visitors[3].log_in(None).expect_err("the rest is kept");
        assert!(full.message.starts_with("Too many sessions"), "{full}");
        visitors[4].log_in(Some(("alice", None))).expect("her place is kept");
        visitors[4].log_in(None).expect_err("and is no nobody's place");
        let long_ago = Instant::now().checked_sub(SPARE_AFTER).expect("an uptime of a minute");
        lock(&node.guests).sessions.values_mut().for_each(|guest| guest.active = long_ago);
        visitors[3].log_in(None).expect_err("alice goes for no nobody");
        assert!(!is_expelled(&visitors[4]));
        visitors[5]
            .log_in(Some(("bob", None)))
            .expect("but for another with a name, idle as she is");
        assert!(is_expelled(&visitors[4]));
    }

    #[test]
    fn one_address_cannot_take_all_sessions() {
        let limits = NodeLimits { sessions: 3, sessions_per_address: 2, ..NodeLimits::default() };
        let node = node(limits);
        let visitors: Vec<Visitor> =
            [1, 1, 1, 2, 3].map(|last| node.enter(from(last))).into_iter().collect();
        visitors[0].log_in(None).expect("the first");
        visitors[0].log_in(None).expect("again is no other");
        visitors[1].log_in(None).expect("the second");
        let third = visitors[2].log_in(None).expect_err("the third of one address");
        assert!(third.message.contains("from your address"), "{third}");
        visitors[3].log_in(None).expect("another address");
        let full = visitors[4].log_in(None).expect_err("all busy or fresh");
        assert!(full.message.starts_with("Too many sessions"), "{full}");
        // Who is idle for long goes for another; who is busy does not.
        let long_ago = Instant::now().checked_sub(SPARE_AFTER).expect("an uptime of a minute");
        visitors[0].active(true);
        lock(&node.guests).sessions.values_mut().for_each(|guest| guest.active = long_ago);
        visitors[4].log_in(None).expect("there is room now");
        assert!(is_expelled(&visitors[1]) && !is_expelled(&visitors[0]));
        assert!(!visitors[1].is_in() && visitors[4].is_in());
    }

    #[test]
    fn nobodys_of_an_address_keep_no_colleague_out() {
        let limits = NodeLimits { sessions: 9, sessions_per_address: 2, ..NodeLimits::default() };
        let node = node(limits);
        let visitors: Vec<Visitor> = (0..6).map(|_| node.enter(from(1))).collect();
        visitors[0].log_in(None).expect("the first");
        visitors[1].log_in(None).expect("the second");
        let named = |name: &'static str| Some((name, None));
        visitors[2].log_in(named("alice")).expect("nobodys do not count");
        visitors[3].log_in(named("alice")).expect("her second");
        visitors[4].log_in(named("bob")).expect_err("two with names");
        // Idle for long, hers go for a colleague's, and no nobody's.
        let long_ago = Instant::now().checked_sub(SPARE_AFTER).expect("an uptime of a minute");
        lock(&node.guests).sessions.values_mut().for_each(|guest| guest.active = long_ago);
        visitors[4].log_in(named("bob")).expect("there is room now");
        assert_eq!(
            [2, 3].map(|at| is_expelled(&visitors[at])).iter().filter(|gone| **gone).count(),
            1
        );
        assert!(!is_expelled(&visitors[0]) && !is_expelled(&visitors[1]));
    }

    #[test]
    fn a_site_of_ipv6_is_one_address() {
        let of = |text: &str| place_of(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), from(1));
    }
}
