//! Inputs shared by several commands: archives, the live web, labels, models, stores.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use crate::classify::{SiteModel, Thresholds};
use crate::config::{PageClassifierChoice, Settings, StoreSettings, TopicDefinition};
use crate::fetch::{Archive, FetchMetrics, Fetcher, LiveWeb, PageSource, Recorder, live};
use crate::lab::generated::GeneratedWeb;
use crate::parse::ParseLimits;
use crate::store::{DumpStore, KeyValueStore, ReadStore, StoreError, TopicId};
use crate::telemetry::Metrics;
use crate::training::{Background, Corpus, CorpusLimits, Labels};
pub(super) use crate::verdicts::date;
use crate::verdicts::{beside, put_in_place};
use crate::web::{PageUrl, SiteId, SiteVisit};

use super::terminal::complain;
use super::{in_file, read_settings};

/// The model in the directory of a topic.
pub(super) const MODEL_FILE: &str = "site-model.bin";

/// The definition of a topic, in its directory.
pub(super) const TOPIC_FILE: &str = "topic.toml";

/// The description of the model, for people.
pub(super) const CARD_FILE: &str = "card.md";

/// The page classifiers by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PageClassifierName {
    /// Logistic regression
    Linear,
    /// The paper's: centroids found by k-means
    Centroid,
}

impl From<PageClassifierName> for PageClassifierChoice {
    fn from(name: PageClassifierName) -> Self {
        match name {
            PageClassifierName::Linear => Self::Linear,
            PageClassifierName::Centroid => Self::Centroid,
        }
    }
}

/// How long blocking tasks are waited for at the end.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(1);

/// Reading archives is bound by the CPU.
const ARCHIVED_SITES_AT_ONCE: usize = 16;

/// Visits to live sites mostly wait for the network.
const LIVE_SITES_AT_ONCE: usize = 128;

/// A source of pages instead of the live web.
#[derive(Debug, Clone)]
pub(super) enum WebSource {
    /// A WARC file.
    Archive(PathBuf),
    Generated(GeneratedWeb),
}

impl FromStr for WebSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("warc", file)) if !file.is_empty() => Ok(Self::Archive(file.into())),
            Some(("generated", numbers)) => generated_web(numbers).map(Self::Generated),
            _ => Err("expected warc:FILE or generated:SITES,SEED(,LOCALITY)".to_owned()),
        }
    }
}

/// Parses `SITES,SEED` or `SITES,SEED,LOCALITY`.
pub(super) fn generated_web(numbers: &str) -> Result<GeneratedWeb, String> {
    const EXPECTED: &str =
        "expected SITES,SEED or SITES,SEED,LOCALITY: two whole numbers and a share from 0 to 1";
    let mut parts = numbers.split(',').map(str::trim);
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (Some(sites), Some(seed)) = (number(), number()) else {
        return Err(EXPECTED.to_owned());
    };
    let web = GeneratedWeb::new(sites, seed);
    let locality = parts.next().map(str::parse::<f64>);
    match (locality, parts.next()) {
        (None, _) => Ok(web),
        (Some(Ok(share)), None) if (0.0..=1.0).contains(&share) => Ok(web.with_locality(share)),
        _ => Err(EXPECTED.to_owned()),
    }
}

/// A topic of generated webs.
pub(super) fn generated_topic(name: &str) -> Result<&'static str, String> {
    GeneratedWeb::topic(name).ok_or_else(|| {
        let topics = GeneratedWeb::topics().join(", ");
        format!("the generated web has no sites about `{name}`; there are: {topics}")
    })
}

/// Where pages come from.
pub(super) struct Web {
    pub(super) pages: Arc<PageSource>,
    /// Maximum number of sites visited at once.
    pub(super) sites_at_once: usize,
}

