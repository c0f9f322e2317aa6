//! `sitescout crawl`: finds further sites of topics.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::config::{Settings, Strategy};
use crate::external::{
    CrawlMetrics, CrawlerSlots, EndReason, ExternalCrawler, Goals, TopicCrawl, latest_end,
};
use crate::store::{CrawlStore, JudgedSite, ReadStore, StoreError, TopicTotals};
use crate::telemetry::{Metrics, grouped};
use crate::verdicts::JudgedSiteView;
use crate::web::{self, PageUrl};

use super::ExitCode;
use super::signals::Signals;
use super::sources::{self, Web, WebSource};
use super::terminal::complain;

const EXAMPLES: &str = "\
Examples:
  sitescout crawl sailing --config live.toml --wanted 100
  sitescout crawl sailing --web warc:web.warc.gz --crawlers 1 --json
  sitescout crawl sailing --web generated:20000,1 --start HOST
  sitescout crawl sailing --config live.toml --start harbour.example --record crawl.warc.gz
  sitescout crawl sailing baking --config live.toml

Start sites come from the topic.toml of the topic and from --start. Everything found is kept
in the state directory; running the same command again resumes where it stopped, also after
Ctrl-C or a power cut. Each verdict is printed when it is on the disk.";

/// Printed after the first signal.
pub(super) const STOPPING: &str =
    "stopping: visits under way are finished first; a second signal ends at once";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The topics, each a directory of --models; several are crawled for at once
    #[arg(value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    /// Where pages come from instead of the live web: warc:FILE, which may be given several
    /// times, or generated:SITES,SEED(,LOCALITY)
    #[arg(long, value_name = "WEB")]
    web: Vec<WebSource>,
    /// End when this many relevant sites are found, instead of `wanted` of the topic
    #[arg(long, value_name = "N")]
    wanted: Option<u64>,
    /// End after this many pages for each topic
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Start sites, in addition to those of the topic
    #[arg(long, value_name = "HOST", num_args = 1..)]
    start: Vec<String>,
    /// Order of visits, instead of the one in the settings
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    strategy: Option<Strategy>,
    /// Maximum number of sites visited at once, instead of the one in the settings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    crawlers: Option<u32>,
    /// Directory of the models
    #[arg(long, value_name = "DIR", default_value = "site-models")]
    models: PathBuf,
    /// Directory of the store
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
    /// Record all responses of the live web in this WARC file
    #[arg(long, value_name = "FILE", conflicts_with = "web")]
    record: Option<PathBuf>,
    /// Print JSON Lines: one object for each verdict
    #[arg(long)]
    json: bool,
    /// Accept the clock of this machine although the verdicts in the store contradict it
    #[arg(long)]
    accept_clock: bool,
}

/// Reads the name of a strategy.
fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let names = Strategy::ALL
        .map(|strategy| PossibleValue::new(strategy.name()).help(strategy.description()));
    PossibleValuesParser::new(names).try_map(|name| {
        let mut all = Strategy::ALL.into_iter();
        let found = all.find(|strategy| strategy.name() == name);
        found.ok_or("no strategy has this name")
    })
}

pub(super) fn run(arguments: &Arguments, mut settings: Settings) -> anyhow::Result<ExitCode> {
    if let Some(strategy) = arguments.strategy {
        settings.external.strategy = strategy;
    }
    if let Some(crawlers) = arguments.crawlers {
        settings.external.crawlers = crawlers as usize;
    }
    check_topics(arguments)?;
    let web = Web::open(&[], &arguments.web, arguments.record.as_deref(), &settings)?;
    let topics = arguments.topics.iter();
    let topics = topics.map(|topic| open_topic(topic, arguments, &settings));
    let topics = topics.collect::<anyhow::Result<Vec<_>>>()?;
    let store = sources::open_or_create_store(&arguments.state, &settings.store)?;
    sources::run(async {
        sources::check_clock(&store, arguments.accept_clock).await?;
        web.pages.set_blocks(store.all_blocks().await?);
        let ended = crawl(topics, Arc::new(store), &web, arguments.json, &settings).await;
        // The recording is kept even if the crawl failed.
        let recorded = web.finish().await;
        ended.and(recorded)
    })?;
    Ok(ExitCode::Success)
}

