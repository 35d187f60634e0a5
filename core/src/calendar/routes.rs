//! Routes in one instant of the network: shortest, widest, several at once, and what cuts them.

use super::topology::{LinkId, SiteId, Topology};
use crate::units::Rate;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A way through the network: directed links, each beginning where the one before it ends.
pub type CircuitRoute = Vec<LinkId>;

/// The route that the links in `came` (by the site each leads to) take to `to`.
fn trace(topology: &Topology, came: &[Option<LinkId>], from: SiteId, to: SiteId) -> CircuitRoute {
    let mut route = Vec::new();
    let mut at = to;
    while at != from {
        let Some(link) = came[at.0 as usize] else { return Vec::new() };
        route.push(link);
        at = topology.link(link).from;
    }
    route.reverse();
    route
}

/// The route of least delay over the links that `open` allows; of equal ones that of fewest links.
pub fn shortest(
    topology: &Topology,
    from: SiteId,
    to: SiteId,
    open: impl Fn(LinkId) -> bool,
) -> Option<CircuitRoute> {
    let sites = topology.sites().len();
    let mut best = vec![(u64::MAX, u32::MAX); sites];
    let mut came = vec![None; sites];
    let mut queue = BinaryHeap::from([Reverse(((0_u64, 0_u32), from))]);
    best[from.0 as usize] = (0, 0);
    while let Some(Reverse((cost, site))) = queue.pop() {
        if site == to {
            return Some(trace(topology, &came, from, to));
        }
        if cost > best[site.0 as usize] {
            continue;
        }
        for &id in topology.leaving(site) {
            let link = topology.link(id);
            let next = (cost.0 + link.one_way_delay.as_nanos(), cost.1 + 1);
            if next < best[link.to.0 as usize] && open(id) {
                best[link.to.0 as usize] = next;
                came[link.to.0 as usize] = Some(id);
                queue.push(Reverse((next, link.to)));
            }
        }
    }
    None
}

/// The highest rate that one route carries, and the shortest route that does.
pub fn widest(
    topology: &Topology,
    from: SiteId,
    to: SiteId,
    width: impl Fn(LinkId) -> Rate,
) -> Option<(Rate, CircuitRoute)> {
    let mut best = vec![Rate::default(); topology.sites().len()];
    let mut queue = BinaryHeap::from([(Rate::from_bps(u64::MAX), Reverse(from))]);
    best[from.0 as usize] = Rate::from_bps(u64::MAX);
    while let Some((rate, Reverse(site))) = queue.pop() {
        if site == to {
            let route = shortest(topology, from, to, |link| width(link) >= rate)?;
            return Some((rate, route));
        }
        if rate < best[site.0 as usize] {
            continue;
        }
        for &id in topology.leaving(site) {
            let next = topology.link(id).to;
            if best[next.0 as usize] >= rate {
                continue;
            }
            let through = rate.min(width(id));
            if through > best[next.0 as usize] {
                best[next.0 as usize] = through;
                queue.push((through, Reverse(next)));
            }
        }
    }
    None
}

/// The sites that can be reached from `from` over the links that `open` allows.
pub fn reachable(topology: &Topology, from: SiteId, open: impl Fn(LinkId) -> bool) -> Vec<bool> {
    let mut reached = vec![false; topology.sites().len()];
    reached[from.0 as usize] = true;
    let mut queue = VecDeque::from([from]);
    while let Some(site) = queue.pop_front() {
        for &id in topology.leaving(site) {
            let next = topology.link(id).to;
            if !reached[next.0 as usize] && open(id) {
                reached[next.0 as usize] = true;
                queue.push_back(next);
            }
        }
    }
    reached
}

/// The links that lead out of what is `reached`: every route to elsewhere takes one of them.
pub fn leaving_cut<'a>(
    topology: &'a Topology,
    reached: &'a [bool],
) -> impl Iterator<Item = LinkId> + 'a {
    let out = |link: LinkId| {
        let link = topology.link(link);
        reached[link.from.0 as usize] && !reached[link.to.0 as usize]
    };
    topology.links().map(|(id, _)| id).filter(move |id| out(*id))
}

