//! `sitescout demo`: training, crawl and evaluation on a generated web.
//!
//! Invariant: the production code runs: the live fetcher over loopback, the store on disk, the
//! same crawlers. Only the web is generated, so that the true labels are known.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::classify::SiteModel;
use crate::config::{ResolveRule, Settings, Strategy};
use crate::external::{
    CrawlMetrics, CrawlerSlots, EndReason, ExternalCrawler, Goals, TopicCrawl, UnfitModel,
    check_page_classifier, ordering,
};
use crate::lab::generated::{Conditions, GeneratedWeb, Truth, WebServer};
use crate::store::{CrawlStore, Evidence, JudgedSite, KeyValueStore, ReadStore, TopicTotals};
use crate::telemetry::{Metrics, grouped};
use crate::training::{Labels, fit_model};
use crate::web::{PageUrl, Scheme, SiteId};

use super::ExitCode;
use super::crawl::{STOPPING, as_text, harvest, in_words, pprs, summary};
use super::signals::Signals;
use super::sources::{self, MODEL_FILE, Web};
use super::terminal::{complain, say};

const EXAMPLES: &str = "\
Examples:
  sitescout demo
  sitescout demo --topic beekeeping --sites 5000 --wanted 200
  sitescout demo --seed 7 --dir another

A web is generated and served on the loopback address, a model is learned from a handful of its
sites, and the rest is crawled as the live web would be. Ctrl-C stops; the same command resumes.";

/// Number of training sites: of the topic, and of others.
const LEARNED: (usize, usize) = (15, 90);

/// Training sites read at once. Server and client share the machine, so that more concurrent
/// requests would time out.
const READ_AT_ONCE: usize = 16;

/// Number of found sites that are shown with their reasons.
const SHOWN: usize = 12;

/// Number of words shown as the reason for a verdict.
const WORDS: usize = 4;

/// Width of a terminal.
const COLUMNS: usize = 80;

/// Context of the error that a strategy cannot use the model.
const OWN_MODEL: &str = "the demo learns a model of its own, by `page_classifier` in [training] of \
                         the settings, and keeps it in --dir";

const STOPPED: &str = "Stopped. The same command goes on from here.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Topic to look for
    #[arg(long, value_name = "TOPIC", default_value = "sailing", value_parser = sources::generated_topic)]
    topic: &'static str,
    /// Number of sites in the web
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    sites: u64,
    /// Random seed of the web
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// End when this many sites are found
    #[arg(long, value_name = "N", default_value_t = 400)]
    wanted: u64,
    /// Directory for model, store and results
    #[arg(long, value_name = "DIR", default_value = "sitescout-demo")]
    dir: PathBuf,
}

struct Demo {
    topic: &'static str,
    web: GeneratedWeb,
    settings: Settings,
    /// Files of this topic and web.
    directory: PathBuf,
    /// Training sites with their labels.
    learned: Vec<(SiteId, &'static str)>,
    /// Number of sites to find.
    wanted: u64,
}

/// A crawl that ended by itself.
struct Crawled {
    reason: EndReason,
    totals: TopicTotals,
    store: KeyValueStore,
}

pub(super) fn run(arguments: &Arguments, settings: Settings) -> anyhow::Result<ExitCode> {
    let learned = settings.training.page_classifier.name();
    let checked = check_page_classifier(&*ordering(&settings.external), arguments.topic, learned);
    checked.context(OWN_MODEL)?;
    let web = GeneratedWeb::new(arguments.sites, arguments.seed);
    // The server has its own runtime, so that the crawl does not starve it.
    let outside = sources::runtime()?;
    let address = serve(&outside, web)?;
    let name = format!("{}-{}-{}", arguments.topic, web.sites(), arguments.seed);
    let demo = Demo {
        topic: arguments.topic,
        web,
        settings: settings_for(settings, address),
        directory: arguments.dir.join(name),
        learned: web
            .examples(arguments.topic, LEARNED.0, LEARNED.1)
            .with_context(|| {
                format!("a web of {} sites is too small to learn from", web.sites())
            })?,
        wanted: arguments.wanted,
    };
    say(&format!(
        "A web of {} sites is served at {address}; {} of them are about {}.",
        grouped(web.sites()),
        grouped(demo.targets()),
        demo.topic
    ))?;
    let model = Arc::new(demo.learn()?);
    // The model may be from an earlier run with other settings.
    let planned = demo.plan(&model, demo.settings.external.strategy);
    planned.context(OWN_MODEL)?;
    let Some(crawled) = demo.crawl(&model)? else {
        say(STOPPED)?;
        return Ok(ExitCode::Success);
    };
    match demo.crawl_breadth_first(&model, crawled.totals.pages)? {
        Some(baseline) => demo.report(&crawled, &baseline)?,
        None => say(STOPPED)?,
    }
    Ok(ExitCode::Success)
}

fn serve(outside: &Runtime, web: GeneratedWeb) -> anyhow::Result<SocketAddr> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let calm = Conditions {
        latency: Duration::from_millis(2),
        faults: 0.005,
    };
    let server = outside.block_on(WebServer::bind(any, web, calm));
    let server = server.context("cannot listen at the loopback address")?;
    let address = server.address()?;
    outside.spawn(server.serve());
    Ok(address)
}

