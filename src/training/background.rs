//! The background: sites of many kinds, as examples of what a topic is not.
//!
//! Users have a few sites of their topic, and the crawler meets all the others. So a sample of the web
//! comes with the program: sites as counts of terms, without text and without the order of
//! words. Whoever labels other sites, too, adds to it; labels override it.
//!
//! Nobody has looked at these sites for the topic that is learned: some may be of it after all.
//!
//! Invariant: a term that occurs in fewer than [`MIN_GROUPS`] groups is in no background. Same sites give
//! the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use crate::classify::{
    BackgroundFileError, CountedPage, CountedSite, CountedSites, Lexicon, TermId, TopicPrior,
};
use crate::web::{SiteId, TermNumbers};

use super::corpus::CorpusSite;

/// A term must occur in as many groups of sites. One that fewer have could identify a text or a person,
/// and what a single owner writes does not generalise either.
const MIN_GROUPS: u32 = 3;

/// The background that comes with the program; `sitescout background make` made it.
const SHIPPED: &[u8] = include_bytes!("../../site-models/background.bin");

/// Sites that are examples of no topic.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Background {
    counted: CountedSites,
}

/// What became of the sites that were to be added to a background.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) added: Vec<SiteId>,
    /// In the background already, and left as they are.
    pub(crate) known: Vec<SiteId>,
    /// Without a term that enough groups share.
    pub(crate) alone: Vec<SiteId>,
}

// === impl Background ===

impl Background {
    /// The format of its file.
    pub(crate) const FORMAT: u32 = CountedSites::FORMAT;

    /// The one that comes with the program.
    pub(crate) fn shipped() -> Result<Self, BackgroundFileError> {
        Self::from_bytes(SHIPPED)
    }

    /// Reads what [`Background::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, BackgroundFileError> {
        let counted = CountedSites::from_bytes(bytes)?;
        Ok(Self { counted })
    }

    /// The content of its file.
    #[must_use]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.counted.to_bytes()
    }

    /// A hash of its file, in hexadecimal.
    #[must_use]
    pub(crate) fn fingerprint(&self) -> String {
        format!("{:016x}", xxh3_64(&self.to_bytes()))
    }

    /// The sites, by host.
    #[must_use]
    pub(crate) fn sites(&self) -> &[CountedSite] {
        &self.counted.sites
    }

    /// What was learned over topics, to begin a new one with.
    #[must_use]
    pub(crate) fn prior(&self) -> Option<TopicPrior> {
        self.counted.prior
    }

    /// The same sites with another prior; none if its numbers are beyond use.
    #[must_use]
    pub(crate) fn with_prior(mut self, prior: Option<TopicPrior>) -> Self {
        self.counted.prior = prior.filter(CountedSites::can_hold);
        self
    }

    /// The terms, in the order of their bytes; the ids of pages are indices of it.
    #[must_use]
    pub(crate) fn terms(&self) -> &[Box<str>] {
        &self.counted.terms
    }

    /// A background of these sites, whose terms are in the lexicon.
    #[cfg(test)]
    pub(crate) fn of(sites: &[CorpusSite], lexicon: &Lexicon) -> Self {
        Self::default().extended(sites, lexicon).0
    }

    /// The background with further sites, whose terms are in the lexicon. Terms that were in too few
    /// groups before are not known any more: they come back only if the new sites have them in enough.
    #[must_use]
    pub(crate) fn extended(self, sites: &[CorpusSite], lexicon: &Lexicon) -> (Self, Extension) {
        let mut extension = Extension::default();
        let mut terms = Lexicon::default();
        let old: Vec<Option<TermId>> = number(&mut terms, self.terms().iter().map(|term| &**term));
        let new = (0..).take(lexicon.len()).map(|id| lexicon.term(id));
        let new: Vec<Option<TermId>> = number(&mut terms, new);

        let known: BTreeSet<&SiteId> = self.sites().iter().map(|site| &site.site).collect();
        let mut groups = Groups::default();
        for site in self.sites() {
            groups.add(&site.site, site.group);
        }
        let first_further = u32::try_from(groups.joined_to.len()).expect("fewer groups than sites");
        let mut further = Vec::new();
        for site in sites {
            let group = first_further + site.group;
            // Known sites, too: those of their group join theirs.
            groups.add(&site.site, group);
            if known.contains(&site.site) {
                extension.known.push(site.site.clone());
                continue;
            }
            further.push(CountedSite {
                site: site.site.clone(),
                group,
                pages: renumber(&site.pages, &new),
            });
        }
        let is_new: BTreeSet<SiteId> = further.iter().map(|site| site.site.clone()).collect();
        let old = self.counted.sites.iter().map(|site| CountedSite {
            pages: renumber(&site.pages, &old),
            ..site.clone()
        });
        let mut all: Vec<CountedSite> = old.chain(further).collect();
        for site in &mut all {
            site.group = groups.joined(site.group);
        }
        let counted = CountedSites {
            prior: self.counted.prior,
            ..shared_terms(all, &terms)
        };
        let kept: BTreeSet<&SiteId> = counted.sites.iter().map(|site| &site.site).collect();
        let (added, alone) = is_new.into_iter().partition(|site| kept.contains(site));
        (extension.added, extension.alone) = (added, alone);
        (Self { counted }, extension)
    }
}

