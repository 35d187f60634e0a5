//! Between which sites a copy goes: by its hosts, or by what is said.

use super::{BookingTerms, you};
use crate::client::Location;
use farline_core::calendar::Topology;
use farline_core::units::{Error, ErrorCode, Fault};

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// This host.
    Here,
    /// The host of this name or address.
    At(String),
}

/// Both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyEnds {
    /// Where the data is.
    pub from: CopyEnd,
    /// Where it goes.
    pub to: CopyEnd,
    /// The site of this host, where that is known: `FARLINE_SITE`.
    pub here: Option<String>,
}

impl CopyEnds {
    /// The ends of a copy from `sources` to `destination`.
    ///
    /// # Errors
    /// A copy that does not go between this host and one other.
    pub fn of(
        sources: &[Location],
        destination: &Location,
        here: Option<String>,
    ) -> Result<CopyEnds, Error> {
        let end = |location: &Location| match location {
            Location::Remote(remote) => CopyEnd::At(remote.host.clone()),
            _ => CopyEnd::Here,
        };
        let from = sources.first().map_or(CopyEnd::Here, end);
        let ends = CopyEnds { from, to: end(destination), here };
        let one = sources.iter().all(|source| end(source) == ends.from);
        if !one || (ends.from == CopyEnd::Here) == (ends.to == CopyEnd::Here) {
            let message = "a circuit is booked for a copy between this host and one other";
            return Err(Error::new(Fault::You, ErrorCode::Unsupported, message)
                .hint("book it with `farline reserve`, or copy with one command each"));
        }
        Ok(ends)
    }

    /// Whether the data comes to this host.
    pub fn is_download(&self) -> bool {
        self.to == CopyEnd::Here
    }

    /// The sites.
    pub(super) fn sites(
        &self,
        terms: &BookingTerms,
        topology: &Topology,
    ) -> Result<[String; 2], Error> {
        let said = [(&terms.from, &self.from, "from"), (&terms.to, &self.to, "to")];
        let mut sites = [String::new(), String::new()];
        for ((said, end, key), site) in said.into_iter().zip(&mut sites) {
            *site = match (said, end) {
                (Some(said), _) => match topology.site(said) {
                    Some(_) => said.clone(),
                    None => {
                        return Err(you(format!("there is no site `{said}`")).hint(known(topology)));
                    }
                },
                (None, CopyEnd::At(host)) => match topology.site_of_host(host) {
                    Some(site) => topology.site_name(site).to_owned(),
                    None => {
                        let message = format!("the calendar does not know the site of {host}");
                        return Err(you(message).hint(say(key, topology)));
                    }
                },
                (None, CopyEnd::Here) => match self.site_here(topology) {
                    Some(site) => site,
                    None => {
                        let message = "the calendar does not know the site of this host";
                        let hint = format!("{}, or set FARLINE_SITE", say(key, topology));
                        return Err(you(message).hint(hint));
                    }
                },
            };
        }
        if sites[0] == sites[1] {
            return Err(you(format!("both ends are in {}: nothing is to be booked", sites[0])));
        }
        Ok(sites)
    }

    fn site_here(&self, topology: &Topology) -> Option<String> {
        let node = rustix::system::uname();
        let names = [self.here.as_deref(), node.nodename().to_str().ok()];
        let site = names.into_iter().flatten().find_map(|name| topology.site_of_host(name));
        site.map(|site| topology.site_name(site).to_owned())
    }
}

fn known(topology: &Topology) -> String {
    format!("its sites are {}", topology.sites().join(", "))
}

fn say(key: &str, topology: &Topology) -> String {
    format!("name it with {key}=SITE; {}", known(topology))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farline_core::calendar::TopologySpec;
    use std::ffi::OsStr;

    fn ends(from: &[&str], to: &str) -> Result<CopyEnds, ErrorCode> {
        let at = |text: &str| Location::parse(OsStr::new(text)).expect("a location");
        let from: Vec<Location> = from.iter().map(|text| at(text)).collect();
        CopyEnds::of(&from, &at(to), Some("oak-ridge".into())).map_err(|error| error.code)
    }

    #[test]
    fn sites_are_found_by_hosts_or_said() {
        let usn = Topology::new(&TopologySpec::named("usn").expect("built in")).expect("it is");
        let sites = |ends: &CopyEnds, terms: &BookingTerms| {
            ends.sites(terms, &usn).map_err(|error| error.message)
        };
        let up = ends(&["a", "b"], "farline://10.88.0.4/").expect("one way");
        let plain = BookingTerms::default();
        assert_eq!(sites(&up, &plain), Ok(["oak-ridge".into(), "sunnyvale".into()]));
        let down = ends(&["seattle:a"], "b").expect("the other");
        assert!(down.is_download() && !up.is_download());
        assert_eq!(sites(&down, &plain), Ok(["seattle".into(), "oak-ridge".into()]));
        let said = BookingTerms { to: Some("chicago".into()), ..plain.clone() };
        assert_eq!(sites(&up, &said), Ok(["oak-ridge".into(), "chicago".into()]));
        let said = BookingTerms { to: Some("nowhere".into()), ..plain.clone() };
        assert!(sites(&up, &said).is_err_and(|said| said.contains("nowhere")));
        let there = ends(&["a"], "dtn.example.org:b").expect("one way");
        assert!(sites(&there, &plain).is_err_and(|said| said.contains("dtn.example.org")));
        let same = ends(&["a"], "oak-ridge:b").expect("one way");
        assert!(sites(&same, &plain).is_err_and(|said| said.contains("both")));
    }

    #[test]
    fn a_copy_has_one_end_here_and_one_there() {
        for (from, to) in [
            (vec!["a"], "b"),
            (vec!["host:a"], "other:b"),
            (vec!["host:a", "other:b"], "c"),
            (vec!["a", "host:b"], "host:c"),
        ] {
            assert_eq!(ends(&from, to), Err(ErrorCode::Unsupported), "{from:?} {to}");
        }
    }
}
