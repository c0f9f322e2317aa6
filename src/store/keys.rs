//! The layout of keys: one ordered map, with a letter for each kind of record.
//!
//! | key | record |
//! |---|---|
//! | `m` | the store: number of topics, last sequence number, sites discovered |
//! | `S` | the identity of the store |
//! | `t` topic name | its number |
//! | `n` topic | the topic: name, ordering, totals |
//! | `s` topic host | a site: its standing and phase |
//! | `r` topic rank tie discovery | the border, best first; the value is the host |
//! | `d` topic time host | deferred sites by the time at which they are due |
//! | `c` topic time host | relevant sites by the time of their recheck |
//! | `k` topic host | the claim on a site |
//! | `K` topic host | sites whose visits may have killed a process |
//! | `e` topic target domain source | an edge, by the registrable domain of its source, or by the source if edges are not averaged by domain |
//! | `v` topic host | the verdict on a site |
//! | `x` topic host | the evidence for it |
//! | `q` sequence number | topic and host of a verdict |
//! | `g` topic domain | how many sites of a registrable domain entered |
//! | `H` topic domain | how many sites entered because a registrable domain recommends them |
//! | `G` topic | fingerprint of the platforms that define domains in `e` and `g`, and of how edges are averaged; missing while that is changed |
//! | `i` topic address | how many sites at an address were judged, or in an IPv6 network of 64 bits |
//! | `p` topic | windows over the last pages of the crawl |
//! | `f` topic | the model for which old verdicts were last made due |
//! | `h` topic | the `recheck_after` by which the index `c` is built |
//! | `l` topic sequence number | the changes of a list; the value is the host |
//! | `u` topic host | the listing of a site that was ever on the list |
//! | `o` topic host | the decision of an editor |
//! | `j` topic use host | sites for editors to decide on, the most useful first |
//! | `b` host | a host that was blocked by an edit |
//! | `w` topic | there while the topic is paused by an edit |
//! | `E` | the number of changes to pauses and blocks |
//! | `z` topic | points of the crawl's curve |
//! | `y` topic | fingerprint of the host lists by which the list was last reviewed; 0 during a review |
//! | `a` | the number up to which evidence of old verdicts is deleted |
//! | `T` | when the newest verdict was recorded |
//! | `N` | the number of the last claim |
//!
//! Invariant: numbers are encoded so that byte order is their order. Hosts contain no zero byte, which
//! therefore ends them.

use std::net::{IpAddr, Ipv6Addr};

use crate::web::SiteId;

use super::{Rank, TopicId};

/// The first byte of a key: what kind of record it holds.
pub(super) mod kind {
    pub(in crate::store) const STORE: u8 = b'm';
    pub(in crate::store) const IDENTITY: u8 = b'S';
    pub(in crate::store) const TOPIC_NAME: u8 = b't';
    pub(in crate::store) const TOPIC: u8 = b'n';
    pub(in crate::store) const SITE: u8 = b's';
    pub(in crate::store) const BORDER: u8 = b'r';
    pub(in crate::store) const DUE: u8 = b'd';
    pub(in crate::store) const RECHECK: u8 = b'c';
    pub(in crate::store) const CLAIM: u8 = b'k';
    pub(in crate::store) const SUSPECT: u8 = b'K';
    pub(in crate::store) const EDGE: u8 = b'e';
    pub(in crate::store) const VERDICT: u8 = b'v';
    pub(in crate::store) const EVIDENCE: u8 = b'x';
    pub(in crate::store) const SEQUENCE: u8 = b'q';
    pub(in crate::store) const DOMAIN: u8 = b'g';
    pub(in crate::store) const SOURCE_DOMAIN: u8 = b'H';
    pub(in crate::store) const GROUPED_BY: u8 = b'G';
    pub(in crate::store) const ADDRESS: u8 = b'i';
    pub(in crate::store) const PROGRESS: u8 = b'p';
    pub(in crate::store) const MODEL: u8 = b'f';
    pub(in crate::store) const RECHECK_AFTER: u8 = b'h';
    pub(in crate::store) const LIST_CHANGE: u8 = b'l';
    pub(in crate::store) const LISTING: u8 = b'u';
    pub(in crate::store) const DECISION: u8 = b'o';
    pub(in crate::store) const QUESTION: u8 = b'j';
    pub(in crate::store) const BLOCK: u8 = b'b';
    pub(in crate::store) const PAUSE: u8 = b'w';
    pub(in crate::store) const STEERING: u8 = b'E';
    pub(in crate::store) const CURVE: u8 = b'z';
    pub(in crate::store) const LISTED_BY: u8 = b'y';
    pub(in crate::store) const AGED: u8 = b'a';
    pub(in crate::store) const NEWEST: u8 = b'T';
    pub(in crate::store) const LAST_CLAIM: u8 = b'N';
}

/// The octets of an IPv6 address that identify its network.
const NETWORK_OCTETS: usize = 8;

