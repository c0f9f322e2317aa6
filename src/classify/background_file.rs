//! The file format of a background, sites of many kinds as counts of terms: a [`SealedFile`].
//!
//! A page is its kind, its language, and the ids of its terms in ascending order with their counts: the
//! order of words is not there, and neither is any text. An id is written as its distance from the one
//! before, so that most take one byte.
//!
//! Invariant: sites that were read can be learned from without panic: ids are within the table of terms,
//! all lists ascend, hosts are canonical, counts are exact in single precision. The same sites give the
//! same bytes.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::web::{Language, PageKind, SiteId};

use super::example::{CountedPage, TermId};
use super::sealed_file::{BrokenSeal, SealedFile};
use super::topic_prior::TopicPrior;

/// Incremented whenever an existing file would be read differently: also when terms, weights of parts or
/// kinds of page change their meaning.
const VERSION: u32 = 1;

const FILE: SealedFile = SealedFile {
    magic: b"sitescout terms\n",
    version: VERSION,
};

/// Whole numbers up to this are exact in single precision. Counts stay far below:
/// [`super::example::weighted_count`] is bounded by 655,350.
const MAX_COUNT: u32 = 1 << 24;

/// Bound of what was learned over topics: log-odds, scores and their ratios are far below, and what is
/// computed with them stays finite.
const MAX_OF_PRIOR: f64 = 1e3;

/// Sites as counts of terms, without a lexicon, and what was learned over the topics among them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CountedSites {
    /// In the order of their bytes; the ids of pages are indices of it.
    pub(crate) terms: Vec<Box<str>>,
    /// By host.
    pub(crate) sites: Vec<CountedSite>,
    /// None if no topic had sites enough.
    pub(crate) prior: Option<TopicPrior>,
}

/// A site of no topic in particular.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CountedSite {
    pub(crate) site: SiteId,
    /// Sites of one group share an owner, a designer or a text. Less than the number of sites.
    pub(crate) group: u32,
    /// In breadth-first order, without fingerprints: near-duplicates were left out.
    pub(crate) pages: Vec<CountedPage>,
}

/// Why bytes are not a usable background.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum BackgroundFileError {
    /// Not a background file.
    #[error(
        "this is not a background; set `background` in [training] to one, or leave it empty to use the one \
         that comes with the program; `sitescout background make`, and `background add` with the name of a \
         file that is not there yet, make one"
    )]
    NotABackground,
    /// Written by another version of the program, not damaged.
    #[error(
        "the background has format {found}, this sitescout reads format {VERSION}; make it again with \
         `sitescout background make`, or rename it and run `sitescout background add`, which then begins \
         with the one that comes with the program, or use the sitescout that made it"
    )]
    OtherVersion {
        /// The format of the file.
        found: u32,
    },
    /// Length, checksum or content is wrong.
    #[error(
        "the background is damaged ({0}); restore it, make it again with `sitescout background make`, or \
         rename it and run `sitescout background add`, which then begins with the one that comes with the \
         program, or leave `background` in [training] empty to use that one"
    )]
    Damaged(&'static str),
}

const SENSELESS: BackgroundFileError = BackgroundFileError::Damaged("its content makes no sense");

impl From<BrokenSeal> for BackgroundFileError {
    fn from(broken: BrokenSeal) -> Self {
        match broken {
            BrokenSeal::OtherKind => Self::NotABackground,
            BrokenSeal::OtherVersion(found) => Self::OtherVersion { found },
            BrokenSeal::Damaged(what) => Self::Damaged(what),
        }
    }
}

/// The serialised part.
#[derive(Serialize, Deserialize)]
struct StoredSites {
    terms: Vec<Box<str>>,
    sites: Vec<StoredSite>,
    prior: Option<TopicPrior>,
}

#[derive(Serialize, Deserialize)]
struct StoredSite {
    host: Box<str>,
    group: u32,
    pages: Vec<StoredPage>,
}