impl Web {
    /// Opens the archives or the generated web that were named, or else the live web.
    pub(super) fn open(
        warc: &[PathBuf],
        webs: &[WebSource],
        record: Option<&Path>,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let mut archives = warc.to_vec();
        let mut generated = None;
        for web in webs {
            match web {
                WebSource::Archive(file) => archives.push(file.clone()),
                WebSource::Generated(web) => generated = Some(*web),
            }
        }
        let (pages, sites_at_once) = if let Some(web) = generated {
            ensure!(
                warc.len() + webs.len() == 1,
                "a generated web cannot be combined with others"
            );
            (PageSource::of(Arc::new(web)), ARCHIVED_SITES_AT_ONCE)
        } else if !archives.is_empty() {
            let archives = PageSource::archives(&archives, &settings.fetch)?;
            (archives, ARCHIVED_SITES_AT_ONCE)
        } else {
            (live(record, settings)?, LIVE_SITES_AT_ONCE)
        };
        Ok(Self {
            pages: Arc::new(pages),
            sites_at_once,
        })
    }

    /// Archives that are open already.
    pub(super) fn of(archive: Archive) -> Self {
        Self {
            pages: Arc::new(PageSource::of(Arc::new(archive))),
            sites_at_once: ARCHIVED_SITES_AT_ONCE,
        }
    }

    /// The pages, for a crawler.
    pub(super) fn fetcher(&self) -> Arc<dyn Fetcher> {
        Arc::clone(&self.pages) as Arc<dyn Fetcher>
    }

    /// Waits until everything recorded is on the disk.
    pub(super) async fn finish(&self) -> anyhow::Result<()> {
        if let Some(exchanges) = self.pages.finish().await? {
            complain(&format!("recorded: {exchanges} requests and their answers"));
        }
        Ok(())
    }
}

fn live(record: Option<&Path>, settings: &Settings) -> anyhow::Result<PageSource> {
    // Before a recording is created.
    LiveWeb::check(&settings.fetch)?;
    let user_agent = live::user_agent(&settings.fetch);
    let recorder = record.map(|path| Recorder::create(path, &user_agent));
    let metrics = FetchMetrics::register(&Metrics::new());
    let pages = PageSource::live(&settings.fetch, metrics, recorder.transpose()?)?;
    pages.set_host_lists(settings.external.host_lists());
    Ok(pages)
}

pub(super) fn read_labels(path: &Path) -> anyhow::Result<Labels> {
    let text = text_of_labels(path)?;
    let labels = Labels::parse(&text).with_context(|| path.display().to_string())?;
    print_remarks(path, &labels);
    Ok(labels)
}

/// Reads the labels of several files, which may not contradict each other.
pub(super) fn read_all_labels(paths: &[PathBuf]) -> anyhow::Result<Labels> {
    let texts = paths
        .iter()
        .map(|path| anyhow::Ok((path.display().to_string(), text_of_labels(path)?)));
    let labels = Labels::parse_all(&texts.collect::<anyhow::Result<Vec<_>>>()?)?;
    for remark in &labels.remarks {
        complain(&format!("sitescout: {remark}"));
    }
    Ok(labels)
}

fn text_of_labels(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read the labels {}", path.display()))
}

pub(super) fn print_remarks(path: &Path, labels: &Labels) {
    for remark in &labels.remarks {
        complain(&format!("sitescout: {}: {remark}", path.display()));
    }
}

/// The background that the settings name, or else the one that comes with the program.
pub(super) fn open_background(settings: &Settings) -> anyhow::Result<Background> {
    let Some(path) = &settings.background else {
        return Ok(Background::shipped()?);
    };
    let bytes = fs::read(path).with_context(|| {
        format!(
            "cannot read the background {}; `sitescout background add` makes it, or leave `background` in \
             [training] empty to use the one that comes with the program",
            path.display()
        )
    })?;
    Background::from_bytes(&bytes).with_context(|| path.display().to_string())
}

/// Where the background comes from, without the paths of the machine.
pub(super) fn origin_of_background(settings: &Settings) -> String {
    match settings.background.as_deref().and_then(Path::file_name) {
        None => "comes with the program".to_owned(),
        Some(name) => format!("from {}", name.display()),
    }
}

/// The definition in the directory of a topic, if there is one.
pub(super) fn topic_definition(directory: &Path) -> anyhow::Result<Option<TopicDefinition>> {
    let file = directory.join(TOPIC_FILE);
    if !fs::exists(&file)? {
        return Ok(None);
    }
    let topic = TopicDefinition::parse(&read_settings(&file)?);
    Ok(Some(topic.map_err(|error| in_file(&file, &error))?))
}

