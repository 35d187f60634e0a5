//! Places for handshakes under way that tasks of several kinds wait for: when another wants one, a
//! stranger's goes, then that of who has got least far, as of [`Pending`](super::pending::Pending).

use super::pending::Steps;
use crate::sys::lock::lock;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use tokio::sync::oneshot;

/// The places of one session, or of one port.
#[derive(Debug)]
pub(super) struct HandshakePlaces {
    most: usize,
    /// Of one address; who wants more of them has one of its own go.
    most_of_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    last: u64,
    /// The oldest first.
    by_number: BTreeMap<u64, UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    from: Option<IpAddr>,
    is_own: bool,
    steps: Steps,
    /// Its task hears of it when this is dropped.
    _told: oneshot::Sender<()>,
}

/// One of the places; free again when this goes.
#[derive(Debug)]
pub(super) struct HandshakePlace<'a> {
    places: &'a HandshakePlaces,
    number: u64,
    told: oneshot::Receiver<()>,
}

impl HandshakePlaces {
    pub(super) fn new(most: usize) -> HandshakePlaces {
        HandshakePlaces { most, most_of_address: most, taken: Mutex::default() }
    }

    /// The same, of which one address has no more than so many.
    #[cfg(any(feature = "quic", test))]
    pub(super) fn with_most_of_address(self, most_of_address: usize) -> HandshakePlaces {
        HandshakePlaces { most_of_address, ..self }
    }

    /// A place for who came from `from` to the session of `client`, for which another may lose its
    /// own; none for a stranger that finds the client's own in all of them.
    pub(super) fn take(
        &self,
        from: Option<SocketAddr>,
        client: Option<IpAddr>,
        steps: &Steps,
    ) -> Option<HandshakePlace<'_>> {
        let from = from.map(|from| from.ip().to_canonical());
        let is_own = client.is_some() && from == client;
        let (told_of, told) = oneshot::channel();
        let mut taken = lock(&self.taken);
        let of_address = taken.by_number.values().filter(|one| one.from == from).count();
        let has_its_own = of_address >= self.most_of_address;
        if has_its_own || taken.by_number.len() >= self.most {
            let may_go = |(_, one): &(&u64, &UnderWay)| !has_its_own || one.from == from;
            let key = |(number, one): &(&u64, &UnderWay)| (one.is_own, one.steps.taken(), **number);
            let (&least, goes) = taken.by_number.iter().filter(may_go).min_by_key(key)?;
            if goes.is_own && !is_own {
                return None;
            }
            taken.by_number.remove(&least);
        }
        taken.last += 1;
        let number = taken.last;
        let one = UnderWay { from, is_own, steps: steps.clone(), _told: told_of };
        taken.by_number.insert(number, one);
        Some(HandshakePlace { places: self, number, told })
    }
}

impl HandshakePlace<'_> {
    /// Waits until it is another's.
    pub(super) async fn lost(&mut self) {
        let _ = (&mut self.told).await;
    }
}

impl Drop for HandshakePlace<'_> {
    fn drop(&mut self) {
        lock(&self.places.taken).by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn take(places: &HandshakePlaces, last: u8, steps: u64) -> Option<HandshakePlace<'_>> {
        let taken = Steps::default();
        (0..steps).for_each(|_| taken.step());
        places.take(Some(([10, 0, 0, last], 7).into()), Some(CLIENT), &taken)
    }

    async fn is_lost(place: &mut HandshakePlace<'_>) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.lost()).await.is_ok()
    }

    #[tokio::test]
    async fn a_client_has_a_place_however_many_linger() {
        let places = HandshakePlaces::new(3);
        let mut far: Vec<_> = (0..3).map(|_| take(&places, 2, 2).expect("free")).collect();
        let mut own = take(&places, 1, 0).expect("a stranger's, however far it has got");
        assert!(is_lost(&mut far[0]).await && !is_lost(&mut far[1]).await);
        for _ in 0..10 {
            let next = take(&places, 2, 2).expect("another stranger's");
            let mut before = std::mem::replace(&mut far[1], next);
            assert!(is_lost(&mut before).await);
            far.swap(1, 2);
        }
        assert!(!is_lost(&mut own).await, "none of them takes the client's");
        let more = [take(&places, 1, 1).expect("one"), take(&places, 1, 1).expect("another")];
        assert!(take(&places, 2, 9).is_none(), "all are the client's own");
        // Of these who has got least far goes, and a place that was given back is free.
        let last = take(&places, 1, 0).expect("its own");
        assert!(is_lost(&mut own).await);
        drop((more, last));
        let _free = [take(&places, 2, 0), take(&places, 2, 0), take(&places, 2, 0)]
            .map(|place| place.expect("free"));
    }
    #[tokio::test]
    async fn who_comes_often_takes_its_own_places_and_no_others() {
        let places = HandshakePlaces::new(5).with_most_of_address(3);
        let mut other = take(&places, 2, 0).expect("free");
        let mut crowd: Vec<_> = (0..3).map(|_| take(&places, 3, 0).expect("free")).collect();
        for _ in 0..10 {
            crowd.push(take(&places, 3, 0).expect("one of its own goes"));
            assert!(is_lost(&mut crowd.remove(0)).await);
        }
        assert!(!is_lost(&mut other).await, "the oldest of all, but of another address");
        // Where all places are taken the oldest goes, whoever it is.
        let _more =
            [take(&places, 4, 0).expect("free"), take(&places, 5, 1).expect("the oldest's")];
        assert!(is_lost(&mut other).await && !is_lost(&mut crowd[0]).await);
    }
}