fn check_topics(arguments: &Arguments) -> anyhow::Result<()> {
    let topics = &arguments.topics;
    ensure!(
        topics.len() == 1 || arguments.start.is_empty(),
        "--start goes with one topic; name the sites as `start_sites` in the topic.toml of each"
    );
    sources::check_topic_names(topics)
}

/// A topic of the directory of models, and where its crawl begins.
fn open_topic(
    name: &str,
    arguments: &Arguments,
    settings: &Settings,
) -> anyhow::Result<(TopicCrawl, Vec<PageUrl>)> {
    let opened = sources::open_topic(&arguments.models.join(name), &arguments.start)?;
    let crawl = TopicCrawl::new(name, Arc::new(opened.model), settings)?;
    let crawl = crawl.with_goals(Goals {
        wanted: arguments.wanted.or(opened.wanted),
        max_pages: arguments.max_pages,
    });
    Ok((crawl, opened.starts))
}

/// Crawls for all topics at once, until each has a reason to end.
async fn crawl(
    topics: Vec<(TopicCrawl, Vec<PageUrl>)>,
    store: Arc<dyn CrawlStore>,
    web: &Web,
    json: bool,
    settings: &Settings,
) -> anyhow::Result<()> {
    let metrics = CrawlMetrics::register(&Metrics::new());
    let printer = Arc::new(Printer::new(json, topics.len() > 1));
    let slots = CrawlerSlots::new(settings.external.crawlers);
    let (stop, stopped) = watch::channel(false);
    let mut signals = Signals::new()?;
    let mut failure = None;
    let mut end = None;
    let mut crawls = JoinSet::new();
    for (topic, starts) in topics {
        let name = topic.name().to_owned();
        let opening = async {
            let (store, fetcher) = (Arc::clone(&store), web.fetcher());
            let external = topic.open(store, fetcher, &metrics, &slots).await?;
            if external.is_paused().await? {
                complain(&format!(
                    "{name} is paused for daemons; this crawl goes on all the same"
                ));
            }
            external.start_at(starts).await?;
            Ok::<_, StoreError>(external)
        };
        match opening.await {
            Ok(external) => {
                crawls.spawn(crawl_one(
                    external,
                    name,
                    Arc::clone(&printer),
                    stopped.clone(),
                ));
            }
            Err(error) => {
                failure = Some(anyhow::Error::new(error));
                stop.send_replace(true);
                break;
            }
        }
    }
    loop {
        tokio::select! {
            ended = crawls.join_next() => match ended {
                // The other crawls are stopped, not aborted.
                Some(Ok(Err(error))) => {
                    failure.get_or_insert(error);
                    stop.send_replace(true);
                }
                Some(Ok(Ok(()))) => {}
                Some(Err(broken)) if broken.is_cancelled() => {}
                Some(Err(broken)) => {
                    failure.get_or_insert(broken.into());
                    stop.send_replace(true);
                }
                None => break,
            },
            () = signals.next() => {
                end.get_or_insert_with(|| latest_end(&settings.external));
                // A second signal does not wait for visits under way.
                if stop.send_replace(true) {
                    crawls.abort_all();
                } else {
                    printer.bar.suspend(|| complain(STOPPING));
                }
            }
            () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                tracing::warn!("not all visits ended in time; the next crawl repeats the unfinished ones");
                break;
            }
            () = printer.closed.notified() => {
                stop.send_replace(true);
            }
        }
    }
    printer.flush()?;
    failure.map_or(Ok(()), Err)
}