/// Reads the model of a topic as it was learned.
pub(super) fn read_model(directory: &Path) -> anyhow::Result<SiteModel> {
    let path = directory.join(MODEL_FILE);
    let bytes = fs::read(&path).with_context(|| {
        format!(
            "cannot read the model {}; `sitescout train` makes one",
            path.display()
        )
    })?;
    SiteModel::from_bytes(&bytes).with_context(|| path.display().to_string())
}

/// Reads the model of a topic, with the threshold of its definition.
pub(super) fn open_model(directory: &Path) -> anyhow::Result<SiteModel> {
    let model = read_model(directory)?;
    let threshold = topic_definition(directory)?.and_then(|topic| topic.p_threshold);
    Ok(match threshold {
        None => model,
        Some(p_threshold) => {
            let thresholds = Thresholds {
                p_threshold,
                ..*model.thresholds()
            };
            model.with_thresholds(thresholds)
        }
    })
}

/// A topic that is ready to be crawled.
pub(super) struct TopicToCrawl {
    pub(super) model: SiteModel,
    /// Entrances of the start sites.
    pub(super) starts: Vec<PageUrl>,
    pub(super) wanted: Option<u64>,
}

/// Reads model and definition of a topic, with further start sites.
pub(super) fn open_topic(directory: &Path, more_starts: &[String]) -> anyhow::Result<TopicToCrawl> {
    let model = open_model(directory)?;
    let definition = topic_definition(directory)?.unwrap_or_default();
    let starts: Vec<&String> = definition.start_sites.iter().chain(more_starts).collect();
    ensure!(
        !starts.is_empty(),
        "name sites to begin with: by --start, or as `start_sites` in {}",
        directory.join(TOPIC_FILE).display()
    );
    let entrance = |host: &String| {
        let visit = SiteVisit::to(host).map_err(anyhow::Error::msg)?;
        anyhow::Ok(visit.entry)
    };
    let starts: anyhow::Result<Vec<PageUrl>> = starts.into_iter().map(entrance).collect();
    Ok(TopicToCrawl {
        model,
        starts: starts.context("a start site cannot be used")?,
        wanted: definition.wanted,
    })
}

/// Refuses duplicates, and paths in place of names.
pub(super) fn check_topic_names(topics: &[String]) -> anyhow::Result<()> {
    let is_path = |topic: &&String| topic.contains(['/', '\\']) || topic.starts_with('.');
    if let Some(path) = topics.iter().find(is_path) {
        bail!(
            "the topic `{path}` is named by a path; a topic is the name of a directory of models"
        );
    }
    let mut names = BTreeSet::new();
    match topics.iter().find(|topic| !names.insert(*topic)) {
        Some(twice) => bail!("the topic {twice} is named twice"),
        None => Ok(()),
    }
}

/// Reads the labelled sites, and reports those without pages.
pub(super) fn read_corpus(
    web: &Web,
    labels: &Labels,
    settings: &Settings,
) -> anyhow::Result<Corpus> {
    read_corpus_again(web, &[], labels, settings)
}

/// As [`read_corpus`]; sites that could not be read are retried with each of the other webs.
pub(super) fn read_corpus_again(
    web: &Web,
    others: &[Web],
    labels: &Labels,
    settings: &Settings,
) -> anyhow::Result<Corpus> {
    let limits = CorpusLimits {
        pages_per_site: settings.training.pages_per_site,
        sites_at_once: web.sites_at_once,
        parse: parse_limits(settings),
    };
    let progress = progress_bar(labels.labels.len(), "reading sites");
    let fetchers = iter::once(web).chain(others);
    let fetchers: Vec<_> = fetchers.map(Web::fetcher).collect();
    let corpus = runtime()?.block_on(async {
        let reading = Corpus::read_in_turn(&fetchers, &labels.labels, limits, |done| {
            progress.set_position(done as u64);
        });
        let corpus = reading.await;
        web.finish().await?;
        anyhow::Ok(corpus)
    })?;
    progress.finish_and_clear();
    report_missing(&corpus);
    Ok(corpus)
}