/// The largest sum of rates that several routes carry at once, up to `wanted`, and those routes
/// (Edmonds and Karp, 1972; the flow taken apart into its routes).
///
/// No link is used in both directions, so the same routes serve circuits of both directions.
pub fn several(
    topology: &Topology,
    from: SiteId,
    to: SiteId,
    wanted: Rate,
    width: impl Fn(LinkId) -> Rate,
) -> Vec<(Rate, CircuitRoute)> {
    let widths: Vec<u64> = topology.links().map(|(id, _)| width(id).as_bps()).collect();
    let mut flow = vec![0_u64; widths.len()];
    let mut left = wanted.as_bps();
    while left > 0 {
        // What can still go over a link: what is unused of it, and what flows the other way.
        let residual = |id: LinkId| {
            let back = topology.link(id).reverse;
            widths[id.0 as usize] - flow[id.0 as usize] + flow[back.0 as usize]
        };
        let mut came = vec![None; topology.sites().len()];
        let mut queue = VecDeque::from([from]);
        while let Some(site) = queue.pop_front() {
            for &id in topology.leaving(site) {
                let next = topology.link(id).to;
                if next != from && came[next.0 as usize].is_none() && residual(id) > 0 {
                    came[next.0 as usize] = Some(id);
                    queue.push_back(next);
                }
            }
        }
        let route = trace(topology, &came, from, to);
        let Some(more) = route.iter().map(|id| residual(*id)).min().map(|most| most.min(left))
        else {
            break;
        };
        for id in route {
            let back = topology.link(id).reverse.0 as usize;
            let undone = flow[back].min(more);
            flow[back] -= undone;
            flow[id.0 as usize] += more - undone;
        }
        left -= more;
    }
    take_apart(topology, from, to, flow)
}

/// The routes of which `flow` is the sum, widest first each time; circles in it carry nothing and
/// are left out.
fn take_apart(
    topology: &Topology,
    from: SiteId,
    to: SiteId,
    mut flow: Vec<u64>,
) -> Vec<(Rate, CircuitRoute)> {
    let mut routes: BTreeMap<CircuitRoute, u64> = BTreeMap::new();
    while let Some((rate, route)) =
        widest(topology, from, to, |id| Rate::from_bps(flow[id.0 as usize]))
    {
        route.iter().for_each(|id| flow[id.0 as usize] -= rate.as_bps());
        *routes.entry(route).or_default() += rate.as_bps();
    }
    routes.into_iter().map(|(route, rate)| (Rate::from_bps(rate), route)).collect()
}

/// Two routes without a common link, with the least sum of delays, over the links that `open`
/// allows (Bhandari, 1999; Bellman-Ford on the network in which the first route runs backwards).
pub fn disjoint(
    topology: &Topology,
    from: SiteId,
    to: SiteId,
    open: impl Fn(LinkId) -> bool,
) -> Option<[CircuitRoute; 2]> {
    let first = shortest(topology, from, to, &open)?;
    // What the first route uses may be undone, at the price that it cost; the other direction of
    // its links is the same fibre, and is not used but for that.
    let used = |id: LinkId| first.contains(&id);
    let undone = |id: LinkId| first.contains(&topology.link(id).reverse);
    let mut cost = vec![i64::MAX; topology.sites().len()];
    let mut came = vec![None; cost.len()];
    cost[from.0 as usize] = 0;
    for _ in 1..cost.len() {
        for (id, link) in topology.links() {
            let at = cost[link.from.0 as usize];
            if at == i64::MAX || used(id) || (!undone(id) && !open(id)) {
                continue;
            }
            let price = link.one_way_delay.as_nanos() as i64;
            let next = at + if undone(id) { -price } else { price };
            if next < cost[link.to.0 as usize] {
                cost[link.to.0 as usize] = next;
                came[link.to.0 as usize] = Some(id);
            }
        }
    }
    came[to.0 as usize]?;
    let second = trace(topology, &came, from, to);
    let mut flow = vec![0_u64; topology.link_count()];
    for id in first.iter().chain(&second) {
        let back = topology.link(*id).reverse.0 as usize;
        if flow[back] > 0 {
            flow[back] = 0;
        } else {
            flow[id.0 as usize] = 1;
        }
    }
    let routes = take_apart(topology, from, to, flow);
    match <[(Rate, CircuitRoute); 2]>::try_from(routes) {
        Ok([(_, a), (_, b)]) => Some([a, b]),
        Err(_) => None,
    }
}
