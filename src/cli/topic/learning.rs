//! From the definition of a topic to everything that its directory holds.

use std::collections::BTreeSet;

use anyhow::ensure;

use crate::classify::{SiteModel, TopicPrior};
use crate::cli::sources::{self, Web, WebSource};
use crate::cli::terminal::{Sanitized, complain};
use crate::cli::train::Examples;
use crate::config::{Settings, TopicDefinition};
use crate::training::{Background, Card, KnownSites, Labels, fit_model_from};
use crate::web::SiteId;

use super::directory::{Draft, TopicDirectory};
use super::reading::{ReadSites, ReadingPlan, RecordedWeb};

/// In so many pairs of an example that was held out and another site, the example must have the higher
/// confidence. One half would be chance; one example of three that does not fit must not refuse the others.
const MIN_SEPARATION: f64 = 0.6;

/// What is to be learned, and from where.
pub(super) struct LearningTask<'a> {
    pub(super) definition: TopicDefinition,
    /// Sites that were learned from before: what is recorded of them is all there is.
    pub(super) known_before: BTreeSet<SiteId>,
    pub(super) webs: &'a [WebSource],
    pub(super) settings: &'a Settings,
    /// For the card.
    pub(super) command: String,
}

/// What was learned.
pub(super) struct LearnedTopic {
    pub(super) model: SiteModel,
    pub(super) known: KnownSites,
    /// Without the new sites that could not be used.
    pub(super) definition: TopicDefinition,
    pub(super) card: String,
}

// === impl LearningTask ===

impl LearningTask<'_> {
    /// Reads the sites and learns. What is fetched from the live web is recorded in a draft.
    pub(super) fn learn(
        self,
        directory: &TopicDirectory,
        draft: &Draft<'_>,
    ) -> anyhow::Result<LearnedTopic> {
        let topic = &*self.definition.name;
        let labels = Labels::of_topic(&self.definition)?;
        let named = labels.labels.iter();
        let named = named.map(|label| (&*label.topic, &*label.group));
        Examples::of(topic, named).check(topic, "named")?;
        let background = sources::open_background(self.settings)?;

        let ReadSites {
            mut corpus,
            unusable,
        } = self.read(&labels, &background, directory, draft)?;
        for (site, why) in &unusable {
            complain(&format!("sitescout: {site} {}", Sanitized(why)));
        }
        let unusable: BTreeSet<&SiteId> = unusable.iter().map(|(site, _)| site).collect();
        let read = corpus.sites.iter();
        let read = Examples::of(topic, read.map(|site| (&*site.topic, site.group)));
        read.check(topic, "that can be used")?;
        corpus.add_background(&background);
        ensure!(
            corpus.examples(topic).iter().any(|site| !site.is_target()),
            "nothing is left to tell `{topic}` from: leave `background` in [training] empty"
        );

        let examples = corpus.examples(topic);
        let training = &self.settings.training;
        let prior = background.prior().unwrap_or(TopicPrior::NONE);
        let (model, validation) =
            fit_model_from(&prior, topic, &corpus.lexicon, &examples, training);
        let known = KnownSites::of(&corpus, topic, &validation, model.fingerprint());
        let is_no_better = known
            .separation()
            .is_some_and(|share| share < MIN_SEPARATION);
        ensure!(
            !is_no_better && !model.calibration().knows_nothing(),
            "the examples of `{topic}` have nothing in common that other sites do not have: those that are \
             held out look no more like the topic than other sites do; look whether all are of one topic and \
             in one language, or name more of each"
        );
        read.warn_if_few(topic);
        let card = Card {
            model: &model,
            description: &self.definition.description,
            corpus: &corpus,
            validation: &validation,
            settings: training,
            background: &background,
            origin_of_background: &sources::origin_of_background(self.settings),
            command: &self.command,
        };
        let card = card.to_markdown();
        let is_kept = |host: &String| {
            let site: Option<SiteId> = host.parse().ok();
            site.is_none_or(|site| self.known_before.contains(&site) || !unusable.contains(&site))
        };
        Ok(LearnedTopic {
            model,
            known,
            definition: only_sites(&self.definition, is_kept),
            card,
        })
    }

    /// Reads the labelled sites, from the web only if that is needed.
    fn read(
        &self,
        labels: &Labels,
        background: &Background,
        directory: &TopicDirectory,
        draft: &Draft<'_>,
    ) -> anyhow::Result<ReadSites> {
        let recorded = directory.recorded(&self.settings.fetch)?;
        let plan = ReadingPlan::new(labels, &self.known_before, background, recorded);
        let web = if !plan.needs_web() {
            None
        } else if self.webs.is_empty() {
            Some(RecordedWeb::live(
                draft.next_recording()?,
                plan.sites_of_web(),
                self.settings,
            )?)
        } else {
            Some(RecordedWeb::of(Web::open(
                &[],
                self.webs,
                None,
                self.settings,
            )?))
        };
        plan.read(web.as_ref(), background, self.settings)
    }
}

/// A definition with only those sites.
fn only_sites(definition: &TopicDefinition, is_kept: impl Fn(&String) -> bool) -> TopicDefinition {
    let groups = |groups: &[Vec<String>]| {
        let kept = groups.iter().map(|group| {
            let kept = group.iter().filter(|host| is_kept(host));
            kept.cloned().collect::<Vec<String>>()
        });
        kept.filter(|group| !group.is_empty()).collect()
    };
    TopicDefinition {
        start_sites: definition
            .start_sites
            .iter()
            .filter(|host| is_kept(host))
            .cloned()
            .collect(),
        target_sites: groups(&definition.target_sites),
        other_sites: groups(&definition.other_sites),
        ..definition.clone()
    }
}
