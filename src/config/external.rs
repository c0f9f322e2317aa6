//! `[external]`: how the graph of sites is walked.

use std::collections::BTreeSet;
use std::time::Duration;

use super::section::Section;
use super::value::{
    choice, domains, duration, duration_or_never, host_patterns, number, whole_number,
};

/// `[external]`: how the graph of sites is walked.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalSettings {
    /// In which order border sites are visited.
    pub(crate) strategy: Strategy,
    /// Number of steps from 0 to 1 that ranks are rounded to; 0: not rounded.
    pub(crate) rank_steps: usize,
    /// Number of concurrent visits.
    pub crawlers: usize,
    /// With fewer sites left to visit than this, more pages of each are read for links.
    pub(crate) scarce_border: usize,
    /// Maximum number of sites of one registrable domain.
    pub(crate) sites_per_domain: usize,
    /// Maximum number of sites admitted through links from one registrable domain; 0: unlimited.
    pub(crate) sites_per_source: usize,
    /// Maximum number of border sites; 0: unlimited.
    pub(crate) border_sites: usize,
    /// Domains whose subdomains count as registrable domains, in addition to the built-in ones.
    pub(crate) platforms: Vec<String>,
    /// Maximum number of sites judged at one IP address.
    pub sites_per_address: usize,
    /// What happens to verdicts when the topic gets a new model.
    pub(crate) old_verdicts: OldVerdicts,
    /// After how long a relevant site is rechecked, if ever.
    pub recheck_after: Option<Duration>,
    /// How often the visit to a site is deferred before the outcome is final.
    pub max_deferrals: usize,
    /// Number of pages over which recent pprs is measured.
    pub pprs_window: usize,
    /// The crawl ends when recent pprs rises above this many times its best value.
    pub pprs_factor: f64,
    /// How long a stopping crawl waits for visits under way.
    pub(crate) drain: Duration,
    /// Hosts that no request is ever sent to.
    pub block: Vec<String>,
    /// If not empty, requests are sent only to these hosts.
    pub(crate) allow: Vec<String>,
    /// Random seed.
    pub(crate) seed: u64,
}

/// Which hosts the operator permits, indexed: a lookup costs the same however long the lists are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLists {
    block: HostPatterns,
    allow: HostPatterns,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct HostPatterns {
    has_all: bool,
    hosts: BTreeSet<String>,
    /// All hosts below these match.
    domains: BTreeSet<String>,
}

/// What happens to verdicts of a model that the topic has replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldVerdicts {
    /// They remain valid.
    Keep,
    /// Relevant sites are visited and judged again.
    RejudgeRelevant,
    /// All sites are.
    RejudgeAll,
}

/// In which order border sites are visited; see [`Strategy::description`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    Combined,
    Global,
    Local,
    Paper,
    BreadthFirst,
    Random,
}

// === impl ExternalSettings ===

