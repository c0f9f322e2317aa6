//! The sites that a model was learned from, each with the verdict of a page classifier that had not
//! seen it: how far to trust the model, and what would change with another one.
//!
//! Kept as a file beside the model, so that a model that is learned anew can be compared with the one
//! before without its pages.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::web::{ModelFingerprint, SiteId};

use super::corpus::Corpus;
use super::fit::Validation;
use super::measures::{Outcome, count};

/// The normal quantile of a two-sided interval of 95 %.
const Z: f64 = 1.959_964;

/// What a site was learned from as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownRole {
    /// A person says that it is of the topic.
    Example,
    /// A person says that it is not.
    Rejected,
    /// A site of the background.
    Background,
    /// A site of the background that looks like the examples, and was not learned from.
    LeftOut,
}

/// A site that was learned from, or left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownSite {
    pub(crate) site: SiteId,
    /// Sites of one group count as one.
    group: u32,
    pub(crate) role: KnownRole,
    /// None if the site was not held out.
    pub(crate) confidence: Option<f64>,
    /// Whether it would be found relevant.
    pub(crate) passes: bool,
}

/// All sites of a model, ordered as they were learned from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownSites {
    model: String,
    pub(crate) sites: Vec<KnownSite>,
}

/// Precision and recall on held-out sites, groups counting as one site.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reliability {
    /// If no site of the background is of the topic. None if no site was found relevant.
    pub(crate) precision: Option<Proportion>,
    /// If all those are that were found relevant: nobody has looked at them.
    pub(crate) precision_at_best: Option<Proportion>,
    pub(crate) recall: Option<Proportion>,
}

/// A measured share, with its Wilson score interval of 95 % (Wilson: Probable Inference, the Law of
/// Succession, and Statistical Inference, 1927). Unlike a bootstrap, it is not empty where all of a few
/// examples were found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Proportion {
    pub(crate) share: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

// === impl KnownSites ===

impl KnownSites {
    /// The sites of a corpus, as the validation of this model judged them.
    #[must_use]
    pub(crate) fn of(
        corpus: &Corpus,
        topic: &str,
        validation: &Validation,
        model: ModelFingerprint,
    ) -> Self {
        let mut outcomes = validation.outcomes.iter();
        let judge = |(at, example): (usize, crate::classify::ExampleSite<'_>)| {
            let is_left_out = validation.suspects.contains(&at);
            let outcome: Option<&Outcome> = if is_left_out { None } else { outcomes.next() };
            let role = match (is_left_out, example.is_target(), example.is_background) {
                (true, ..) => KnownRole::LeftOut,
                (_, true, _) => KnownRole::Example,
                (_, _, true) => KnownRole::Background,
                _ => KnownRole::Rejected,
            };
            KnownSite {
                site: example.site.clone(),
                group: example.group,
                role,
                confidence: outcome.map(|outcome| outcome.confidence.get()),
                passes: outcome.map_or(is_left_out, |outcome| outcome.is_relevant),
            }
        };
        let examples = corpus.examples(topic).into_iter().enumerate();
        Self {
            sites: examples.map(judge).collect(),
            model: model.to_string(),
        }
    }

