//! How far to trust a topic, in words, and what would help most.

use std::fmt;

use crate::classify::SiteModel;
use crate::cli::terminal::Sanitized;
use crate::training::{KnownRole, KnownSite, KnownSites, Proportion, Reliability};
use crate::web::TellingWord;

/// With fewer examples, more are what helps most.
const ENOUGH_EXAMPLES: usize = 8;

/// How many words and sites are shown.
const WORDS: usize = 12;
const SITES: usize = 8;
const CLOSEST: usize = 3;

/// What is said of a topic.
pub(super) struct TrustReport<'a> {
    pub(super) topic: &'a str,
    pub(super) model: &'a SiteModel,
    /// None if the model was not learned by this command.
    pub(super) known: Option<&'a KnownSites>,
    /// Options for the commands that are recommended.
    pub(super) options: &'a str,
}

/// Which known sites a model that is learned anew judges otherwise.
pub(super) struct ChangeReport<'a> {
    pub(super) before: Option<&'a KnownSites>,
    pub(super) now: &'a KnownSites,
}

// === impl TrustReport ===

impl fmt::Display for TrustReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known {
            Some(known) => write_reliability(known, f)?,
            None => writeln!(
                f,
                "how far to trust it: see card.md; the sites it was learned from are not known here"
            )?,
        }
        self.write_words(f)?;
        if let Some(known) = self.known {
            write_closest(known, f)?;
            write_still_passing(known, f)?;
            write_worst(known, f)?;
            self.write_advice(known, f)?;
        }
        let (topic, options) = (self.topic, self.options);
        write!(f, "\nnext: sitescout crawl {topic}{options}")
    }
}

impl TrustReport<'_> {
    fn write_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nthe words that decide:")?;
        let mut aspects = self.model.aspects(WORDS);
        aspects.sort_by_key(|(title, _)| title.starts_with("against"));
        for (title, words) in aspects {
            let words = words.iter().map(|TellingWord { term, .. }| term);
            let words: Vec<String> = words.map(|term| Sanitized(term).to_string()).collect();
            writeln!(f, "  {title}: {}", words.join(", "))?;
        }
        Ok(())
    }

    fn write_advice(&self, known: &KnownSites, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (topic, options) = (self.topic, self.options);
        let examples = known.groups_of_examples();
        let passing = passing(known);
        let missed: Vec<&KnownSite> = known
            .with_role(KnownRole::Example)
            .filter(|site| !site.passes)
            .collect();
        writeln!(f, "\nwhat would help most:")?;
        if examples < ENOUGH_EXAMPLES {
            writeln!(
                f,
                "  more examples: there are {examples}, of as many owners, and {ENOUGH_EXAMPLES} or more do \
                 better\n    sitescout topic add {topic}{options} --sites HOST ..."
            )?;
        }
        if !passing.is_empty() {
            writeln!(
                f,
                "  a look at the sites that would pass: reject those that are not of the topic, add those that \
                 are\n    sitescout topic reject {topic}{options} --sites HOST ...\n    \
                 sitescout topic add {topic}{options} --sites HOST ..."
            )?;
        }
        if !missed.is_empty() {
            let hosts = missed.iter().map(|site| site.site.as_str());
            writeln!(
                f,
                "  examples like those that would be missed, or a look whether they are of the topic: {}",
                hosts.collect::<Vec<_>>().join(", ")
            )?;
        }
        if examples >= ENOUGH_EXAMPLES && passing.is_empty() && missed.is_empty() {
            writeln!(
                f,
                "  nothing stands out: crawl, and reject the finds that are not of the topic"
            )?;
        }
        Ok(())
    }
}

fn write_reliability(known: &KnownSites, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Reliability {
        precision,
        precision_at_best,
        recall,
    } = known.reliability();
    writeln!(f, "how far to trust it, on sites that were held out:")?;
    let no_find = "not known: no site would pass";
    if precision == precision_at_best {
        writeln!(f, "  precision {}", in_words(precision, no_find))?;
    } else {
        writeln!(
            f,
            "  precision {}, if none of the sites of the background below is of your topic\n            {}, if \
             all are",
            in_words(precision, no_find),
            in_words(precision_at_best, no_find),
        )?;
    }
    writeln!(
        f,
        "  recall    {}",
        in_words(recall, "not known: too few examples")
    )?;
    let others = known.with_role(KnownRole::Background).count();
    let others = others + known.with_role(KnownRole::Rejected).count();
    writeln!(
        f,
        "  The examples and {others} other sites were judged by page classifiers that had not seen them, with a \
         threshold\n  chosen on these scores. On the web the topic may be rarer, and precision lower. In \
         brackets:\n  Wilson score intervals of 95 %, sites of one owner counting as one."
    )?;
    Ok(())
}