fn number<'a>(lexicon: &mut Lexicon, terms: impl Iterator<Item = &'a str>) -> Vec<Option<TermId>> {
    terms.map(|term| lexicon.number(term)).collect()
}

fn renumber(pages: &[CountedPage], ids: &[Option<TermId>]) -> Vec<CountedPage> {
    pages.iter().map(|page| page.renumbered(ids)).collect()
}

/// The sites with those terms alone that enough groups share; pages and sites without any are left out.
fn shared_terms(mut sites: Vec<CountedSite>, lexicon: &Lexicon) -> CountedSites {
    sites.sort_by_key(|site| site.group);
    let groups = sites.iter().map(|site| (site.group, &*site.pages));
    let groups = GroupCounts::of(groups, lexicon.len());
    let mut shared: Vec<TermId> = groups.shared().flatten().collect();
    shared.sort_unstable_by_key(|id| lexicon.term(*id));
    let mut ids: Vec<Option<TermId>> = vec![None; lexicon.len()];
    for (new, id) in (0..).zip(&shared) {
        ids[*id as usize] = Some(new);
    }
    for site in &mut sites {
        site.pages = renumber(&site.pages, &ids);
        site.pages.retain(|page| !page.terms.is_empty());
        for page in &mut site.pages {
            // A fingerprint is of the text.
            page.fingerprint = None;
        }
    }
    sites.retain(|site| !site.pages.is_empty());
    sites.sort_by(|one, other| one.site.cmp(&other.site));
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for site in &mut sites {
        let next = u32::try_from(numbers.len()).expect("fewer groups than sites");
        site.group = *numbers.entry(site.group).or_insert(next);
    }
    let terms = shared.iter().map(|id| lexicon.term(*id).into());
    CountedSites {
        terms: terms.collect(),
        sites,
        prior: None,
    }
}

/// The pages of sites as a background of these sites would know them: with those terms alone that enough
/// groups share. Terms are numbered below `terms`.
#[must_use]
pub(super) fn shared_pages(sites: &[&CorpusSite], terms: usize) -> Vec<Vec<CountedPage>> {
    let mut groups = Groups::default();
    for site in sites {
        groups.add(&site.site, site.group);
    }
    let mut in_order: Vec<(u32, &[CountedPage])> = sites
        .iter()
        .map(|site| (groups.joined(site.group), &*site.pages))
        .collect();
    in_order.sort_by_key(|(group, _)| *group);
    let groups = GroupCounts::of(in_order.into_iter(), terms);
    let ids: Vec<Option<TermId>> = groups.shared().collect();
    sites
        .iter()
        .map(|site| renumber(&site.pages, &ids))
        .collect()
}

/// In how many groups of sites each term occurs.
struct GroupCounts(Vec<u32>);