#[derive(Serialize, Deserialize)]
struct StoredPage {
    /// The index in [`PageKind::ALL`].
    kind: u8,
    /// The code; empty if it is not known.
    language: Box<str>,
    /// How many ids are left out before this one, and its count.
    terms: Vec<(u32, u32)>,
}

// === impl CountedSites ===

impl CountedSites {
    /// The format that [`CountedSites::to_bytes`] writes.
    pub(crate) const FORMAT: u32 = VERSION;

    /// Whether a file with this prior would be read again.
    #[must_use]
    pub(crate) fn can_hold(prior: &TopicPrior) -> bool {
        let numbers = [prior.slope, prior.base, prior.gap, prior.strength];
        prior.is_sound() && numbers.iter().all(|number| number.abs() <= MAX_OF_PRIOR)
    }

    /// The content of the file.
    #[must_use]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let stored = StoredSites {
            terms: self.terms.clone(),
            sites: self.sites.iter().map(StoredSite::of).collect(),
            prior: self.prior,
        };
        let payload =
            postcard::to_stdvec(&stored).expect("plain numbers and texts can be written to memory");
        FILE.seal(&payload)
    }

    /// Reads what [`CountedSites::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, BackgroundFileError> {
        let (stored, rest): (StoredSites, &[u8]) =
            postcard::take_from_bytes(FILE.unseal(bytes)?).map_err(|_| SENSELESS)?;
        let counted = rest.is_empty().then(|| stored.counted()).flatten();
        counted.ok_or(SENSELESS)
    }
}

// === impl StoredSites ===

impl StoredSites {
    /// None if anything is not as it is written.
    fn counted(self) -> Option<CountedSites> {
        let ascend = self.terms.is_sorted_by(|one, other| one < other);
        let has_empty = self.terms.first().is_some_and(|term| term.is_empty());
        if !ascend || has_empty {
            return None;
        }
        let terms = TermId::try_from(self.terms.len()).ok()?;
        let sites = self.sites.into_iter().map(|site| site.counted(terms));
        let sites: Vec<CountedSite> = sites.collect::<Option<_>>()?;
        let ascend = sites.is_sorted_by(|one, other| one.site < other.site);
        let are_numbered = (sites.iter()).all(|site| (site.group as usize) < sites.len());
        let is_sound = self.prior.as_ref().is_none_or(CountedSites::can_hold);
        (ascend && are_numbered && is_sound).then_some(CountedSites {
            terms: self.terms,
            sites,
            prior: self.prior,
        })
    }
}

// === impl StoredSite ===

impl StoredSite {
    fn of(site: &CountedSite) -> Self {
        Self {
            host: site.site.as_str().into(),
            group: site.group,
            pages: site.pages.iter().map(StoredPage::of).collect(),
        }
    }

    fn counted(self, terms: TermId) -> Option<CountedSite> {
        let site: SiteId = self.host.parse().ok()?;
        let is_canonical = site.as_str() == &*self.host && !self.pages.is_empty();
        let pages = self.pages.iter().map(|page| page.counted(terms));
        let pages: Vec<CountedPage> = pages.collect::<Option<_>>()?;
        is_canonical.then_some(CountedSite {
            site,
            group: self.group,
            pages,
        })
    }
}

// === impl StoredPage ===

impl StoredPage {
    fn of(page: &CountedPage) -> Self {
        let kind = PageKind::ALL.iter().position(|kind| *kind == page.kind);
        let language = page.language.as_ref();
        let mut next = 0;
        let terms = page.terms.iter().map(|(id, count)| {
            let left_out = id - next;
            next = id + 1;
            (left_out, whole(*count))
        });
        Self {
            kind: kind
                .and_then(|kind| u8::try_from(kind).ok())
                .expect("every kind is one of a few"),
            language: language.map_or("", Language::code).into(),
            terms: terms.collect(),
        }
    }