fn write_closest(known: &KnownSites, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let passing = passing(known);
    if passing.is_empty() {
        writeln!(
            f,
            "\nno site of the background would pass; the closest are:"
        )?;
        for site in best_of(known, KnownRole::Background)
            .into_iter()
            .take(CLOSEST)
        {
            writeln!(f, "  {}", in_line(site))?;
        }
        return Ok(());
    }
    writeln!(
        f,
        "\nthese sites of the background would pass: are they of your topic?"
    )?;
    for site in passing.iter().take(SITES) {
        writeln!(f, "  {}", in_line(site))?;
    }
    if passing.len() > SITES {
        writeln!(f, "  and {} more", passing.len() - SITES)?;
    }
    Ok(())
}

fn write_still_passing(known: &KnownSites, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rejected = best_of(known, KnownRole::Rejected);
    let passing: Vec<&KnownSite> = rejected.into_iter().filter(|site| site.passes).collect();
    if !passing.is_empty() {
        writeln!(f, "\nsites like these, which you rejected, would pass:")?;
    }
    for site in passing.iter().take(SITES) {
        writeln!(f, "  {}", in_line(site))?;
    }
    Ok(())
}

fn write_worst(known: &KnownSites, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let examples = best_of(known, KnownRole::Example);
    let Some(worst) = examples.last().filter(|worst| worst.confidence.is_some()) else {
        return Ok(());
    };
    let end = if worst.passes {
        "it would be found all the same"
    } else {
        "it would be missed"
    };
    writeln!(
        f,
        "\nthe example that fits worst:\n  {}  ({end})",
        in_line(worst)
    )
}

// === impl ChangeReport ===

impl fmt::Display for ChangeReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(before) = self.before else {
            return f.write_str(
                "what changed is not known: the sites of the model before are not recorded",
            );
        };
        let (old, new) = (before.reliability(), self.now.reliability());
        let shown = |share| in_words(share, "not known");
        writeln!(
            f,
            "what changed, on sites that were held out:\n  precision {} was {}\n  recall    {} was {}",
            shown(new.precision),
            shown(old.precision),
            shown(new.recall),
            shown(old.recall)
        )?;
        let (enter, leave) = self.now.changes_since(before);
        for (sites, what) in [(&enter, "would enter"), (&leave, "would leave")] {
            for site in sites {
                writeln!(f, "  {what}: {} ({})", site.site, site.role.name())?;
            }
        }
        if enter.is_empty() && leave.is_empty() {
            writeln!(f, "  none of the known sites would enter or leave")?;
        }
        Ok(())
    }
}

/// Sites of the background that would be found relevant: those that look like examples, then the others.
fn passing(known: &KnownSites) -> Vec<&KnownSite> {
    let mut sites: Vec<&KnownSite> = known.with_role(KnownRole::LeftOut).collect();
    sites.extend(
        best_of(known, KnownRole::Background)
            .into_iter()
            .filter(|site| site.passes),
    );
    sites
}

/// The sites of a role, the best first.
fn best_of(known: &KnownSites, role: KnownRole) -> Vec<&KnownSite> {
    let mut sites: Vec<&KnownSite> = known.with_role(role).collect();
    let confidence = |site: &KnownSite| site.confidence.unwrap_or_default();
    sites.sort_by(|one, other| confidence(other).total_cmp(&confidence(one)));
    sites
}

fn in_line(site: &KnownSite) -> String {
    match site.confidence {
        Some(confidence) => format!("{confidence:.3}  {}", site.site),
        None => format!("alike  {}", site.site),
    }
}

fn in_words(share: Option<Proportion>, otherwise: &str) -> String {
    share.map_or_else(|| otherwise.to_owned(), |share| share.to_string())
}