/// Resolves all hosts to loopback, where no politeness is needed.
fn settings_for(mut settings: Settings, address: SocketAddr) -> Settings {
    settings.fetch.resolve = vec![ResolveRule {
        host: "*".to_owned(),
        address,
        tls: false,
    }];
    settings.fetch.politeness.pause = Duration::ZERO;
    settings.fetch.politeness.come_back = Duration::from_secs(10);
    // Server and crawler share the machine, so responses are slow under load. Pages that never
    // respond hold a slot for as long, but there are few.
    settings.fetch.limits.first_byte = Duration::from_secs(10);
    settings.external.drain = Duration::from_secs(2);
    settings
}

// === impl Demo ===

impl Demo {
    /// Number of sites of the topic in the web.
    fn targets(&self) -> u64 {
        let numbers = 0..self.web.sites();
        let is_target = |number: &u64| self.web.site(*number).1 == self.truth();
        numbers.filter(is_target).count() as u64
    }

    fn truth(&self) -> Truth {
        Truth::Topic(self.topic)
    }

    /// The training sites of the topic.
    fn starts(&self) -> impl Iterator<Item = &SiteId> {
        let of_topic = self
            .learned
            .iter()
            .filter(|(_, about)| *about == self.topic);
        of_topic.map(|(site, _)| site)
    }

    /// Trains the model, or reads that of an earlier run.
    fn learn(&self) -> anyhow::Result<SiteModel> {
        let directory = self.directory.join(self.topic);
        if fs::exists(directory.join(MODEL_FILE))? {
            return sources::open_model(&directory);
        }
        let labels = Labels::of(self.learned.iter().cloned());
        let mut web = Web::open(&[], &[], None, &self.settings)?;
        web.sites_at_once = READ_AT_ONCE;
        // A second fetcher retries sites that timed out; it has no cached failures.
        let again = Web::open(&[], &[], None, &self.settings)?;
        let corpus = sources::read_corpus_again(&web, &[again], &labels, &self.settings)?;
        let examples = corpus.examples(self.topic);
        let targets = examples.iter().filter(|site| site.is_target()).count();
        // The model is kept for later runs, so it must not come from a few sites by bad luck.
        ensure!(
            2 * targets > LEARNED.0 && 2 * (examples.len() - targets) > LEARNED.1,
            "only {targets} of {} sites about {} and {} of {} others answered in time, too few to \
             learn from; run the same command again when the machine has less to do",
            LEARNED.0,
            self.topic,
            examples.len() - targets,
            LEARNED.1
        );
        let training = &self.settings.training;
        let (model, validation) = fit_model(self.topic, &corpus.lexicon, &examples, training);
        say(&format!(
            "Learned from {targets} sites about {} and {} others: on sites held out,\n\
             precision {:.2} and recall {:.2} with {:.1} pages per site.",
            self.topic,
            examples.len() - targets,
            validation.measures.precision(),
            validation.measures.recall(),
            validation.measures.pages_per_site(),
        ))?;
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        sources::write_whole(&directory.join(MODEL_FILE), &model.to_bytes())?;
        Ok(model)
    }

