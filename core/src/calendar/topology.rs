//! The network whose bandwidth is booked: sites, directed links, and routes over them.

use crate::units::{Rate, Span};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A site by its place in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteId(pub u32);

/// A directed link by its place in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub u32);

/// One direction of what joins two sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLink {
    /// `oak-ridge>chicago`: unique in the topology.
    pub name: String,
    /// Where it begins.
    pub from: SiteId,
    /// Where it ends.
    pub to: SiteId,
    /// What it carries.
    pub capacity: Rate,
    /// From its beginning to its end.
    pub one_way_delay: Span,
    /// Its other direction.
    pub reverse: LinkId,
}

/// Sites and links, as a file describes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// What the network is called.
    pub name: String,
    /// The names of the sites, in the order in which they are drawn.
    pub sites: Vec<String>,
    /// Names and addresses of hosts, by their site: a copy to one of them is to that site.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Vec<String>>,
    /// What joins them, each in both directions.
    #[serde(rename = "link")]
    pub links: Vec<LinkSpec>,
}

/// What joins two sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The two sites.
    pub between: [String; 2],
    /// What each direction carries, such as `10G`.
    pub rate: String,
    /// One way, such as `6.3ms`.
    pub one_way_delay: String,
    /// A name, where two links join the same sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What is wrong with a [`TopologySpec`], in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError(pub String);

/// The network, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// What it is called.
    pub name: String,
    sites: Vec<String>,
    by_name: BTreeMap<String, SiteId>,
    hosts: BTreeMap<String, SiteId>,
    links: Vec<NetworkLink>,
    leaving: Vec<Vec<LinkId>>,
}

/// The UltraScience Net: dual OC192 (9.6 Gbit/s each) from Oak Ridge over Chicago and Seattle to
/// Sunnyvale, with the distances of SC08's Table II.
///
/// Its connections of 1,400, 6,600 and 8,600 miles are loops from Oak Ridge to a site and back, so
/// the site lies at a quarter of their round trips of 26.8, 128 and 163 ms: 6.7, 32 and 40.75 ms.
/// Its hosts have the addresses that `farline net` gives them.
const USN: &str = r#"
name = "usn"
sites = ["oak-ridge", "chicago", "seattle", "sunnyvale"]
[hosts]
oak-ridge = ["10.88.0.1"]
chicago = ["10.88.0.2"]
seattle = ["10.88.0.3"]
sunnyvale = ["10.88.0.4"]
[[link]]
name = "1"
between = ["oak-ridge", "chicago"]
rate = "9.6G"
one_way_delay = "6.7ms"
[[link]]
name = "2"
between = ["oak-ridge", "chicago"]
rate = "9.6G"
one_way_delay = "6.7ms"
[[link]]
name = "1"
between = ["chicago", "seattle"]
rate = "9.6G"
one_way_delay = "25.3ms"
[[link]]
name = "2"
between = ["chicago", "seattle"]
rate = "9.6G"
one_way_delay = "25.3ms"
[[link]]
name = "1"
between = ["seattle", "sunnyvale"]
rate = "9.6G"
one_way_delay = "8.75ms"
[[link]]
name = "2"
between = ["seattle", "sunnyvale"]
rate = "9.6G"
one_way_delay = "8.75ms"
"#;

impl TopologySpec {
    /// The topology of TOML `text`.
    ///
    /// # Errors
    /// What the parser says.
    pub fn from_toml(text: &str) -> Result<TopologySpec, TopologyError> {
        toml::from_str(text).map_err(|error| TopologyError(error.to_string().trim_end().to_owned()))
    }

    /// A topology that is built in, by name.
    pub fn named(name: &str) -> Option<TopologySpec> {
        (name == "usn").then(|| TopologySpec::from_toml(USN).ok()).flatten()
    }
}

/// The names of the topologies that are built in.
pub const TOPOLOGIES: [&str; 1] = ["usn"];