impl ExternalSettings {
    pub(super) fn read(&self, external: &mut Section<'_>) -> Self {
        let strategies = Strategy::ALL.map(|strategy| (strategy.name(), strategy));
        let old_verdicts = [
            ("keep", OldVerdicts::Keep),
            ("rejudge-relevant", OldVerdicts::RejudgeRelevant),
            ("rejudge-all", OldVerdicts::RejudgeAll),
        ];
        let seed = usize::try_from(self.seed).unwrap_or_default();
        Self {
            strategy: external.value("strategy", self.strategy, choice(&strategies)),
            rank_steps: external.value("rank_steps", self.rank_steps, whole_number(0..=1_000)),
            crawlers: external.value("crawlers", self.crawlers, whole_number(1..=100_000)),
            scarce_border: external.value(
                "scarce_border",
                self.scarce_border,
                whole_number(0..=1_000_000_000),
            ),
            sites_per_domain: external.value(
                "sites_per_domain",
                self.sites_per_domain,
                whole_number(1..=1_000_000),
            ),
            sites_per_source: external.value(
                "sites_per_source",
                self.sites_per_source,
                whole_number(0..=1_000_000_000),
            ),
            border_sites: external.value(
                "border_sites",
                self.border_sites,
                whole_number(0..=1_000_000_000),
            ),
            platforms: external.value("platforms", self.platforms.clone(), domains),
            sites_per_address: external.value(
                "sites_per_address",
                self.sites_per_address,
                whole_number(1..=1_000_000_000),
            ),
            old_verdicts: external.value("old_verdicts", self.old_verdicts, choice(&old_verdicts)),
            recheck_after: external.value(
                "recheck_after",
                self.recheck_after,
                duration_or_never(Duration::from_hours(1)..=Duration::from_hours(24 * 36_500)),
            ),
            max_deferrals: external.value(
                "max_deferrals",
                self.max_deferrals,
                whole_number(0..=1_000),
            ),
            pprs_window: external.value(
                "pprs_window",
                self.pprs_window,
                whole_number(10..=100_000_000),
            ),
            pprs_factor: external.value("pprs_factor", self.pprs_factor, number(1.0..=1e6)),
            drain: external.value(
                "drain",
                self.drain,
                duration(Duration::ZERO..=Duration::from_hours(1)),
            ),
            block: external.value("block", self.block.clone(), host_patterns),
            allow: external.value("allow", self.allow.clone(), host_patterns),
            seed: external.value("seed", seed, whole_number(0..=u32::MAX as usize)) as u64,
        }
    }

    /// `sites_per_address` in the type of the store's counters.
    #[must_use]
    pub(crate) fn sites_per_address(&self) -> u32 {
        u32::try_from(self.sites_per_address).unwrap_or(u32::MAX)
    }

    /// Whether the operator permits requests to a host. `block` takes precedence.
    #[must_use]
    pub(crate) fn permits(&self, host: &str) -> bool {
        let is_named = |pattern: &String| pattern.strip_prefix("www.") == Some(host);
        let is_on = |list: &[String]| {
            let mut patterns = list.iter();
            patterns.any(|pattern| covers(pattern, host) || is_named(pattern))
        };
        !is_on(&self.block) && (self.allow.is_empty() || is_on(&self.allow))
    }

    /// Both lists, indexed.
    #[must_use]
    pub(crate) fn host_lists(&self) -> HostLists {
        HostLists::new(&self.block, &self.allow)
    }
}

// === impl HostLists ===

impl HostLists {
    /// Patterns are hosts, `*.` with a domain, or `*`. If `allow` is not empty, no other hosts are
    /// permitted.
    #[must_use]
    pub fn new(block: &[String], allow: &[String]) -> Self {
        Self {
            block: HostPatterns::new(block),
            allow: HostPatterns::new(allow),
        }
    }

    /// Whether a host is permitted. `block` takes precedence.
    #[must_use]
    pub(crate) fn permit(&self, host: &str) -> bool {
        !self.block.cover(host) && (self.allow.is_empty() || self.allow.cover(host))
    }

    /// All patterns in a canonical order, for comparing lists.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = String> {
        let named = |list: &'static str, patterns: &HostPatterns| {
            let hosts = patterns
                .hosts
                .iter()
                .map(move |host| format!("{list} {host}"));
            let domains = patterns.domains.iter();
            let domains = domains.map(move |domain| format!("{list} *.{domain}"));
            let all = patterns.has_all.then(|| format!("{list} *"));
            hosts.chain(domains).chain(all).collect::<Vec<_>>()
        };
        let block = named("block", &self.block);
        block.into_iter().chain(named("allow", &self.allow))
    }
}

// === impl HostPatterns ===

impl HostPatterns {
    fn new(patterns: &[String]) -> Self {
        let mut sorted = Self::default();
        for pattern in patterns {
            match pattern.strip_prefix("*.") {
                _ if pattern == "*" => sorted.has_all = true,
                Some(domain) => {
                    sorted.domains.insert(domain.to_owned());
                }
                None => {
                    sorted.hosts.insert(pattern.clone());
                    // Site names have no `www.`.
                    let bare = pattern.strip_prefix("www.");
                    sorted.hosts.extend(bare.map(str::to_owned));
                }
            }
        }
        sorted
    }