pub(super) const STORE: &[u8] = &[kind::STORE];
pub(super) const IDENTITY: &[u8] = &[kind::IDENTITY];
pub(super) const TOPICS: &[u8] = &[kind::TOPIC_NAME];
pub(super) const SEQUENCE: &[u8] = &[kind::SEQUENCE];
pub(super) const AGED: &[u8] = &[kind::AGED];
pub(super) const NEWEST: &[u8] = &[kind::NEWEST];
pub(super) const LAST_CLAIM: &[u8] = &[kind::LAST_CLAIM];
pub(super) const SUSPECTS: &[u8] = &[kind::SUSPECT];
pub(super) const BLOCKS: &[u8] = &[kind::BLOCK];
pub(super) const STEERING: &[u8] = &[kind::STEERING];

pub(super) fn topic(name: &str) -> Vec<u8> {
    join(kind::TOPIC_NAME, &[name.as_bytes()])
}

pub(super) fn topic_record(topic: TopicId) -> Vec<u8> {
    of_topic(kind::TOPIC, topic)
}

pub(super) fn model(topic: TopicId) -> Vec<u8> {
    of_topic(kind::MODEL, topic)
}

pub(super) fn grouped_by(topic: TopicId) -> Vec<u8> {
    of_topic(kind::GROUPED_BY, topic)
}

pub(super) fn recheck_after(topic: TopicId) -> Vec<u8> {
    of_topic(kind::RECHECK_AFTER, topic)
}

pub(super) fn progress(topic: TopicId) -> Vec<u8> {
    of_topic(kind::PROGRESS, topic)
}

pub(super) fn curve(topic: TopicId) -> Vec<u8> {
    of_topic(kind::CURVE, topic)
}

pub(super) fn pause(topic: TopicId) -> Vec<u8> {
    of_topic(kind::PAUSE, topic)
}

pub(super) fn listed_by(topic: TopicId) -> Vec<u8> {
    of_topic(kind::LISTED_BY, topic)
}

pub(super) fn list_change(topic: TopicId, number: u64) -> Vec<u8> {
    join(
        kind::LIST_CHANGE,
        &[&topic.0.to_be_bytes(), &number.to_be_bytes()],
    )
}

/// The number in a key made by [`list_change`].
pub(super) fn list_number(key: &[u8]) -> Option<u64> {
    number_at(key, 3)
}

pub(super) fn listing(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::LISTING, topic, site)
}

pub(super) fn decision(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::DECISION, topic, site)
}

/// The more useful a decision, the earlier.
pub(super) fn question(topic: TopicId, usefulness: f64, site: &SiteId) -> Vec<u8> {
    let descending = (!ordered(usefulness)).to_be_bytes();
    let host = site.as_str().as_bytes();
    join(kind::QUESTION, &[&topic.0.to_be_bytes(), &descending, host])
}

/// The host in a key made by [`question`].
pub(super) fn question_host(key: &[u8]) -> Option<SiteId> {
    host_of(key.get(11..)?)
}

pub(super) fn block(site: &SiteId) -> Vec<u8> {
    join(kind::BLOCK, &[site.as_str().as_bytes()])
}

/// The host in a key made by [`block`].
pub(super) fn blocked_host(key: &[u8]) -> Option<SiteId> {
    host_of(key.get(1..)?)
}

/// The topic in a key that has one.
pub(super) fn topic_in(key: &[u8]) -> Option<TopicId> {
    let bytes = key.get(1..3)?;
    Some(TopicId(u16::from_be_bytes(bytes.try_into().ok()?)))
}

pub(super) fn of_topic(kind: u8, topic: TopicId) -> Vec<u8> {
    join(kind, &[&topic.0.to_be_bytes()])
}

pub(super) fn site(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::SITE, topic, site)
}

pub(super) fn claim(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::CLAIM, topic, site)
}

pub(super) fn suspect(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::SUSPECT, topic, site)
}

pub(super) fn verdict(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::VERDICT, topic, site)
}

pub(super) fn evidence(topic: TopicId, site: &SiteId) -> Vec<u8> {
    of_host(kind::EVIDENCE, topic, site)
}

pub(super) fn domain(topic: TopicId, domain: &str) -> Vec<u8> {
    join(kind::DOMAIN, &[&topic.0.to_be_bytes(), domain.as_bytes()])
}

/// By the registrable domain of the source.
pub(super) fn source_domain(topic: TopicId, domain: &str) -> Vec<u8> {
    join(
        kind::SOURCE_DOMAIN,
        &[&topic.0.to_be_bytes(), domain.as_bytes()],
    )
}

pub(super) fn address(topic: TopicId, address: IpAddr) -> Vec<u8> {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    join(kind::ADDRESS, &[&topic.0.to_be_bytes(), &octets])
}

/// The prefix of all addresses in an IPv6 network of 64 bits. IPv4 addresses, which are stored mapped,
/// have no such networks.
pub(super) fn addresses_in(topic: TopicId, network: Ipv6Addr) -> Vec<u8> {
    join(
        kind::ADDRESS,
        &[&topic.0.to_be_bytes(), &network.octets()[..NETWORK_OCTETS]],
    )
}