impl GroupCounts {
    /// Of sites in the order of their groups.
    fn of<'a>(sites: impl Iterator<Item = (u32, &'a [CountedPage])>, terms: usize) -> Self {
        let mut seen_in = vec![None; terms];
        let mut groups = vec![0_u32; terms];
        for (group, pages) in sites {
            for (id, _) in pages.iter().flat_map(|page| &page.terms) {
                let at = *id as usize;
                if seen_in[at] != Some(group) {
                    seen_in[at] = Some(group);
                    groups[at] += 1;
                }
            }
        }
        Self(groups)
    }

    /// The id of each term that enough groups share.
    fn shared(&self) -> impl Iterator<Item = Option<TermId>> {
        let terms = (0..).zip(&self.0);
        terms.map(|(id, groups)| (*groups >= MIN_GROUPS).then_some(id))
    }
}

/// Groups of sites, of which those that share an owner are one: otherwise three hosts of one owner
/// without a common label would pass for three groups that share a word.
#[derive(Default)]
struct Groups {
    /// A group of the same owner, by registrable domain, which is one owner.
    of_owners: BTreeMap<String, u32>,
    /// For each group one that it is joined to, down to one that is joined to itself.
    joined_to: Vec<u32>,
}

impl Groups {
    /// Adds a site to a group.
    fn add(&mut self, site: &SiteId, group: u32) {
        let known = u32::try_from(self.joined_to.len()).expect("groups have numbers of 32 bits");
        self.joined_to.extend(known..=group);
        let owner = site.registrable_domain();
        match self.of_owners.get(owner) {
            Some(same) => self.join(*same, group),
            None => {
                self.of_owners.insert(owner.to_owned(), group);
            }
        }
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.joined(one), self.joined(other));
        self.joined_to[one.max(other) as usize] = one.min(other);
    }

    /// The number that all groups joined to this one share.
    fn joined(&self, mut group: u32) -> u32 {
        while self.joined_to[group as usize] != group {
            group = self.joined_to[group as usize];
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::training::Corpus;
    use crate::web::{PageKind, PageTerms};

    /// Sites of one page each: host, group, words.
    fn corpus(sites: &[(&str, u32, &str)]) -> Corpus {
        let mut corpus = Corpus::default();
        for (host, group, words) in sites {
            let words = words.split(' ').map(|word| (word, [0, 0, 2, 0, 0, 0]));
            let terms = PageTerms::of_words(None, words, |term| corpus.lexicon.number(term));
            corpus.sites.push(CorpusSite {
                site: host.parse().unwrap(),
                topic: "x".to_owned(),
                group: *group,
                pages: vec![CountedPage::new(&terms, PageKind::Homepage, None)],
            });
        }
        corpus
    }

    fn background(sites: &[(&str, u32, &str)]) -> Background {
        let corpus = corpus(sites);
        Background::of(&corpus.sites, &corpus.lexicon)
    }

    fn words(background: &Background) -> Vec<&str> {
        background.terms().iter().map(|term| &**term).collect()
    }

    fn hosts(background: &Background) -> Vec<&str> {
        background
            .sites()
            .iter()
            .map(|site| site.site.as_str())
            .collect()
    }

    const FOUR: [(&str, u32, &str); 4] = [
        ("d.example", 7, "sail boat tide"),
        ("c.example", 7, "sail boat tide anna"),
        ("b.example", 3, "sail boat"),
        ("a.example", 5, "boat sail bread"),
    ];

    #[test]
    fn terms_of_fewer_than_three_groups_are_dropped() {
        let four = background(&FOUR);
        // Of «tide» two sites speak, but they are one group.
        assert_eq!(words(&four), ["boat", "sail"]);
        assert_eq!(
            hosts(&four),
            ["a.example", "b.example", "c.example", "d.example"]
        );
        let groups: Vec<u32> = four.sites().iter().map(|site| site.group).collect();
        assert_eq!(groups, [0, 1, 2, 2]);
        assert_eq!(four.sites()[0].pages[0].terms, [(0, 2.0), (1, 2.0)]);
        assert_eq!(Background::from_bytes(&four.to_bytes()), Ok(four));
    }

    #[test]
    fn further_sites_are_added_and_known_ones_left_as_they_are() {
        let further = corpus(&[
            ("e.example", 0, "boat rope"),
            ("f.example", 1, "rope"),
            ("g.example", 2, "rope yarn"),
            ("h.example", 4, "yarn"),
            ("a.example", 9, "rope"),
        ]);
        let (background, extension) = background(&FOUR).extended(&further.sites, &further.lexicon);
        assert_eq!(words(&background), ["boat", "rope", "sail"]);
        let names = |sites: &[SiteId]| sites.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            names(&extension.added),
            ["e.example", "f.example", "g.example"]
        );
        assert_eq!(names(&extension.known), ["a.example"]);
        assert_eq!(names(&extension.alone), ["h.example"]);
        assert_eq!(background.sites().len(), 7);
        assert_eq!(background.sites()[0].pages[0].terms, [(0, 2.0), (2, 2.0)]);
    }

    /// Otherwise a user who adds three hosts of one owner could keep what that owner alone writes.
    #[test]
    fn further_sites_of_a_known_owner_join_its_group() {
        let further = corpus(&[
            ("news.a.example", 0, "bread"),
            ("e.example", 0, "bread"),
            ("f.example", 1, "bread"),
        ]);
        let known = [
            ("a.example", 0, "boat"),
            ("b.example", 1, "boat"),
            ("c.example", 2, "boat bread"),
        ];
        let (both, _) = background(&known).extended(&further.sites, &further.lexicon);
        // «bread» of c.example is forgotten, and there are two groups with the word now.
        assert_eq!(words(&both), ["boat"]);
        let shop = corpus(&[("shop.a.co.uk", 0, "boat"), ("news.a.co.uk", 1, "boat")]);
        let known = [
            ("a.co.uk", 0, "boat"),
            ("b.co.uk", 1, "boat"),
            ("c.co.uk", 2, "boat"),
        ];
        let (both, _) = background(&known).extended(&shop.sites, &shop.lexicon);
        let of_a = both
            .sites()
            .iter()
            .filter(|site| site.site.as_str().contains("a.co.uk"));
        let groups: BTreeSet<u32> = of_a.map(|site| site.group).collect();
        assert_eq!(groups.len(), 1);
    }

    #[test]
    fn new_sites_of_one_owner_are_one_group_without_a_common_label() {
        let sites = [
            ("a.example", 0, "boat anna"),
            ("news.a.example", 1, "boat anna"),
            ("shop.a.example", 2, "boat anna"),
            ("b.example", 3, "boat"),
            ("c.example", 4, "boat"),
        ];
        let made = background(&sites);
        assert_eq!(words(&made), ["boat"]);
        let groups: Vec<u32> = made.sites().iter().map(|site| site.group).collect();
        assert_eq!(groups, [0, 1, 2, 0, 0]);
        let corpus = corpus(&sites);
        let shared = shared_pages(
            &corpus.sites.iter().collect::<Vec<_>>(),
            corpus.lexicon.len(),
        );
        assert!(shared.iter().flatten().all(|page| page.terms.len() == 1));

        // Added to others, too.
        let known = [
            ("d.example", 0, "boat"),
            ("e.example", 1, "boat"),
            ("f.example", 2, "boat"),
        ];
        let (added, _) = background(&known).extended(&corpus.sites, &corpus.lexicon);
        assert_eq!(words(&added), ["boat"]);
    }

    /// A label joins owners, an owner joins labels, and both hold for groups that were known.
    #[test]
    fn groups_are_joined_by_any_chain_of_owners_and_labels() {
        let further = corpus(&[
            ("x.a.example", 3, "bread"),
            ("y.b.example", 3, "bread"),
            ("z.b.example", 8, "bread"),
            ("c.example", 8, "bread"),
            ("d.example", 9, "bread"),
        ]);
        let known = [
            ("a.example", 0, "boat"),
            ("b.example", 1, "boat"),
            ("c.example", 2, "boat"),
            ("d.example", 3, "boat bread"),
            ("e.example", 4, "boat bread"),
            ("f.example", 5, "boat bread"),
        ];
        let (both, extension) = background(&known).extended(&further.sites, &further.lexicon);
        assert_eq!(words(&both), ["boat", "bread"]);
        assert_eq!(extension.known.len(), 2);
        let groups: Vec<u32> = both.sites().iter().map(|site| site.group).collect();
        assert_eq!(
            hosts(&both).into_iter().zip(groups).collect::<Vec<_>>(),
            [
                ("a.example", 0),
                ("b.example", 0),
                ("c.example", 0),
                ("d.example", 1),
                ("e.example", 2),
                ("f.example", 3),
                ("x.a.example", 0),
                ("y.b.example", 0),
                ("z.b.example", 0),
            ]
        );
    }

    #[test]
    fn labels_override_the_background_with_their_owners_and_groups() {
        let background = background(&[
            ("a.example", 0, "boat sail"),
            ("twin-of-a.example", 0, "boat sail"),
            ("b.example", 1, "boat sail"),
            ("c.example", 2, "boat sail"),
        ]);
        let mut corpus = corpus(&[("z.example", 0, "tide boat"), ("y.example", 4, "sail")]);
        corpus
            .unreachable
            .push(("a.example".parse().unwrap(), "gone".to_owned()));
        corpus.add_background(&background);
        let added: Vec<(&str, u32)> = (corpus.background.iter())
            .map(|site| (site.site.as_str(), site.group))
            .collect();
        assert_eq!(added, [("b.example", 5), ("c.example", 6)]);
        let page = &corpus.background[0].pages[0];
        assert!(page.terms.is_sorted_by(|one, other| one.0 < other.0));
        let mut found: Vec<&str> = page
            .terms
            .iter()
            .map(|(id, _)| corpus.lexicon.term(*id))
            .collect();
        found.sort_unstable();
        assert_eq!(found, ["boat", "sail"]);
        let examples = corpus.examples("x");
        let kinds: Vec<(bool, bool)> = (examples.iter())
            .map(|site| (site.is_target(), site.is_background))
            .collect();
        assert_eq!(
            kinds,
            [(true, false), (true, false), (false, true), (false, true)]
        );
        // «other» can be learned by nobody, and a background is of no topic.
        assert!(
            corpus
                .examples("other")
                .iter()
                .all(|site| !(site.is_background && site.is_target()))
        );
    }

    /// The number of groups that have each term.
    fn groups_with_term(background: &Background) -> Vec<usize> {
        let mut groups = vec![BTreeSet::new(); background.terms().len()];
        for site in background.sites() {
            for (id, _) in site.pages.iter().flat_map(|page| &page.terms) {
                groups[*id as usize].insert(site.group);
            }
        }
        groups.iter().map(BTreeSet::len).collect()
    }

    #[test]
    fn what_comes_with_the_program_is_small_and_names_nobody() {
        assert!(SHIPPED.len() <= 8 << 20, "{} bytes", SHIPPED.len());
        let shipped = Background::shipped().unwrap();
        assert!(
            shipped.to_bytes() == SHIPPED,
            "the same content, other bytes"
        );
        let groups = groups_with_term(&shipped);
        let lonely: Vec<&Box<str>> = (shipped.terms().iter().zip(&groups))
            .filter(|(_, groups)| **groups < 3)
            .map(|(term, _)| term)
            .collect();
        assert!(lonely.is_empty(), "{lonely:?}");
    }

    proptest! {
        /// Adding sites in two steps knows no more than making the background of all at once.
        #[test]
        fn no_term_is_in_fewer_than_three_groups(
            sites in prop::collection::vec((0_u32..9, prop::collection::vec(0_usize..12, 1..6)), 1..24),
            cut in any::<prop::sample::Index>(),
        ) {
            let sites: Vec<(String, u32, String)> = sites.into_iter().enumerate().map(|(at, (group, words))| {
                let words: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
                (format!("s{at:02}.example"), group, words.join(" "))
            }).collect();
            let sites: Vec<(&str, u32, &str)> =
                sites.iter().map(|(host, group, words)| (&**host, *group, &**words)).collect();
            let cut = cut.index(sites.len());
            let further = corpus(&sites[cut..]);
            let (both, extension) =
                background(&sites[..cut]).extended(&further.sites, &further.lexicon);
            prop_assert_eq!(extension.added.len() + extension.alone.len(), sites.len() - cut);
            for background in [background(&sites), both] {
                let groups = groups_with_term(&background);
                prop_assert!(groups.iter().all(|groups| *groups >= 3), "{:?}", groups);
                prop_assert_eq!(Background::from_bytes(&background.to_bytes()), Ok(background));
            }
        }
    }
}