fn report_missing(corpus: &Corpus) {
    let unread = corpus.unreachable.iter();
    let unread: Vec<String> = unread
        .map(|(site, why)| format!("{site} ({why})"))
        .collect();
    let empty: Vec<&str> = corpus.empty.iter().map(SiteId::as_str).collect();
    for (number, hosts, why) in [
        (unread.len(), unread.join(", "), "they could not be read"),
        (empty.len(), empty.join(", "), "there is no page with words"),
    ] {
        if number > 0 {
            complain(&format!(
                "sitescout: {number} left out, because {why}: {hosts}"
            ));
        }
    }
}

pub(super) fn parse_limits(settings: &Settings) -> ParseLimits {
    ParseLimits {
        max_links: settings.parse.max_links,
        max_url_bytes: settings.parse.max_url_bytes,
    }
}

/// Opens a store that must exist, for reading.
pub(super) fn open_store(
    directory: &Path,
    settings: &Settings,
) -> anyhow::Result<Arc<dyn ReadStore>> {
    Ok(Arc::new(open_existing(directory, settings)?))
}

/// Opens a store that must exist, for a dump.
pub(super) fn open_store_for_dump(
    directory: &Path,
    settings: &Settings,
) -> anyhow::Result<Arc<dyn DumpStore>> {
    Ok(Arc::new(open_existing(directory, settings)?))
}

fn open_existing(directory: &Path, settings: &Settings) -> anyhow::Result<KeyValueStore> {
    ensure!(
        KeyValueStore::is_in(directory),
        "there is no store in {}; `sitescout crawl` makes one, --state names it",
        directory.display()
    );
    Ok(KeyValueStore::open(directory, &settings.store)?)
}

/// Opens a store, which is created if there is none.
pub(super) fn open_or_create_store(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<KeyValueStore, StoreError> {
    KeyValueStore::open(directory, settings)
}

/// The topic of this name, or the only one.
pub(super) async fn topic_of(store: &dyn ReadStore, name: Option<&str>) -> anyhow::Result<TopicId> {
    let topics = store.topics().await?;
    let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
    let found = match (name, &topics[..]) {
        (None, [(_, only)]) => Some(*only),
        (None, _) => None,
        (Some(name), _) => {
            let found = topics.iter().find(|(own, _)| own == name);
            found.map(|(_, topic)| *topic)
        }
    };
    found.with_context(|| match name {
        Some(name) => format!(
            "there is no topic `{name}`; there are: {}",
            names.join(", ")
        ),
        None => format!("name one with --topic: {}", names.join(", ")),
    })
}

/// Whether every user of the machine can read a file.
#[cfg(unix)]
pub(super) fn is_readable_by_all(path: &Path) -> anyhow::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o004 != 0)
}

/// A threshold on the command line.
pub(super) fn p_threshold(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| (0.5..1.0).contains(number))
        .ok_or_else(|| "a threshold is a number from 0.5 to below 1".to_owned())
}

/// Runs to the end. Tasks that still block then are abandoned: nothing waits for them, and
/// everything acknowledged is on the disk.
pub(super) fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
    ended
}

/// Refuses a clock that contradicts the times in the store, unless it is accepted.
pub(super) async fn check_clock(store: &KeyValueStore, is_accepted: bool) -> anyhow::Result<()> {
    let checked = store.check_clock().await;
    if !is_accepted {
        return Ok(checked?);
    }
    match checked {
        Err(error @ StoreError::WrongClock { .. }) => {
            tracing::warn!(%error, "the clock is accepted; later times in the store are corrected");
        }
        checked => checked?,
    }
    // Even if the check finds nothing, a wrong clock may have deferred visits.
    Ok(store.accept_clock().await?)
}

pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.context("cannot start the runtime")
}

/// A bar on standard error if that is a terminal, else nothing.
pub(super) fn progress_bar(steps: usize, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps as u64).with_style(style);
    bar.set_message(what);
    bar
}

/// A file appears whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || {
        let mut file = beside(path)?;
        file.write_all(bytes)?;
        put_in_place(file, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
