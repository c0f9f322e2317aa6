//! `sitescout crawl`: find further sites of a topic.

use std::cell::RefCell;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::sync::Notify;

use crate::config::{Settings, Strategy, TopicDefinition};
use crate::external::{EndReason, ExternalCrawler, Goals, ordering};
use crate::internal::InternalCrawler;
use crate::store::{KeyValueStore, SiteStore, TopicTotals};
use crate::verdicts::ShownVerdict;
use crate::web::PageUrl;

use super::sources::{self, Web};
use super::terminal::{complain, grouped, harmless_json};
use super::{ExitCode, in_file, read_settings};

const EXAMPLES: &str = "\
Examples:
  sitescout crawl sailing --config live.toml --wanted 100
  sitescout crawl sailing --web warc:web.warc.gz --crawlers 1 --json
  sitescout crawl sailing --config live.toml --start harbour.example --record crawl.warc.gz

Start sites come from the topic.toml of the topic and from --start. Everything found is kept
in the state directory; running the same command again goes on where it stopped, also after
Ctrl-C or a power cut. Each verdict is printed when it is on the disk.";

/// The orderings by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StrategyName {
    /// By the mean of global and local edge weights
    Combined,
    /// By the confidence of the sites that recommend them
    Global,
    /// By the confidence of the pages that recommend them
    Local,
    /// As the paper has it
    Paper,
    /// As they were found
    BreadthFirst,
    /// By lot
    Random,
}

impl From<StrategyName> for Strategy {
    fn from(name: StrategyName) -> Self {
        match name {
            StrategyName::Combined => Self::Combined,
            StrategyName::Global => Self::Global,
            StrategyName::Local => Self::Local,
            StrategyName::Paper => Self::Paper,
            StrategyName::BreadthFirst => Self::BreadthFirst,
            StrategyName::Random => Self::Random,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The topic: a directory of --models
    #[arg(value_name = "TOPIC")]
    topic: String,
    /// Where pages come from instead of the live web: warc:FILE; may be given several times
    #[arg(long, value_name = "WEB", value_parser = archive_of)]
    web: Vec<PathBuf>,
    /// End with so many relevant sites found
    #[arg(long, value_name = "N")]
    wanted: Option<u64>,
    /// End after so many pages
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Sites to begin with, beside those of the topic
    #[arg(long, value_name = "HOST", num_args = 1..)]
    start: Vec<String>,
    /// In which order sites are visited, instead of the ordering in the settings
    #[arg(long, value_name = "NAME")]
    strategy: Option<StrategyName>,
    /// How many sites are visited at once, instead of the number in the settings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    crawlers: Option<u32>,
    /// Where the models are
    #[arg(long, value_name = "DIR", default_value = "site-models")]
    models: PathBuf,
    /// Where everything found is kept
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
    /// Keep everything that the live web answers in this WARC file
    #[arg(long, value_name = "FILE", conflicts_with = "web")]
    record: Option<PathBuf>,
    /// Print JSON Lines: one object for each verdict
    #[arg(long)]
    json: bool,
}

fn archive_of(web: &str) -> Result<PathBuf, String> {
    let file = web.strip_prefix("warc:").filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| "expected warc:FILE".to_owned())?;
    Ok(PathBuf::from(file))
}

pub(super) fn run(arguments: &Arguments, mut settings: Settings) -> anyhow::Result<ExitCode> {
    if let Some(strategy) = arguments.strategy {
        settings.external.strategy = strategy.into();
    }
    if let Some(crawlers) = arguments.crawlers {
        settings.external.crawlers = crawlers as usize;
    }
    let directory = arguments.models.join(&arguments.topic);
    let model = sources::open_model(&directory)?;
    let starts = start_sites(arguments, &directory)?;
    let web = Web::open(&arguments.web, arguments.record.as_deref(), &settings)?;
    let crawler = InternalCrawler::new(
        Arc::clone(&web.fetcher),
        Arc::new(model),
        settings.internal,
        sources::parse_limits(&settings),
    );
    let store = KeyValueStore::open(&arguments.state, &settings.store)?;
    let goals = Goals {
        wanted: arguments.wanted,
        max_pages: arguments.max_pages,
    };
    sources::runtime()?.block_on(async {
        let store: Arc<dyn SiteStore> = Arc::new(store);
        let ordering = ordering(settings.external.strategy, settings.external.seed);
        let (topic, settings) = (&arguments.topic, &settings);
        let opening = ExternalCrawler::open(store, topic, crawler, ordering, settings, goals);
        let external = opening.await?;
        external.start_at(starts).await?;
        let printer = Printer::new(arguments.json);
        let stop = async {
            tokio::select! {
                () = interrupted() => {}
                () = printer.closed.notified() => {}
            }
        };
        let ended = external
            .crawl(stop, |verdict, totals| printer.print(verdict, totals))
            .await;
        // What was recorded is worth keeping, however the rest went.
        web.finish().await?;
        let (reason, totals) = ended?;
        printer.finish(reason, &totals)
    })?;
    Ok(ExitCode::Success)
}

/// Where the crawl begins: as the topic says, and as the command line adds.
fn start_sites(arguments: &Arguments, directory: &Path) -> anyhow::Result<Vec<PageUrl>> {
    let file = directory.join("topic.toml");
    let mut hosts = arguments.start.clone();
    if fs::exists(&file)? {
        let text = read_settings(&file)?;
        let topic = TopicDefinition::parse(&text).map_err(|error| in_file(&file, &error))?;
        hosts.splice(0..0, topic.start_sites);
    }
    ensure!(
        !hosts.is_empty(),
        "name sites to begin with: by --start, or as `start_sites` in {}",
        file.display()
    );
    let entrance = |host: &String| {
        let visit = sources::visit_to(host).map_err(anyhow::Error::msg)?;
        anyhow::Ok(visit.entry)
    };
    let entrances: anyhow::Result<Vec<PageUrl>> = hosts.iter().map(entrance).collect();
    entrances.context("a start site cannot be used")
}

/// Ctrl-C, or the wish of whoever started the process that it ends.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without a way to be told, the crawl is ended by its goals alone.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Prints verdicts, and how the crawl goes.
struct Printer {
    out: RefCell<BufWriter<io::Stdout>>,
    json: bool,
    bar: ProgressBar,
    /// The reader of our output has left.
    closed: Notify,
}

impl Printer {
    fn new(json: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self {
            out: RefCell::new(BufWriter::new(io::stdout())),
            json,
            bar,
            closed: Notify::new(),
        }
    }