    /// The content of its file.
    #[must_use]
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!(
            "# The sites that this model was learned from: host, group, what it was learned from as, and\n\
             # confidence and verdict of a page classifier that had not seen it.\n# model {}\n",
            self.model
        );
        for site in &self.sites {
            let confidence = site.confidence;
            let confidence = confidence.map_or("-".to_owned(), |number| format!("{number:.4}"));
            let verdict = if site.passes {
                "relevant"
            } else {
                "irrelevant"
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{}\t{}\t{}\t{confidence}\t{verdict}",
                site.site,
                site.group,
                site.role.name()
            );
        }
        text
    }

    /// Reads what [`KnownSites::to_text`] wrote for this model; none for another model or text.
    #[must_use]
    pub(crate) fn parse(text: &str, model: ModelFingerprint) -> Option<Self> {
        let model = model.to_string();
        let mut lines = text.lines();
        lines.find(|line| line.strip_prefix("# model ") == Some(&*model))?;
        let site = |line: &str| {
            let mut fields = line.split('\t');
            Some(KnownSite {
                site: fields.next()?.parse().ok()?,
                group: fields.next()?.parse().ok()?,
                role: KnownRole::of_name(fields.next()?)?,
                confidence: match fields.next()? {
                    "-" => None,
                    number => Some(number.parse().ok()?),
                },
                passes: fields.next()? == "relevant",
            })
        };
        let sites: Option<Vec<KnownSite>> = lines.map(site).collect();
        sites.map(|sites| Self { model, sites })
    }

    pub(crate) fn with_role(&self, role: KnownRole) -> impl Iterator<Item = &KnownSite> {
        self.sites.iter().filter(move |site| site.role == role)
    }

    /// Number of groups of examples.
    #[must_use]
    pub(crate) fn groups_of_examples(&self) -> usize {
        self.found_by_group(KnownRole::Example).len()
    }

    /// How far the model can be trusted. Nobody has said what the sites of the background are that look like
    /// the topic, whether they were left out or pass: they bound the precision.
    #[must_use]
    pub(crate) fn reliability(&self) -> Reliability {
        let examples = self.found_by_group(KnownRole::Example);
        let found: f64 = examples.iter().sum();
        let passing = |role| self.found_by_group(role).iter().sum::<f64>();
        let rejected = passing(KnownRole::Rejected);
        let of_background = passing(KnownRole::Background) + passing(KnownRole::LeftOut);
        let passing = found + rejected + of_background;
        Reliability {
            precision: Proportion::of(found, passing),
            precision_at_best: Proportion::of(found + of_background, passing),
            recall: Proportion::of(found, count(examples.len())),
        }
    }

    /// In how many of all pairs of an example and another site the example has the higher confidence; 1/2
    /// if examples are no more alike than sites drawn at random. None if nothing was held out.
    #[must_use]
    pub(crate) fn separation(&self) -> Option<f64> {
        let confidences = |role| self.with_role(role).filter_map(|site| site.confidence);
        let examples: Vec<f64> = confidences(KnownRole::Example).collect();
        let mut others: Vec<f64> = confidences(KnownRole::Background).collect();
        others.extend(confidences(KnownRole::Rejected));
        let pairs = count(examples.len()) * count(others.len());
        let wins = examples.iter().flat_map(|example| {
            others
                .iter()
                .map(move |other| match example.total_cmp(other) {
                    std::cmp::Ordering::Greater => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Less => 0.0,
                })
        });
        (pairs > 0.0).then(|| wins.sum::<f64>() / pairs)
    }

    /// The sites known before that are found relevant now and were not, and those that were and are not
    /// any more.
    #[must_use]
    pub(crate) fn changes_since<'a>(
        &'a self,
        before: &Self,
    ) -> (Vec<&'a KnownSite>, Vec<&'a KnownSite>) {
        let passed = before.sites.iter().map(|site| (&site.site, site.passes));
        let passed: BTreeMap<&SiteId, bool> = passed.collect();
        let changed = self.sites.iter().filter(|site| {
            let passed = passed.get(&site.site);
            passed.is_some_and(|passed| *passed != site.passes)
        });
        changed.partition(|site| site.passes)
    }

    /// The share of each group that was found relevant.
    fn found_by_group(&self, role: KnownRole) -> Vec<f64> {
        let mut groups: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for site in self.with_role(role) {
            let (found, sites) = groups.entry(site.group).or_default();
            *found += f64::from(u8::from(site.passes));
            *sites += 1.0;
        }
        let groups = groups.into_values();
        groups.map(|(found, sites)| found / sites).collect()
    }
}

// === impl KnownRole ===

impl KnownRole {
    const ALL: [Self; 4] = [
        Self::Example,
        Self::Rejected,
        Self::Background,
        Self::LeftOut,
    ];

    /// The name in the file, and for people.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Example => "example",
            Self::Rejected => "rejected",
            Self::Background => "background",
            Self::LeftOut => "left out",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

// === impl Proportion ===

impl Proportion {
    /// None of nothing.
    #[must_use]
    fn of(part: f64, whole: f64) -> Option<Self> {
        if whole <= 0.0 {
            return None;
        }
        let share = part / whole;
        let spread = Z * Z / whole;
        let middle = (share + spread / 2.0) / (1.0 + spread);
        let half = (share * (1.0 - share) * spread + spread * spread / 4.0).sqrt() / (1.0 + spread);
        Some(Self {
            share,
            low: (middle - half).max(0.0),
            high: (middle + half).min(1.0),
        })
    }
}

impl fmt::Display for Proportion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { share, low, high } = self;
        write!(f, "{share:.2} ({low:.2} to {high:.2})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(host: &str, group: u32, role: KnownRole, confidence: f64) -> KnownSite {
        KnownSite {
            site: host.parse().unwrap(),
            group,
            role,
            confidence: Some(confidence),
            passes: confidence > 0.5,
        }
    }