    fn counted(&self, terms: TermId) -> Option<CountedPage> {
        let kind = *PageKind::ALL.get(usize::from(self.kind))?;
        let language = Language::from_tag(&self.language);
        if language.as_ref().map_or("", Language::code) != &*self.language {
            return None;
        }
        let mut next: TermId = 0;
        let counted = self.terms.iter().map(|(left_out, count)| {
            let id = next.checked_add(*left_out).filter(|id| *id < terms)?;
            next = id + 1;
            let is_exact = (1..=MAX_COUNT).contains(count);
            is_exact.then_some((id, single(*count)))
        });
        Some(CountedPage {
            kind,
            language,
            fingerprint: None,
            terms: counted.collect::<Option<_>>()?,
        })
    }
}

/// The count of a page as a whole number, which it is: weights of parts are whole numbers.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole numbers far below 2^24"
)]
fn whole(count: f32) -> u32 {
    count as u32
}

#[allow(
    clippy::cast_precision_loss,
    reason = "whole numbers up to 2^24 are exact"
)]
fn single(count: u32) -> f32 {
    count as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn page() -> impl Strategy<Value = CountedPage> {
        let terms = prop::collection::btree_map(0_u32..8, 1_u32..=655_350, 0..8);
        let language = prop::option::of(prop::sample::select(vec!["en", "de", "gsw"]));
        let kind = prop::sample::select(PageKind::ALL.to_vec());
        (kind, language, terms).prop_map(|(kind, language, terms)| CountedPage {
            kind,
            language: language.and_then(Language::from_tag),
            fingerprint: None,
            terms: terms
                .into_iter()
                .map(|(id, count)| (id, single(count)))
                .collect(),
        })
    }

    fn counted_sites() -> impl Strategy<Value = CountedSites> {
        let pages = prop::collection::vec(page(), 1..4);
        let sites = prop::collection::btree_map(0_u32..100, (any::<Index>(), pages), 0..5);
        sites.prop_map(|sites| {
            let number = sites.len();
            let sites = sites.into_iter().map(|(at, (group, pages))| CountedSite {
                site: format!("s{at:03}.example").parse().unwrap(),
                group: u32::try_from(group.index(number)).unwrap(),
                pages,
            });
            let terms = [
                "anchor", "boat", "crew", "dock", "fähre", "gull", "été", "帆",
            ];
            CountedSites {
                terms: terms.map(Box::from).to_vec(),
                sites: sites.collect(),
                prior: (number % 2 == 1).then_some(TopicPrior::NONE),
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(sites in counted_sites()) {
            let bytes = sites.to_bytes();
            let again = CountedSites::from_bytes(&bytes).unwrap();
            prop_assert_eq!(&again, &sites);
            prop_assert_eq!(again.to_bytes(), bytes);
        }

        /// A checksum detects accidents, not forgery: any payload with a valid one is refused, or is
        /// a background that is sound.
        #[test]
        fn a_forged_background_is_refused_or_sound(
            sites in counted_sites(),
            changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        ) {
            let mut payload = FILE.unseal(&sites.to_bytes()).unwrap().to_vec();
            for (at, byte) in changes {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
            if let Ok(forged) = CountedSites::from_bytes(&FILE.seal(&payload)) {
                prop_assert!(forged.terms.is_sorted_by(|one, other| one < other));
                for page in forged.sites.iter().flat_map(|site| &site.pages) {
                    prop_assert!(page.terms.is_sorted_by(|one, other| one.0 < other.0));
                    for (id, count) in &page.terms {
                        prop_assert!((*id as usize) < forged.terms.len() && *count >= 1.0);
                    }
                }
            }
        }

        #[test]
        fn any_bytes_are_a_background_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = CountedSites::from_bytes(&bytes);
            let _ = CountedSites::from_bytes(&FILE.seal(&bytes));
        }
    }

    /// A slope of 0 or of NaN would judge all sites alike, and so would enormous numbers: a checksum
    /// does not detect those.
    #[test]
    fn a_prior_that_cannot_be_used_is_refused() {
        let read = |prior| {
            let payload = postcard::to_stdvec(&StoredSites {
                terms: Vec::new(),
                sites: Vec::new(),
                prior: Some(prior),
            });
            CountedSites::from_bytes(&FILE.seal(&payload.unwrap()))
        };
        let usual = TopicPrior {
            slope: 1.5,
            base: -2.0,
            gap: 3.0,
            strength: 3.0,
            ..TopicPrior::NONE
        };
        assert_eq!(read(usual).unwrap().prior, Some(usual));
        for number in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e4, f64::MAX] {
            let slope = TopicPrior {
                slope: number,
                ..usual
            };
            let strength = TopicPrior {
                strength: number,
                ..usual
            };
            assert_eq!(read(slope), Err(SENSELESS), "slope {number}");
            assert_eq!(read(strength), Err(SENSELESS), "strength {number}");
        }
        for number in [f64::NAN, f64::NEG_INFINITY, -1e4, 1e300] {
            let base = TopicPrior {
                base: number,
                ..usual
            };
            let gap = TopicPrior {
                gap: number,
                ..usual
            };
            let gamma = TopicPrior {
                gamma: number,
                ..usual
            };
            for (name, prior) in [("base", base), ("gap", gap), ("gamma", gamma)] {
                assert_eq!(read(prior), Err(SENSELESS), "{name} {number}");
            }
        }
    }

    #[test]
    fn each_rule_of_the_content_is_checked() {
        let page = |language: &str, terms: &[(u32, u32)]| StoredPage {
            kind: 0,
            language: language.into(),
            terms: terms.to_vec(),
        };
        let site = |host: &str, pages| StoredSite {
            host: host.into(),
            group: 0,
            pages,
        };
        let read = |terms: &[&str], sites| {
            let terms = terms.iter().map(|term| Box::from(*term)).collect();
            let payload = postcard::to_stdvec(&StoredSites {
                terms,
                sites,
                prior: None,
            })
            .unwrap();
            CountedSites::from_bytes(&FILE.seal(&payload))
        };
        let terms = ["boat", "sail"];
        let good = || vec![page("en", &[(0, 1), (0, 3)])];
        let read_well = read(
            &terms,
            vec![site("a.example", good()), site("b.example", good())],
        );
        assert_eq!(
            read_well.unwrap().sites[1].pages[0].terms,
            [(0, 1.0), (1, 3.0)]
        );
        let of_page = |page| vec![site("a.example", vec![page])];
        for (what, refused) in [
            ("terms descend", read(&["sail", "boat"], Vec::new())),
            ("a term twice", read(&["boat", "boat"], Vec::new())),
            ("an empty term", read(&["", "boat"], Vec::new())),
            ("no host", read(&terms, vec![site("..", good())])),
            (
                "another spelling",
                read(&terms, vec![site("www.A.example", good())]),
            ),
            (
                "no pages",
                read(&terms, vec![site("a.example", Vec::new())]),
            ),
            (
                "a host twice",
                read(
                    &terms,
                    vec![site("a.example", good()), site("a.example", good())],
                ),
            ),
            (
                "a group beyond",
                read(
                    &terms,
                    vec![StoredSite {
                        group: 1,
                        ..site("a.example", good())
                    }],
                ),
            ),
            ("an id beyond", read(&terms, of_page(page("en", &[(2, 1)])))),
            (
                "an id overflows",
                read(&terms, of_page(page("en", &[(0, 1), (u32::MAX, 1)]))),
            ),
            ("no count", read(&terms, of_page(page("en", &[(0, 0)])))),
            (
                "a huge count",
                read(&terms, of_page(page("en", &[(0, u32::MAX)]))),
            ),
            (
                "no language",
                read(&terms, of_page(page("en-GB", &[(0, 1)]))),
            ),
            (
                "no kind",
                read(
                    &terms,
                    of_page(StoredPage {
                        kind: 3,
                        ..page("en", &[(0, 1)])
                    }),
                ),
            ),
        ] {
            assert_eq!(refused, Err(SENSELESS), "{what}");
        }
    }
}