    fn print(&self, verdict: &ShownVerdict, totals: &TopicTotals) {
        let line = match self.json {
            true => harmless_json(&as_json(verdict)),
            false => as_text(verdict),
        };
        let printed = self.bar.suspend(|| {
            let mut out = self.out.borrow_mut();
            writeln!(out, "{line}").and_then(|()| out.flush())
        });
        if printed.is_err() {
            self.closed.notify_one();
        }
        self.bar.set_message(summary(totals));
        self.bar.tick();
    }

    fn finish(&self, reason: EndReason, totals: &TopicTotals) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        let why = match reason {
            EndReason::WantedReached => "as many sites as were wanted are found".to_owned(),
            EndReason::BorderEmpty { deferred: 0 } => "no site is left to visit".to_owned(),
            EndReason::BorderEmpty { deferred } => format!(
                "no site is left to visit now; {deferred} asked to be visited later, so run this \
                 again"
            ),
            EndReason::PprsBad => "relevant sites have become too dear (pprs_factor)".to_owned(),
            EndReason::PagesSpent => "as many pages as were allowed are spent".to_owned(),
            EndReason::Stopped => "stopped; run the same command to go on".to_owned(),
        };
        complain(&format!("{}\nended: {why}", summary(totals)));
        self.out.borrow_mut().flush()?;
        Ok(())
    }
}

fn as_text(verdict: &ShownVerdict) -> String {
    let pages = match verdict.pages {
        1 => "1 page ".to_owned(),
        pages => format!("{pages} pages"),
    };
    let note = match (verdict.verdict.undecided_reason(), verdict.is_start) {
        (Some(reason), _) => format!("  ({})", reason.name()),
        (None, true) => "  (start)".to_owned(),
        (None, false) => String::new(),
    };
    format!(
        "{:<10} {}  {pages:>8}  {}{note}",
        verdict.verdict.name(),
        verdict.confidence,
        verdict.site
    )
}

fn as_json(verdict: &ShownVerdict) -> serde_json::Value {
    json!({
        "seq": verdict.seq,
        "host": verdict.site.as_str(),
        "verdict": verdict.verdict.name(),
        "confidence": verdict.confidence.get(),
        "pages": verdict.pages,
        "rank": verdict.rank,
        "start": verdict.is_start,
    })
}

/// Sites judged, relevant, pages, pprs, harvest, border.
#[allow(
    clippy::cast_precision_loss,
    reason = "for people, two digits are enough"
)]
fn summary(totals: &TopicTotals) -> String {
    let decided = totals.relevant + totals.irrelevant;
    let harvest = match decided {
        0 => "-".to_owned(),
        _ => format!("{:.2}", totals.relevant as f64 / decided as f64),
    };
    let pprs = match totals.finds {
        0 => "-".to_owned(),
        finds => format!("{:.1}", totals.pages as f64 / finds as f64),
    };
    format!(
        "{} sites judged, {} relevant ({} found), {} pages, pprs {pprs}, harvest {harvest}, border {}",
        grouped(decided + totals.undecided),
        grouped(totals.relevant),
        grouped(totals.finds),
        grouped(totals.pages),
        grouped(totals.border),
    )
}