    /// Crawls by the ordering of the settings; none if stopped.
    fn crawl(&self, model: &Arc<SiteModel>) -> anyhow::Result<Option<Crawled>> {
        let directory = self.directory.join("state");
        let store = sources::open_or_create_store(&directory, &self.settings.store)?;
        let web = Web::open(&[], &[], Some(&self.free_recording()?), &self.settings)?;
        say(&format!(
            "Crawling from those about {}, best recommended first:\n",
            self.topic
        ))?;
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let goals = Goals {
            wanted: Some(self.wanted),
            max_pages: None,
        };
        let kept: Arc<dyn CrawlStore> = Arc::new(store.clone());
        let ended = sources::runtime()?.block_on(async {
            let external = self.open(kept, model, &web, self.settings.external.strategy, goals);
            let external = external.await?;
            let (stop, mut stopped) = watch::channel(false);
            let mut signals = Signals::new()?;
            let crawl = external.crawl(
                async move {
                    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
                },
                |verdict, totals| {
                    if verdict.verdict.is_relevant() {
                        // Verdicts are in the store, printed or not.
                        let _ = bar.suspend(|| say(&as_text(verdict)));
                    }
                    bar.set_message(summary(totals));
                    bar.tick();
                },
            );
            let mut crawl = std::pin::pin!(crawl);
            let ended = loop {
                tokio::select! {
                    ended = &mut crawl => break Some(ended?),
                    () = signals.next() => {
                        // A second signal does not wait for visits under way.
                        if stop.send_replace(true) {
                            break None;
                        }
                        bar.suspend(|| complain(STOPPING));
                    }
                }
            };
            web.finish().await?;
            anyhow::Ok(ended)
        })?;
        bar.finish_and_clear();
        Ok(match ended {
            None | Some((EndReason::Stopped, _)) => None,
            Some((reason, totals)) => Some(Crawled {
                reason,
                totals,
                store,
            }),
        })
    }

    /// The baseline: the same web breadth-first, for the same number of pages; none if
    /// stopped.
    fn crawl_breadth_first(
        &self,
        model: &Arc<SiteModel>,
        pages: u64,
    ) -> anyhow::Result<Option<TopicTotals>> {
        say(&format!(
            "\nThe same web breadth-first, for {} pages ...",
            grouped(pages)
        ))?;
        let web = Web::open(&[], &[], None, &self.settings)?;
        let store: Arc<dyn CrawlStore> = Arc::new(KeyValueStore::in_memory()?);
        let goals = Goals {
            wanted: None,
            max_pages: Some(pages),
        };
        sources::runtime()?.block_on(async {
            let external = self.open(store, model, &web, Strategy::BreadthFirst, goals);
            let external = external.await?;
            let mut signals = Signals::new()?;
            tokio::select! {
                ended = external.crawl(std::future::pending(), |_, _| {}) => Ok(Some(ended?.1)),
                () = signals.next() => Ok(None),
            }
        })
    }

    fn plan(&self, model: &Arc<SiteModel>, strategy: Strategy) -> Result<TopicCrawl, UnfitModel> {
        let mut settings = self.settings.clone();
        settings.external.strategy = strategy;
        TopicCrawl::new(self.topic, Arc::clone(model), &settings)
    }

    async fn open(
        &self,
        store: Arc<dyn CrawlStore>,
        model: &Arc<SiteModel>,
        web: &Web,
        strategy: Strategy,
        goals: Goals,
    ) -> anyhow::Result<ExternalCrawler> {
        let crawl = self.plan(model, strategy)?.with_goals(goals);
        let fetcher = web.fetcher();
        let metrics = CrawlMetrics::register(&Metrics::new());
        let slots = CrawlerSlots::new(self.settings.external.crawlers);
        let external = crawl.open(store, fetcher, &metrics, &slots).await?;
        let starts = self.starts();
        let starts = starts.map(|site| PageUrl::homepage(site, Scheme::Http));
        external.start_at(starts.collect()).await?;
        Ok(external)
    }

    /// A file name that is not in use: a recording is never overwritten.
    fn free_recording(&self) -> anyhow::Result<PathBuf> {
        for number in 1.. {
            let path = self.directory.join(format!("crawl-{number}.warc.gz"));
            if !fs::exists(&path)? {
                return Ok(path);
            }
        }
        bail!("no name is free in {}", self.directory.display())
    }

