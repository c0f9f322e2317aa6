//! Reads the labelled sites of a topic, each from where it costs least: rejected sites of the background
//! as the background knows them, then what is recorded, then the web.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::Context;

use crate::cli::signals::Signals;
use crate::cli::sources::{self, Web};
use crate::cli::terminal::{Sanitized, complain};
use crate::config::Settings;
use crate::fetch::{Archive, Fetcher};
use crate::training::{Background, Corpus, CorpusLimits, Label, Labels, OTHER};
use crate::web::SiteId;

use super::examples::{Entrance, ExampleSource, Seen};

/// Which sites are read from where.
pub(super) struct ReadingPlan {
    recorded: Option<Archive>,
    /// Rejected sites: what a person says of them is about what the background knows.
    of_background: Vec<Label>,
    to_read: Vec<Label>,
    /// Those to read that were read to the end before.
    complete: BTreeSet<SiteId>,
}

/// The web, and where it is recorded.
pub(super) struct RecordedWeb {
    web: Web,
    recording: Option<PathBuf>,
}

/// The labelled sites that were read, and why others cannot be used.
pub(super) struct ReadSites {
    pub(super) corpus: Corpus,
    pub(super) unusable: Vec<(SiteId, String)>,
}

// === impl ReadingPlan ===

impl ReadingPlan {
    /// `known_before` are the sites that the topic was learned from before.
    pub(super) fn new(
        labels: &Labels,
        known_before: &BTreeSet<SiteId>,
        background: &Background,
        recorded: Option<Archive>,
    ) -> Self {
        let is_recorded = |site: &SiteId| {
            let recorded = recorded.as_ref();
            recorded.is_some_and(|archive| archive.has_site(site))
        };
        let knows = |site: &SiteId| background.sites().iter().any(|known| known.site == *site);
        let labelled = labels.labels.iter().cloned();
        let (of_background, to_read): (Vec<Label>, Vec<Label>) = labelled.partition(|label| {
            label.topic == OTHER && !is_recorded(&label.site) && knows(&label.site)
        });
        let sites = to_read.iter().map(|label| label.site.clone());
        let complete = sites.filter(|site| known_before.contains(site) && is_recorded(site));
        Self {
            complete: complete.collect(),
            recorded,
            of_background,
            to_read,
        }
    }

    pub(super) fn needs_web(&self) -> bool {
        self.complete.len() < self.to_read.len()
    }

    /// Number of sites that are to be read from the web, in part at least.
    pub(super) fn sites_of_web(&self) -> usize {
        self.to_read.len() - self.complete.len()
    }

    /// Reads all sites. What is recorded is on the disk when this returns.
    pub(super) fn read(
        self,
        web: Option<&RecordedWeb>,
        background: &Background,
        settings: &Settings,
    ) -> anyhow::Result<ReadSites> {
        self.report_recorded();
        let progress = sources::progress_bar(self.to_read.len(), "reading sites");
        let limits = CorpusLimits {
            pages_per_site: settings.training.pages_per_site,
            sites_at_once: web.map_or(1, |web| web.web.sites_at_once),
            parse: sources::parse_limits(settings),
        };
        let source = Arc::new(ExampleSource {
            recorded: self.recorded,
            complete: self.complete,
            web: web.map(|web| web.web.fetcher()),
            limits: limits.parse,
            progress: progress.clone(),
            seen: Mutex::new(Seen::default()),
        });
        let corpus = sources::runtime()?.block_on(async {
            let fetcher = Arc::clone(&source) as Arc<dyn Fetcher>;
            let reading = Corpus::read(fetcher, &self.to_read, limits, |done| {
                progress.set_position(done as u64);
            });
            let mut signals = Signals::new()?;
            let corpus = tokio::select! {
                corpus = reading => Some(corpus),
                () = signals.next() => None,
            };
            // The recording is kept even if reading was stopped.
            if let Some(web) = web {
                web.finish().await?;
            }
            corpus.context("stopped; the same command goes on where this one was")
        })?;
        progress.finish_and_clear();
        let mut read = ReadSites {
            corpus,
            unusable: Vec::new(),
        };
        for label in &self.of_background {
            read.corpus.add_labelled(label, background);
        }
        read.take_unusable(&source);
        read.use_background(&self.to_read, background);
        Ok(read)
    }

    fn report_recorded(&self) {
        let Some(archive) = &self.recorded else {
            return;
        };
        let recorded = self.to_read.iter();
        let recorded = recorded
            .filter(|label| archive.has_site(&label.site))
            .count();
        if recorded > 0 {
            complain(&format!(
                "{recorded} of {} sites were recorded before, and what was is not fetched again",
                self.to_read.len()
            ));
        }
    }
}

// === impl RecordedWeb ===

impl RecordedWeb {
    /// The live web, which is recorded.
    pub(super) fn live(
        recording: PathBuf,
        sites: usize,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let web = Web::open(&[], &[], Some(&recording), settings).context(
            "the sites are to be fetched; name an archive that has them with --web warc:FILE, or make the \
             live web ready",
        )?;
        complain(&format!(
            "fetching {sites} {}, up to {} pages of each with {} between two of them",
            if sites == 1 { "site" } else { "sites" },
            settings.training.pages_per_site,
            humantime::format_duration(settings.fetch.politeness.pause)
        ));
        Ok(Self {
            web,
            recording: Some(recording),
        })
    }

    /// Archives, which need no recording.
    pub(super) fn of(web: Web) -> Self {
        Self {
            web,
            recording: None,
        }
    }

    /// Waits until everything recorded is on the disk. A recording without a response is removed.
    async fn finish(&self) -> anyhow::Result<()> {
        match (self.web.pages.finish().await?, &self.recording) {
            (Some(0), Some(recording)) => fs::remove_file(recording)?,
            (Some(exchanges), _) => {
                complain(&format!("recorded: {exchanges} requests and their answers"));
            }
            (None, _) => {}
        }
        Ok(())
    }
}

// === impl ReadSites ===

impl ReadSites {
    /// Takes the sites that cannot be learned from out of the corpus, with the reasons. A homepage that
    /// leads away or is a placeholder is not the topic's, whatever words it has.
    fn take_unusable(&mut self, source: &ExampleSource) {
        let unread = std::mem::take(&mut self.corpus.unreachable).into_iter();
        self.unusable
            .extend(unread.map(|(site, why)| (site, format!("cannot be read: {why}"))));
        for site in std::mem::take(&mut self.corpus.empty) {
            let why = source.why_empty(&site).to_string();
            self.unusable.push((site, why));
        }
        let unusable = &mut self.unusable;
        self.corpus.sites.retain(|read| {
            let entrance = source.why_empty(&read.site);
            let is_kept = matches!(entrance, Entrance::Page | Entrance::Failed(_));
            if !is_kept {
                unusable.push((read.site.clone(), entrance.to_string()));
            }
            is_kept
        });
        self.unusable.sort();
    }

    /// Uses what the background knows of sites that cannot be read.
    fn use_background(&mut self, labels: &[Label], background: &Background) {
        let corpus = &mut self.corpus;
        self.unusable.retain(|(site, why)| {
            let label = labels.iter().find(|label| label.site == *site);
            let is_known = label.is_some_and(|label| corpus.add_labelled(label, background));
            if is_known {
                complain(&format!(
                    "sitescout: {site} {}; what the background knows of it is learned from",
                    Sanitized(why)
                ));
            }
            !is_known
        });
    }
}