    fn fingerprint(bits: u64) -> ModelFingerprint {
        ModelFingerprint::from_bits(bits)
    }

    fn known(sites: Vec<KnownSite>) -> KnownSites {
        KnownSites {
            model: fingerprint(7).to_string(),
            sites,
        }
    }

    fn some() -> KnownSites {
        let left_out = KnownSite {
            confidence: None,
            passes: true,
            ..site("e.example", 4, KnownRole::LeftOut, 0.0)
        };
        known(vec![
            site("a.example", 0, KnownRole::Example, 0.9),
            site("b.example", 0, KnownRole::Example, 0.3),
            site("c.example", 1, KnownRole::Example, 0.8),
            site("r.example", 2, KnownRole::Rejected, 0.6),
            site("d.example", 3, KnownRole::Background, 0.1),
            left_out,
        ])
    }

    /// By hand: of 5 of 5 the lower end is
    /// 5 / (5 + z²) = 0.5655, of 9 of 10 the interval is 0.5958 to 0.9821.
    #[test]
    fn intervals_of_few_sites() {
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-4, "{found}");
        let all = Proportion::of(5.0, 5.0).unwrap();
        close(all.low, 0.5655);
        close(all.high, 1.0);
        let most = Proportion::of(9.0, 10.0).unwrap();
        close(most.low, 0.5958);
        close(most.high, 0.9821);
        assert_eq!(Proportion::of(0.0, 0.0), None);
        assert_eq!(all.to_string(), "1.00 (0.57 to 1.00)");
    }

    /// By hand: of the group of two one half is found, so 1.5 of 2 groups; one find is false, and one was
    /// left out and may be either. The pairs: 0.9 and 0.8 are above 0.6 and 0.1, 0.3 is above 0.1: five of
    /// six.
    #[test]
    fn groups_count_as_one_and_what_nobody_looked_at_bounds_the_precision() {
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        let reliability = some().reliability();
        close(reliability.recall.unwrap().share, 0.75);
        close(reliability.precision.unwrap().share, 1.5 / 3.5);
        close(reliability.precision_at_best.unwrap().share, 2.5 / 3.5);
        let mut doubtful = some();
        doubtful.sites[4].passes = true;
        let reliability = doubtful.reliability();
        close(reliability.precision.unwrap().share, 1.5 / 4.5);
        close(reliability.precision_at_best.unwrap().share, 3.5 / 4.5);
        close(some().separation().unwrap(), 5.0 / 6.0);
        assert_eq!(some().groups_of_examples(), 2);
        assert_eq!(known(Vec::new()).separation(), None);
    }

    #[test]
    fn the_file_is_read_back_for_its_own_model_alone() {
        let text = some().to_text();
        assert_eq!(KnownSites::parse(&text, fingerprint(7)), Some(some()));
        assert_eq!(KnownSites::parse(&text, fingerprint(8)), None);
        assert_eq!(KnownSites::parse("", fingerprint(7)), None);
        let cut = &text[..text.len() - 15];
        assert_eq!(KnownSites::parse(cut, fingerprint(7)), None);
    }

    #[test]
    fn sites_that_change_sides_are_those_known_before() {
        let before = known(vec![
            site("a.example", 0, KnownRole::Example, 0.2),
            site("r.example", 2, KnownRole::Background, 0.7),
            site("d.example", 3, KnownRole::Background, 0.1),
        ]);
        let mut after = some();
        after.sites[3].passes = false;
        let (enter, leave) = after.changes_since(&before);
        let hosts = |sites: Vec<&KnownSite>| {
            let hosts = sites.into_iter().map(|site| site.site.to_string());
            hosts.collect::<Vec<_>>()
        };
        assert_eq!(hosts(enter), ["a.example"]);
        assert_eq!(hosts(leave), ["r.example"]);
    }
}