    fn is_empty(&self) -> bool {
        !self.has_all && self.hosts.is_empty() && self.domains.is_empty()
    }

    /// Same result as [`covers`] for each pattern.
    fn cover(&self, host: &str) -> bool {
        let without_www = host.strip_prefix("www.").unwrap_or(host);
        let mut parents = host.match_indices('.').filter(|(at, _)| *at > 0);
        self.has_all
            || self.hosts.contains(host)
            || self.hosts.contains(without_www)
            || parents.any(|(at, _)| self.domains.contains(&host[at + 1..]))
    }
}

impl Default for ExternalSettings {
    fn default() -> Self {
        Self {
            strategy: Strategy::Combined,
            rank_steps: 3,
            crawlers: 64,
            scarce_border: 1_000,
            sites_per_domain: 20,
            sites_per_source: 500,
            border_sites: 10_000_000,
            platforms: Vec::new(),
            sites_per_address: 1_000,
            old_verdicts: OldVerdicts::Keep,
            recheck_after: Some(Duration::from_hours(24 * 30)),
            max_deferrals: 3,
            pprs_window: 5_000,
            pprs_factor: 10.0,
            drain: Duration::from_secs(10),
            block: Vec::new(),
            allow: Vec::new(),
            seed: 1,
        }
    }
}

/// A host matches itself and its `www.`; `*.` and a domain match all hosts below the domain.
pub(super) fn covers(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        _ if pattern == "*" => true,
        Some(domain) => host
            .strip_suffix(domain)
            .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
        None => host == pattern || host.strip_prefix("www.") == Some(pattern),
    }
}

// === impl Strategy ===

impl Strategy {
    /// The default first.
    pub(crate) const ALL: [Self; 6] = [
        Self::Combined,
        Self::Global,
        Self::Local,
        Self::Paper,
        Self::BreadthFirst,
        Self::Random,
    ];

    /// The name in settings and on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::Global => "global",
            Self::Local => "local",
            Self::Paper => "paper",
            Self::BreadthFirst => "breadth-first",
            Self::Random => "random",
        }
    }

    /// One line for help texts.
    #[must_use]
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Combined => "By the mean of global and local edge weights",
            Self::Global => "By the confidence of the sites that recommend them",
            Self::Local => "By the confidence of the pages that recommend them",
            Self::Paper => "As the paper decides; needs a model of the page classifier `centroid`",
            Self::BreadthFirst => "In the order in which they were found",
            Self::Random => "At random",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_wins_over_allowing() {
        let mut settings = ExternalSettings::default();
        assert!(settings.permits("any.example"));
        let none = settings.host_lists();
        assert!(none.permit("any.example"));
        settings.block = vec!["*.spam.test".to_owned(), "bad.example".to_owned()];
        assert!(!settings.permits("a.spam.test"));
        assert!(settings.permits("spam.test"));
        assert!(!settings.permits("bad.example"));
        settings.allow = vec!["*.example".to_owned()];
        assert!(settings.permits("good.example"));
        assert!(!settings.permits("bad.example"));
        assert!(!settings.permits("spam.test"));
    }

    #[test]
    fn lists_that_are_ready_say_what_their_patterns_say() {
        let hosts = [
            "spam.test",
            "a.spam.test",
            "b.a.spam.test",
            "nospam.test",
            "bad.example",
            "www.bad.example",
            "x.bad.example",
            "good.example",
            ".test",
        ];
        let lists: [&[&str]; 6] = [
            &["www.good.example"],
            &[],
            &["*"],
            &["*.spam.test"],
            &["bad.example"],
            &["*.test", "*.example"],
        ];
        let owned = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect();
        for block in lists {
            for allow in lists {
                let settings = ExternalSettings {
                    block: owned(block),
                    allow: owned(allow),
                    ..ExternalSettings::default()
                };
                let ready = settings.host_lists();
                for host in hosts {
                    let wanted = settings.permits(host);
                    assert_eq!(ready.permit(host), wanted, "{block:?} {allow:?} {host}");
                }
            }
        }
    }
}
