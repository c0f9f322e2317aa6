//! From the definition of a topic to everything that its directory holds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};

use crate::classify::{SiteModel, TopicPrior};
use crate::cli::sources::{self, Web, WebSource};
use crate::cli::terminal::{Sanitized, complain};
use crate::cli::train::Examples;
use crate::config::{Settings, TopicDefinition};
use crate::training::{
    Background, Card, Corpus, CorpusLimits, KnownSites, Labels, OTHER, fit_model_from,
};
use crate::web::SiteId;

use super::directory::{Draft, TopicDirectory};
use super::examples::{Entrance, ExampleSource, Seen};

/// In so many pairs of an example that was held out and another site, the example must have the higher
/// confidence. One half would be chance; one example of three that does not fit must not refuse the others.
const MIN_SEPARATION: f64 = 0.6;

/// What is to be learned, and from where.
pub(super) struct Lesson<'a> {
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

/// The labelled sites that were read, and why others cannot be used.
struct ReadSites {
    corpus: Corpus,
    unusable: Vec<(SiteId, String)>,
}

// === impl Lesson ===

impl Lesson<'_> {
    /// Reads the sites and learns. What is fetched from the live web is recorded in a draft.
    pub(super) fn learn<'d>(
        self,
        directory: &'d TopicDirectory,
        draft: &mut Option<Draft<'d>>,
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
            background: &sources::origin_of_background(self.settings),
            command: &self.command,
        };
        let card = card.to_markdown();
        let is_new = |host: &String| {
            let site: Option<SiteId> = host.parse().ok();
            site.is_none_or(|site| self.known_before.contains(&site) || !unusable.contains(&site))
        };
        Ok(LearnedTopic {
            model,
            known,
            definition: only_sites(&self.definition, is_new),
            card,
        })
    }

    /// Reads the labelled sites: rejected ones as the background knows them, if it does, since what a
    /// person says of them is about that.
    fn read<'d>(
        &self,
        labels: &Labels,
        background: &Background,
        directory: &'d TopicDirectory,
        draft: &mut Option<Draft<'d>>,
    ) -> anyhow::Result<ReadSites> {
        let recorded = directory.recorded(&self.settings.fetch)?;
        let is_recorded = |site: &SiteId| {
            let recorded = recorded.as_ref();
            recorded.is_some_and(|archive| archive.has_site(site))
        };
        let knows = |site: &SiteId| background.sites().iter().any(|known| known.site == *site);
        let labelled = labels.labels.iter().cloned();
        let (of_background, to_read): (Vec<_>, Vec<_>) = labelled.partition(|label| {
            label.topic == OTHER && !is_recorded(&label.site) && knows(&label.site)
        });
        let is_complete = |site: &SiteId| self.known_before.contains(site) && is_recorded(site);
        let needs_web = to_read.iter().any(|label| !is_complete(&label.site));
        let sites = to_read.iter().map(|label| label.site.clone());
        let complete = sites.filter(is_complete).collect();
        let web = match needs_web {
            true if self.webs.is_empty() => Some(self.open_live(directory, draft)?),
            true => Some((Web::open(&[], self.webs, None, self.settings)?, None)),
            false => None,
        };
        let limits = CorpusLimits {
            pages_per_site: self.settings.training.pages_per_site,
            sites_at_once: web.as_ref().map_or(1, |(web, _)| web.sites_at_once),
            parse: sources::parse_limits(self.settings),
        };
        let progress = sources::progress_bar(to_read.len(), "reading sites");
        let source = Arc::new(ExampleSource {
            recorded,
            complete,
            web: web.as_ref().map(|(web, _)| web.fetcher()),
            limits: limits.parse,
            progress: progress.clone(),
            seen: Mutex::new(Seen::default()),
        });
        let begun = to_read
            .iter()
            .filter(|label| source.has_recorded(&label.site));
        let begun = begun.count();
        if begun > 0 {
            complain(&format!(
                "{begun} of {} sites were recorded before, and what was is not fetched again",
                to_read.len()
            ));
        }
        let corpus = sources::runtime()?.block_on(async {
            let fetcher = Arc::clone(&source) as Arc<dyn crate::fetch::Fetcher>;
            let reading = Corpus::read(fetcher, &to_read, limits, |done| {
                progress.set_position(done as u64);
            });
            let corpus = reading.await;
            if let Some((web, recording)) = &web {
                finish(web, recording.as_deref()).await?;
            }
            anyhow::Ok(corpus)
        })?;
        progress.finish_and_clear();
        let mut read = ReadSites {
            corpus,
            unusable: Vec::new(),
        };
        for label in of_background {
            read.corpus.add_labelled(&label, background);
        }
        for (site, why) in read.take_unusable(&source) {
            let label = to_read.iter().find(|label| label.site == site);
            let is_known = label.is_some_and(|label| read.corpus.add_labelled(label, background));
            if is_known {
                complain(&format!(
                    "sitescout: {site} {}; what the background knows of it is learned from",
                    Sanitized(&why)
                ));
            } else {
                read.unusable.push((site, why));
            }
        }
        Ok(read)
    }

    /// The live web, with a recording in the draft.
    fn open_live<'d>(
        &self,
        directory: &'d TopicDirectory,
        draft: &mut Option<Draft<'d>>,
    ) -> anyhow::Result<(Web, Option<std::path::PathBuf>)> {
        let draft = draft.insert(directory.draft()?);
        let recording = draft.next_recording()?;
        let web = Web::open(&[], &[], Some(&recording), self.settings).context(
            "the sites are to be fetched; name an archive that has them with --web warc:FILE, or make the \
             live web ready",
        )?;
        Ok((web, Some(recording)))
    }
}

/// Waits until everything recorded is on the disk. A recording without a response is removed.
async fn finish(web: &Web, recording: Option<&Path>) -> anyhow::Result<()> {
    let exchanges = web.pages.finish().await?;
    match (exchanges, recording) {
        (Some(0), Some(recording)) => fs::remove_file(recording)?,
        (Some(exchanges), _) => {
            complain(&format!("recorded: {exchanges} requests and their answers"));
        }
        (None, _) => {}
    }
    Ok(())
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

// === impl ReadSites ===

impl ReadSites {
    /// Takes the sites that cannot be learned from out of the corpus, with the reasons. A homepage that
    /// leads away or is a placeholder is not the topic's, whatever words it has.
    fn take_unusable(&mut self, source: &ExampleSource) -> Vec<(SiteId, String)> {
        let unread = std::mem::take(&mut self.corpus.unreachable).into_iter();
        let mut unusable: Vec<(SiteId, String)> = unread
            .map(|(site, why)| (site, format!("cannot be read: {why}")))
            .collect();
        for site in std::mem::take(&mut self.corpus.empty) {
            let why = source.why_empty(&site).to_string();
            unusable.push((site, why));
        }
        self.corpus.sites.retain(|read| {
            let entrance = source.why_empty(&read.site);
            let is_kept = matches!(entrance, Entrance::Page | Entrance::Failed(_));
            if !is_kept {
                unusable.push((read.site.clone(), entrance.to_string()));
            }
            is_kept
        });
        unusable.sort();
        unusable
    }
}