impl Topology {
    /// Checks `spec`.
    ///
    /// # Errors
    /// Names that are empty, not fit for a host's or there twice; a link to an unknown site or to
    /// itself; a rate or delay that is none.
    pub fn new(spec: &TopologySpec) -> Result<Topology, TopologyError> {
        let wrong = |text: String| Err(TopologyError(text));
        let fits = |name: &str| {
            !name.is_empty()
                && name.len() <= 32
                && !name.starts_with('-')
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if !fits(&spec.name) {
            return wrong(format!("`{}` cannot be the name of a network", spec.name));
        }
        let mut by_name = BTreeMap::new();
        for (at, name) in spec.sites.iter().enumerate() {
            if !fits(name) {
                return wrong(format!(
                    "`{name}` cannot be a site: small letters, digits and hyphens"
                ));
            }
            if by_name.insert(name.clone(), SiteId(at as u32)).is_some() {
                return wrong(format!("site `{name}` is there twice"));
            }
        }
        let mut hosts = BTreeMap::new();
        for (site, names) in &spec.hosts {
            let Some(id) = by_name.get(site) else {
                return wrong(format!("hosts are of no site `{site}`"));
            };
            for host in names {
                if hosts.insert(host.to_ascii_lowercase(), *id).is_some() {
                    return wrong(format!("host `{host}` is there twice"));
                }
            }
        }
        let mut topology = Topology {
            name: spec.name.clone(),
            hosts,
            leaving: vec![Vec::new(); spec.sites.len()],
            sites: spec.sites.clone(),
            by_name,
            links: Vec::new(),
        };
        let mut names = BTreeSet::new();
        for link in &spec.links {
            let [a, b] = &link.between;
            let site = |name: &String| {
                topology.site(name).ok_or_else(|| {
                    TopologyError(format!("the link {a} to {b} names no site `{name}`"))
                })
            };
            let (from, to) = (site(a)?, site(b)?);
            if from == to {
                return wrong(format!("the link {a} to {b} leads to where it begins"));
            }
            let quantity = |error: crate::units::ParseQuantityError| {
                TopologyError(format!("the link {a} to {b}: {error}"))
            };
            let capacity: Rate = link.rate.parse().map_err(quantity)?;
            let one_way_delay: Span = link.one_way_delay.parse().map_err(quantity)?;
            if capacity == Rate::default() {
                return wrong(format!("the link {a} to {b} carries nothing"));
            }
            let mark = link.name.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
            let (there, back) = (format!("{a}>{b}{mark}"), format!("{b}>{a}{mark}"));
            let fit = link.name.as_ref().is_none_or(|name| fits(name));
            if !fit || !names.insert(there.clone()) || !names.insert(back.clone()) {
                return wrong(format!(
                    "two links join {a} and {b}: give each a `name` of small letters and digits"
                ));
            }
            let id = topology.links.len() as u32;
            for (at, name, from, to) in [(0, there, from, to), (1, back, to, from)] {
                let reverse = LinkId(id + 1 - at);
                topology.leaving[from.0 as usize].push(LinkId(id + at));
                topology.links.push(NetworkLink {
                    name,
                    from,
                    to,
                    capacity,
                    one_way_delay,
                    reverse,
                });
            }
        }
        Ok(topology)
    }

    /// The site called `name`.
    pub fn site(&self, name: &str) -> Option<SiteId> {
        self.by_name.get(name).copied()
    }

    /// The site of the host that is called so, or has this address; a site's own name is one of its
    /// hosts'.
    pub fn site_of_host(&self, host: &str) -> Option<SiteId> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.get(&host).copied().or_else(|| self.site(&host))
    }

    /// The names and addresses of a site's hosts.
    pub fn hosts(&self, site: SiteId) -> Vec<String> {
        let of = self.hosts.iter().filter(|(_, known)| **known == site);
        of.map(|(host, _)| host.clone()).collect()
    }

    /// The name of a site.
    pub fn site_name(&self, site: SiteId) -> &str {
        self.sites.get(site.0 as usize).map_or("", String::as_str)
    }

    /// The names of all sites.
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &NetworkLink {
        &self.links[id.0 as usize]
    }