/// Crawls for one topic, and prints what it finds and how it ends.
async fn crawl_one(
    external: ExternalCrawler,
    topic: String,
    printer: Arc<Printer>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let stop = async move {
        // The other end lives as long as any crawl does.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    };
    let on_verdict = |verdict: &JudgedSite, totals: &TopicTotals| {
        printer.print(&topic, verdict, totals);
    };
    let (reason, totals) = external.crawl(stop, on_verdict).await?;
    printer.finish(&topic, reason, &totals);
    Ok(())
}

/// Prints verdicts and progress.
struct Printer {
    out: Mutex<BufWriter<io::Stdout>>,
    json: bool,
    /// Whether text lines begin with the topic.
    names_topics: bool,
    bar: ProgressBar,
    /// Standard output was closed.
    closed: Notify,
}

impl Printer {
    fn new(json: bool, names_topics: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self {
            out: Mutex::new(BufWriter::new(io::stdout())),
            json,
            names_topics,
            bar,
            closed: Notify::new(),
        }
    }

    fn print(&self, topic: &str, verdict: &JudgedSite, totals: &TopicTotals) {
        let line = if self.json {
            as_json(topic, verdict)
        } else {
            format!("{}{}", self.prefix(topic), as_text(verdict))
        };
        let printed = self.bar.suspend(|| {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(out, "{line}").and_then(|()| out.flush())
        });
        if printed.is_err() {
            self.closed.notify_one();
        }
        let prefix = self.prefix(topic);
        self.bar.set_message(format!("{prefix}{}", summary(totals)));
        self.bar.tick();
    }

    fn prefix(&self, topic: &str) -> String {
        if self.names_topics {
            format!("{topic}: ")
        } else {
            String::new()
        }
    }

    fn finish(&self, topic: &str, reason: EndReason, totals: &TopicTotals) {
        let why = in_words(reason, totals);
        let (prefix, summary) = (self.prefix(topic), summary(totals));
        self.bar
            .suspend(|| complain(&format!("{prefix}{summary}\n{prefix}ended: {why}")));
    }

    fn flush(&self) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = out.flush();
        flushed.context("not all verdicts could be printed; `sitescout export` lists them")
    }
}

/// Why a crawl has ended, for people.
pub(super) fn in_words(reason: EndReason, totals: &TopicTotals) -> String {
    match reason {
        EndReason::WantedReached => "the wanted number of sites is found".to_owned(),
        EndReason::BorderEmpty if totals.deferred == 0 => "no site is left to visit".to_owned(),
        EndReason::BorderEmpty => format!(
            "no site is left to visit now; {} are to be visited later, so run this again",
            totals.deferred
        ),
        EndReason::PprsBad => {
            "pages per relevant site rose above `pprs_factor` times their best".to_owned()
        }
        EndReason::PagesSpent => "the limit of pages is reached".to_owned(),
        EndReason::Stopped => "stopped; run the same command to go on".to_owned(),
    }
}

/// A verdict as a line for people.
pub(super) fn as_text(verdict: &JudgedSite) -> String {
    let pages = match verdict.pages {
        1 => "1 page ".to_owned(),
        pages => format!("{pages} pages"),
    };
    let note = match (verdict.verdict.undecided_reason(), verdict.is_start) {
        (Some(reason), _) => format!("  ({})", reason.name()),
        (None, true) => "  (start)".to_owned(),
        (None, false) if verdict.noindex => "  (noindex)".to_owned(),
        (None, false) => String::new(),
    };
    format!(
        "{:<10} {:.3}  {pages:>8}  {}{note}",
        verdict.verdict.name(),
        verdict.confidence,
        verdict.site
    )
}

/// A verdict as a line for programs.
#[derive(Serialize)]
struct CrawlLine<'s> {
    topic: &'s str,
    host: &'s str,
    #[serde(flatten)]
    judged: JudgedSiteView,
}

fn as_json(topic: &str, verdict: &JudgedSite) -> String {
    let line = CrawlLine {
        topic,
        host: verdict.site.as_str(),
        judged: verdict.into(),
    };
    let json = serde_json::to_string(&line);
    web::sanitized_json(json.expect("a line can be written as JSON"))
}

/// Sites judged, relevant, pages, pprs, harvest, border.
pub(super) fn summary(totals: &TopicTotals) -> String {
    let decided = totals.relevant + totals.irrelevant;
    let (pprs, harvest) = (pprs(totals), harvest(totals));
    format!(
        "{} sites judged, {} relevant ({} found), {} pages, pprs {pprs}, harvest {harvest}, border {}",
        grouped(decided + totals.undecided),
        grouped(totals.relevant),
        grouped(totals.finds),
        grouped(totals.pages),
        grouped(totals.border),
    )
}

/// Pages per relevant site that was found.
pub(super) fn pprs(totals: &TopicTotals) -> String {
    let pprs = totals.tally().pprs();
    pprs.map_or_else(|| "-".to_owned(), |pprs| format!("{pprs:.1}"))
}

/// Relevant sites among those that were decided.
pub(super) fn harvest(totals: &TopicTotals) -> String {
    let harvest = totals.tally().harvest();
    harvest.map_or_else(|| "-".to_owned(), |harvest| format!("{harvest:.2}"))
}