/// The address in a key made by [`address`].
pub(super) fn address_of(key: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = key.get(3..)?.try_into().ok()?;
    Some(IpAddr::from(Ipv6Addr::from(octets)).to_canonical())
}

/// The higher the rank, the earlier; of equals the larger tie, then the first discovered.
pub(super) fn border(topic: TopicId, rank: Rank, discovered: u64) -> Vec<u8> {
    let descending = !ordered(rank.value);
    join(
        kind::BORDER,
        &[
            &topic.0.to_be_bytes(),
            &descending.to_be_bytes(),
            &(!rank.tie).to_be_bytes(),
            &discovered.to_be_bytes(),
        ],
    )
}

pub(super) fn due(topic: TopicId, seconds: u64, site: &SiteId) -> Vec<u8> {
    at_time(kind::DUE, topic, seconds, site)
}

pub(super) fn recheck(topic: TopicId, seconds: u64, site: &SiteId) -> Vec<u8> {
    at_time(kind::RECHECK, topic, seconds, site)
}

/// The time in a key made by [`due`] or [`recheck`].
pub(super) fn due_seconds(key: &[u8]) -> Option<u64> {
    number_at(key, 3)
}

/// All edges to a site.
pub(super) fn edges_to(topic: TopicId, target: &SiteId) -> Vec<u8> {
    let host = target.as_str().as_bytes();
    join(kind::EDGE, &[&topic.0.to_be_bytes(), host, b"\0"])
}

/// Those of them that come from one registrable domain.
pub(super) fn edges_from(topic: TopicId, target: &SiteId, domain: &str) -> Vec<u8> {
    let mut key = edges_to(topic, target);
    key.extend(domain.as_bytes());
    key.push(0);
    key
}

/// An edge from a source of this registrable domain.
pub(super) fn edge(topic: TopicId, target: &SiteId, domain: &str, source: &SiteId) -> Vec<u8> {
    let mut key = edges_from(topic, target, domain);
    key.extend(source.as_str().as_bytes());
    key
}

/// The source in a key made by [`edge`].
pub(super) fn edge_source(key: &[u8]) -> Option<SiteId> {
    let host = key.rsplit(|byte| *byte == 0).next()?;
    host_of(host)
}

/// The number in a key made by [`sequence`].
pub(super) fn sequence_number(key: &[u8]) -> Option<u64> {
    number_at(key, 1)
}

pub(super) fn sequence(number: u64) -> Vec<u8> {
    join(kind::SEQUENCE, &[&number.to_be_bytes()])
}

/// The host in a key that ends with one, after the topic.
pub(super) fn last_host(key: &[u8]) -> Option<SiteId> {
    host_of(key.get(3..)?)
}

/// A host as bytes.
pub(super) fn host_of(bytes: &[u8]) -> Option<SiteId> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn number_at(key: &[u8], start: usize) -> Option<u64> {
    let bytes = key.get(start..start + 8)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

fn of_host(kind: u8, topic: TopicId, site: &SiteId) -> Vec<u8> {
    join(kind, &[&topic.0.to_be_bytes(), site.as_str().as_bytes()])
}

fn at_time(kind: u8, topic: TopicId, seconds: u64, site: &SiteId) -> Vec<u8> {
    let host = site.as_str().as_bytes();
    let (topic, seconds) = (topic.0.to_be_bytes(), seconds.to_be_bytes());
    join(kind, &[&topic, &seconds, host])
}

fn join(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut key = Vec::with_capacity(length);
    key.push(kind);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// Bits whose order as a number is that of the floating-point numbers (IEEE 754, total
/// order): the sign decides which way the rest counts.
fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_border_is_in_the_order_of_its_keys(
            one in (-1.0_f64..2.0, 0_u32..4, 0_u64..4),
            other in (-1.0_f64..2.0, 0_u32..4, 0_u64..4),
        ) {
            let key = |(value, tie, discovered): (f64, u32, u64)| {
                border(TopicId(1), Rank { value, tie }, discovered)
            };
            let by_rank = other.0.total_cmp(&one.0);
            let order = by_rank.then(other.1.cmp(&one.1)).then(one.2.cmp(&other.2));
            prop_assert_eq!(key(one).cmp(&key(other)), order);
        }
    }

    #[test]
    fn what_is_in_a_key_can_be_read_from_it() {
        let site = |text: &str| text.parse::<SiteId>().unwrap();
        let (target, source) = (site("a.example:81"), site("b.c.example.co.uk"));
        let key = edge(TopicId(7), &target, source.registrable_domain(), &source);
        assert!(key.starts_with(&edges_to(TopicId(7), &target)));
        assert!(key.starts_with(&edges_from(TopicId(7), &target, "example.co.uk")));
        assert!(!key.starts_with(&edges_to(TopicId(7), &site("a.example"))));
        assert_eq!(edge_source(&key), Some(source.clone()));
        assert_eq!(last_host(&claim(TopicId(7), &source)), Some(source.clone()));
        let due = due(TopicId(7), 1_234, &source);
        assert_eq!(due_seconds(&due), Some(1_234));
    }
}