    /// Prints the sites found with reasons, precision and recall, and the files.
    fn report(&self, crawled: &Crawled, baseline: &TopicTotals) -> anyhow::Result<()> {
        let found = self.found(&crawled.store)?;
        let is_right = |site: &SiteId| self.web.truth(site) == self.truth();
        let right = found
            .iter()
            .filter(|(judged, _)| is_right(&judged.site))
            .count();
        if crawled.reason != EndReason::WantedReached {
            say(&format!(
                "\nIt ended before {} were found:\n{}",
                grouped(self.wanted),
                in_words(crawled.reason, &crawled.totals)
            ))?;
        }
        say(&format!(
            "\n{} sites about {}, and why (the first {SHOWN}):\n",
            found.len(),
            self.topic
        ))?;
        for (judged, why) in found.iter().take(SHOWN) {
            let mark = if is_right(&judged.site) { ' ' } else { '!' };
            let line = format!(
                "{mark} {:.3}  {:<38} {why}",
                judged.confidence,
                judged.site.as_str()
            );
            say(&line.chars().take(COLUMNS).collect::<String>())?;
        }
        let list = self.directory.join(format!("{}.txt", self.topic));
        let hosts: Vec<String> = found
            .iter()
            .map(|(judged, _)| format!("{}\n", judged.site))
            .collect();
        sources::write_whole(&list, hosts.concat().as_bytes())?;
        let targets = self.targets() - self.starts().count() as u64;
        say(&format!(
            "\nprecision {:.3}: {right} of {} found are about {}{}\n\
             recall    {:.3}: of {targets} that are and were not learned from\n",
            share(right as u64, found.len() as u64),
            found.len(),
            self.topic,
            if right < found.len() {
                " (! marks the others)"
            } else {
                ""
            },
            share(right as u64, targets),
        ))?;
        say("                     found   pages   pages per relevant site   harvest")?;
        for (name, totals) in [
            ("best recommended", &crawled.totals),
            ("breadth-first", baseline),
        ] {
            say(&format!(
                "    {name:<16} {:>6}  {:>6}   {:>23}   {:>7}",
                grouped(totals.finds),
                grouped(totals.pages),
                pprs(totals),
                harvest(totals)
            ))?;
        }
        say(&format!(
            "\nthe list   {}\nthe store  {}\npages      {}\n\n\
             Look closer: sitescout inspect HOST --state {}",
            list.display(),
            self.directory.join("state").display(),
            self.directory.join("crawl-*.warc.gz").display(),
            self.directory.join("state").display(),
        ))?;
        Ok(())
    }

    /// The sites found, in order, with the words that decided. Start sites do not count, but
    /// other training sites that are judged relevant do: as mistakes.
    fn found(&self, store: &dyn ReadStore) -> anyhow::Result<Vec<(JudgedSite, String)>> {
        const BATCH: usize = 1_000;
        let starts: Vec<&SiteId> = self.starts().collect();
        sources::runtime()?.block_on(async {
            let topic = sources::topic_of(store, Some(self.topic)).await?;
            let (mut found, mut after) = (Vec::new(), 0);
            loop {
                let batch = store.judged(topic, after, BATCH).await?;
                let Some(last) = batch.last() else {
                    return Ok(found);
                };
                after = last.seq;
                for judged in batch {
                    if !judged.verdict.is_relevant() || starts.contains(&&judged.site) {
                        continue;
                    }
                    let detail = store.site(topic, &judged.site).await?;
                    let evidence = detail.and_then(|detail| detail.evidence);
                    found.push((judged, evidence.as_ref().map(top_words).unwrap_or_default()));
                }
            }
        })
    }
}

/// The words with the highest weight for the topic.
fn top_words(evidence: &Evidence) -> String {
    let mut weights: BTreeMap<&str, f32> = BTreeMap::new();
    for (word, weight) in evidence.steps.iter().flat_map(|step| &step.for_target) {
        *weights.entry(word).or_default() += weight;
    }
    let mut words: Vec<(&str, f32)> = weights.into_iter().collect();
    words.sort_by(|one, other| other.1.total_cmp(&one.1));
    let words: Vec<&str> = words
        .into_iter()
        .take(WORDS)
        .map(|(word, _)| word)
        .collect();
    words.join(", ")
}

#[allow(
    clippy::cast_precision_loss,
    reason = "for people, three digits are enough"
)]
fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}