    /// Every directed link.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &NetworkLink)> {
        self.links.iter().enumerate().map(|(at, link)| (LinkId(at as u32), link))
    }

    /// How many directed links there are.
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// The directed link called `name`.
    pub fn link_named(&self, name: &str) -> Option<LinkId> {
        self.links().find(|(_, link)| link.name == name).map(|(id, _)| id)
    }

    /// The links that leave `site`.
    pub fn leaving(&self, site: SiteId) -> &[LinkId] {
        self.leaving.get(site.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// How long a byte takes over `route`.
    pub fn delay(&self, route: &[LinkId]) -> Span {
        route.iter().fold(Span::ZERO, |sum, id| sum + self.link(*id).one_way_delay)
    }

    /// The sites that `route` passes, its ends included.
    pub fn sites_of(&self, route: &[LinkId]) -> Vec<SiteId> {
        let first = route.first().map(|id| self.link(*id).from);
        first.into_iter().chain(route.iter().map(|id| self.link(*id).to)).collect()
    }

    /// Whether `route` leads from `from` to `to` without passing a site twice.
    pub fn is_route(&self, route: &[LinkId], from: SiteId, to: SiteId) -> bool {
        if route.iter().any(|id| id.0 as usize >= self.links.len()) {
            return false;
        }
        let sites = self.sites_of(route);
        let joined = route.windows(2).all(|pair| self.link(pair[0]).to == self.link(pair[1]).from);
        let once = sites.iter().collect::<BTreeSet<_>>().len() == sites.len();
        joined && once && sites.first() == Some(&from) && sites.last() == Some(&to)
    }
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_network_has_the_distances_of_sc08() {
        for name in TOPOLOGIES {
            let spec = TopologySpec::named(name).expect("built in");
            let usn = Topology::new(&spec).expect("makes sense");
            assert_eq!((usn.sites().len(), usn.link_count()), (4, 12));
            let north = ["oak-ridge>chicago/1", "chicago>seattle/2", "seattle>sunnyvale/1"];
            let north: Vec<LinkId> = north.iter().filter_map(|name| usn.link_named(name)).collect();
            let [from, to] = ["oak-ridge", "sunnyvale"].map(|name| usn.site(name).expect("a site"));
            assert!(usn.is_route(&north, from, to) && !usn.is_route(&north[1..], from, to));
            // A loop of 8,600 miles has a round trip of 163 ms: four times this way.
            assert_eq!(usn.delay(&north), Span::from_micros(163_000 / 4));
            for (id, link) in usn.links() {
                let back = usn.link(link.reverse);
                assert_eq!((back.reverse, back.from, back.to), (id, link.to, link.from));
            }
        }
    }

    #[test]
    fn a_host_is_found_by_its_name_or_address() {
        let mut spec = TopologySpec::named("usn").expect("built in");
        spec.hosts.insert("seattle".into(), vec!["DTN1.example.org".into()]);
        let usn = Topology::new(&spec).expect("makes sense");
        let site = |host| usn.site_of_host(host).map(|site| usn.site_name(site));
        assert_eq!(site("dtn1.Example.org."), Some("seattle"));
        assert_eq!((site("10.88.0.4"), site("chicago")), (Some("sunnyvale"), Some("chicago")));
        assert_eq!(site("example.org"), None);
        assert_eq!(usn.hosts(SiteId(2)), ["dtn1.example.org"]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let usn = TopologySpec::named("usn").expect("built in");
        let wrong = |edit: &dyn Fn(&mut TopologySpec)| {
            let mut spec = usn.clone();
            edit(&mut spec);
            Topology::new(&spec).expect_err("refused").0
        };
        assert!(wrong(&|spec| spec.sites.push("chicago".into())).contains("twice"));
        assert!(wrong(&|spec| spec.sites[0] = "Oak Ridge".into()).contains("Oak Ridge"));
        assert!(wrong(&|spec| spec.links[0].between[1] = "nowhere".into()).contains("nowhere"));
        assert!(
            wrong(&|spec| spec.links[0].between[1] = "oak-ridge".into())
                .contains("where it begins")
        );
        assert!(wrong(&|spec| spec.links[0].rate = "10".into()).contains("10"));
        let host = |site: &str, host: &str| {
            let (site, host) = (site.to_owned(), host.to_owned());
            move |spec: &mut TopologySpec| {
                spec.hosts.entry(site.clone()).or_default().push(host.clone())
            }
        };
        assert!(wrong(&host("nowhere", "a.example.org")).contains("nowhere"));
        assert!(wrong(&host("seattle", "10.88.0.1")).contains("twice"));
        assert!(wrong(&|spec| spec.links[0].rate = "0G".into()).contains("nothing"));
        assert!(wrong(&|spec| spec.links.push(spec.links[0].clone())).contains("two links"));
        assert!(TopologySpec::from_toml("name = 3").is_err());
    }
}
