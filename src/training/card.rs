//! The model card: training data, reliability, and how to reproduce a model.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use crate::classify::{CountedPage, SiteModel};
use crate::config::TrainingSettings;
use crate::web::{PageKind, TellingWord};

use super::background::Background;
use super::corpus::{Corpus, CorpusSite};
use super::fit::Validation;

/// Maximum number of telling words of each aspect.
const TELLING_WORDS: usize = 15;

/// Maximum number of languages of each class.
const SHOWN_LANGUAGES: usize = 5;

pub(crate) struct Card<'a> {
    pub(crate) model: &'a SiteModel,
    /// The description in the definition of the topic.
    pub(crate) description: &'a str,
    pub(crate) corpus: &'a Corpus,
    pub(crate) validation: &'a Validation,
    pub(crate) settings: &'a TrainingSettings,
    pub(crate) background: &'a Background,
    pub(crate) origin_of_background: &'a str,
    /// The command that made it, without the paths of the machine it ran on.
    pub(crate) command: &'a str,
}

impl Card<'_> {
    /// The card in Markdown.
    #[must_use]
    pub(crate) fn to_markdown(&self) -> String {
        let mut card = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut card);
        card
    }

    fn write(&self, card: &mut String) -> std::fmt::Result {
        writeln!(card, "# Site model: {}\n", self.model.topic())?;
        if !self.description.is_empty() {
            writeln!(card, "{}\n", self.description)?;
        }
        writeln!(card, "| | |\n|---|---|")?;
        writeln!(card, "| fingerprint | `{}` |", self.model.fingerprint())?;
        writeln!(card, "| page classifier | {} |", self.model.pages().name())?;
        writeln!(
            card,
            "| terms | {} |",
            self.model.vocabulary().terms().len()
        )?;
        let p_threshold = self.model.thresholds().p_threshold;
        writeln!(card, "| proposed `p_threshold` | {p_threshold} |")?;
        let settings = self.settings;
        writeln!(
            card,
            "| pages per site, at most | {} |",
            settings.pages_per_site
        )?;
        writeln!(card, "| terms, at most | {} |", settings.vocabulary)?;
        writeln!(card, "| folds, at most | {} |", settings.folds)?;
        writeln!(card, "| seed | {} |", settings.seed)?;
        writeln!(
            card,
            "| background | {}, fingerprint `{}` |",
            self.origin_of_background,
            self.background.fingerprint()
        )?;
        writeln!(card, "| made by | `{}` |\n", self.command)?;
        self.write_data(card)?;
        self.write_reliability(card)?;
        self.write_words(card)
    }

    fn write_data(&self, card: &mut String) -> std::fmt::Result {
        writeln!(card, "## Data\n")?;
        writeln!(
            card,
            "| class | sites | groups | pages | languages |\n|---|---|---|---|---|"
        )?;
        let topic = self.model.topic();
        let is_target = |site: &&CorpusSite| site.topic == topic;
        let target: Vec<&CorpusSite> = self.corpus.sites.iter().filter(is_target).collect();
        let other = self.corpus.sites.iter().filter(|site| !is_target(site));
        let background = self.corpus.background.iter().collect();
        for (class, sites) in [
            (topic, target),
            ("other", other.collect()),
            ("background", background),
        ] {
            let mut groups: Vec<u32> = sites.iter().map(|site| site.group).collect();
            groups.sort_unstable();
            groups.dedup();
            let pages: usize = sites.iter().map(|site| site.pages.len()).sum();
            writeln!(
                card,
                "| {class} | {} | {} | {pages} | {} |",
                sites.len(),
                groups.len(),
                languages(&sites)
            )?;
        }
        let suspects = self.corpus.hosts_of_examples(&self.validation.suspects);
        if !suspects.is_empty() {
            let suspects: Vec<String> = suspects.iter().map(|host| format!("`{host}`")).collect();
            writeln!(
                card,
                "\nLeft out of the background, because they look like sites of the topic: {}. Label those \
                 that are not as `other`. In the measures below they are not counted.",
                suspects.join(", ")
            )?;
        }
        writeln!(
            card,
            "\nPages are taken breadth first from the homepage. Left out: {} sites without an \
             answer, {} without words.\n",
            self.corpus.unreachable.len(),
            self.corpus.empty.len()
        )
    }

    fn write_reliability(&self, card: &mut String) -> std::fmt::Result {
        writeln!(card, "## How reliable it is\n")?;
        let Some(folds) = self.validation.folds else {
            return writeln!(
                card,
                "Not known: holding sites out needs at least two groups of the topic and two of \
                 other sites. Confidences are guesses.\n"
            );
        };
        let measures = &self.validation.measures;
        writeln!(
            card,
            "Training sites judged by page classifiers that had not seen them: \
             cross-validation by site in {folds} folds, groups kept together, pages in \
             breadth-first order. Calibration and threshold were fitted to these very scores, \
             so expect a little less of other sites; `sitescout evaluate classifier` holds out \
             everything.\n"
        )?;
        writeln!(
            card,
            "| pages per site | precision | recall | F | Brier | calibration error |"
        )?;
        writeln!(card, "|---|---|---|---|---|---|")?;
        writeln!(
            card,
            "| {:.2} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |\n",
            measures.pages_per_site(),
            measures.precision(),
            measures.recall(),
            measures.f_measure(),
            measures.brier(),
            measures.calibration_error()
        )?;
        let calibration = self.model.calibration();
        let damping = calibration.damping();
        writeln!(
            card,
            "Log-odds ℓ of n pages that spoke give a site the log-odds b + n^−γ Σ (ℓ − b), γ = {}, \
             b = {:.3}.\n",
            damping.gamma, damping.base
        )?;
        writeln!(
            card,
            "Balanced error of single pages, `p_err`: {:.3}.\n",
            calibration.p_err()
        )?;
        writeln!(card, "| kind of page | `p_err` |\n|---|---|")?;
        for kind in PageKind::ALL {
            writeln!(
                card,
                "| {} | {:.3} |",
                kind.name(),
                calibration.p_err_of(kind)
            )?;
        }
        writeln!(
            card,
            "\n| confidence | sites | mean confidence | share of targets |"
        )?;
        writeln!(card, "|---|---|---|---|")?;
        let (mute, speaking) = measures.mute_and_speaking();
        let ranges = speaking.iter().enumerate();
        let ranges = ranges.map(|(at, bin)| (format!("from 0.{at}"), bin));
        for (name, bin) in ranges.chain([("no page spoke".to_owned(), &mute)]) {
            if bin.sites > 0.0 {
                let (mean, share) = (bin.confidences / bin.sites, bin.targets / bin.sites);
                writeln!(card, "| {name} | {} | {mean:.3} | {share:.3} |", bin.sites)?;
            }
        }
        writeln!(card)
    }

    fn write_words(&self, card: &mut String) -> std::fmt::Result {
        writeln!(card, "## Telling words\n")?;
        for (title, words) in self.model.aspects(TELLING_WORDS) {
            let words: Vec<String> = words.iter().map(in_code).collect();
            writeln!(card, "- {title}: {}", words.join(", "))?;
        }
        Ok(())
    }
}

/// Terms consist of letters, digits and apostrophes, so a backtick is not expected.
fn in_code(word: &TellingWord) -> String {
    format!("`{}`", word.term.replace('`', "'"))
}

/// The languages of pages by code, `?` if it is not known, with the number of pages: the most frequent
/// first.
pub(crate) fn pages_by_language<'a>(
    pages: impl IntoIterator<Item = &'a CountedPage>,
) -> Vec<(String, usize)> {
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    for page in pages {
        let language = page.language.map_or("?".to_owned(), |own| own.to_string());
        *tally.entry(language).or_default() += 1;
    }
    let mut tally: Vec<(String, usize)> = tally.into_iter().collect();
    tally.sort_by_key(|(_, pages)| Reverse(*pages));
    tally
}

fn languages(sites: &[&CorpusSite]) -> String {
    let tally = pages_by_language(sites.iter().flat_map(|site| &site.pages));
    let most_frequent = tally
        .into_iter()
        .take(SHOWN_LANGUAGES)
        .map(|(code, pages)| format!("{code} {pages}"));
    most_frequent.collect::<Vec<String>>().join(", ")
}
