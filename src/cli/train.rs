//! `sitescout train`: learns what sites of a topic look like.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::classify::{SiteModel, TopicPrior};
use crate::config::{Settings, TopicDefinition};
use crate::store::{Opinion, StoreError};
use crate::training::{Card, Corpus, Labels, OTHER, Validation, fit_model_from};
use crate::web::SiteId;

use super::sources::{self, CARD_FILE, MODEL_FILE, PageClassifierName, TOPIC_FILE, Web, WebSource};
use super::terminal::{complain, say};
use super::{ExitCode, in_file, read_settings};

/// Fewer examples than this are learned from with a warning.
const FEW_EXAMPLES: usize = 5;

const EXAMPLES: &str = "\
Examples:
  sitescout train sailing --warc sites.warc.gz --labels sites.tsv
  sitescout train sailing --warc a.warc b.warc --labels sites.tsv --out /srv/site-models
  sitescout train site-models/sailing/topic.toml --warc sites.warc.gz
  sitescout train --config live.toml site-models/sailing/topic.toml --record sites.warc.gz
  sitescout train --config live.toml sailing --from-decisions --state /var/lib/sitescout/state
  curl -s localhost:9465/v1/topics/sailing/decisions > decisions.jsonl
  sitescout train --config live.toml sailing --from-decisions=decisions.jsonl

Labels have one line for each host: host, tab, topic, and optionally tab and a group. All
topics but the one learned are the other class. Sites of one group (one owner, one
designer, the years of one event) stay in one fold when reliability is measured, and count as
one example.

Labels of the topic alone are enough: at least two sites of different groups, better five. What
else there is on the web comes with the program (`sitescout background show`); other sites that
are labelled are learned from, too.

Decisions of editors count as labels, beside those of --labels or of the topic's own topic.toml: an
accepted site is an example of the topic, a rejected one is not.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The topic to learn, by its name in the labels, or a topic.toml
    #[arg(value_name = "TOPIC")]
    topic: String,
    /// WARC files with the labelled sites; by default the live web
    #[arg(long, value_name = "FILE", num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Another source of pages: warc:FILE or generated:SITES,SEED(,LOCALITY)
    #[arg(long, value_name = "WEB", conflicts_with = "warc")]
    web: Vec<WebSource>,
    /// Record all responses of the live web in this WARC file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["warc", "web"])]
    record: Option<PathBuf>,
    /// Labels: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Learn from the decisions of editors, too: those in the store of --state, or, while a daemon
    /// has that store open, those in a file with the response of its API
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    from_decisions: Option<String>,
    /// Directory of the store, for --from-decisions
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
    /// Directory of all models; the new one is written to a subdirectory
    #[arg(long, value_name = "DIR", default_value = "site-models")]
    out: PathBuf,
    /// The page classifier to use instead of the one in the settings
    #[arg(long, value_name = "NAME")]
    page_classifier: Option<PageClassifierName>,
    /// Random seed to use instead of the one in the settings
    #[arg(long)]
    seed: Option<u32>,
}

pub(super) fn run(arguments: &Arguments, mut settings: Settings) -> anyhow::Result<ExitCode> {
    if let Some(name) = arguments.page_classifier {
        settings.training.page_classifier = name.into();
    }
    if let Some(seed) = arguments.seed {
        settings.training.seed = u64::from(seed);
    }
    let background = sources::open_background(&settings)?;
    let mut topic = read_topic(arguments)?;
    let mut blocks = BTreeSet::new();
    if let Some(file) = &arguments.from_decisions {
        let decisions = if file.is_empty() {
            let edits = edits_of_store(&arguments.state, &topic.name, &settings)?;
            blocks = edits.blocks;
            edits.decisions
        } else {
            decisions_of_file(Path::new(file), &topic.name)?
        };
        let known = topic.labels.remarks.len();
        topic.labels = topic.labels.with_decisions(&topic.name, decisions);
        for remark in &topic.labels.remarks[known..] {
            complain(&format!("sitescout: {remark}"));
        }
    }
    let labelled = topic.labels.labels.iter();
    let labelled = labelled.map(|label| (&*label.topic, &*label.group));
    Examples::of(&topic.name, labelled).check(&topic.name, "labelled")?;
    let web = Web::open(
        &arguments.warc,
        &arguments.web,
        arguments.record.as_deref(),
        &settings,
    )?;
    web.pages.set_blocks(blocks);
    let mut corpus = sources::read_corpus(&web, &topic.labels, &settings)?;
    let read = corpus.sites.iter();
    let read = Examples::of(&topic.name, read.map(|site| (&*site.topic, site.group)));
    read.check(&topic.name, "that could be read")?;
    let targets = read.sites;
    let others = corpus.sites.len() - targets;
    corpus.add_background(&background);
    ensure!(
        others + corpus.background.len() > 0,
        "nothing is left to tell `{}` from: every site of the background is labelled, or of the owner \
         of a labelled site; label other sites, too, or leave `background` in [training] empty",
        topic.name
    );
    read.warn_if_few(&topic.name);
    let examples = corpus.examples(&topic.name);
    let (model, validation) = fit_model_from(
        &background.prior().unwrap_or(TopicPrior::NONE),
        &topic.name,
        &corpus.lexicon,
        &examples,
        &settings.training,
    );
    warn_if_unreliable(&model, &validation);
    warn_of_suspects(&corpus, &topic.name, &validation);
    let card = Card {
        model: &model,
        description: &topic.description,
        corpus: &corpus,
        validation: &validation,
        settings: &settings.training,
        background: &background,
        origin_of_background: &sources::origin_of_background(&settings),
        command: &command(arguments, &settings),
    };
    let directory = arguments.out.join(&topic.name);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let bytes = model.to_bytes();
    sources::write_whole(&directory.join(MODEL_FILE), &bytes)?;
    sources::write_whole(&directory.join(CARD_FILE), card.to_markdown().as_bytes())?;
    // `crawl` reads start sites from the file beside the model.
    let beside = directory.join(TOPIC_FILE);
    if let Some(text) = &topic.file
        && !fs::exists(&beside)?
    {
        sources::write_whole(&beside, text.as_bytes())?;
    }
    say(&format!(
        "{}: {} bytes, learned from {targets} sites of `{}`, {others} others and {} of the background",
        directory.join(MODEL_FILE).display(),
        bytes.len(),
        topic.name,
        corpus.background.len() - validation.suspects.len()
    ))?;
    if validation.folds.is_some() {
        let measures = &validation.measures;
        say(&format!(
            "held-out sites: precision {:.3}, recall {:.3}, F {:.3} with {:.2} pages per site; \
             p_err {:.3}, p_threshold {}",
            measures.precision(),
            measures.recall(),
            measures.f_measure(),
            measures.pages_per_site(),
            model.calibration().p_err(),
            model.thresholds().p_threshold
        ))?;
    }
    Ok(ExitCode::Success)
}

fn warn_if_unreliable(model: &SiteModel, validation: &Validation) {
    if validation.folds.is_none() {
        complain(
            "sitescout: too few groups of sites to hold any out: the model works, but how \
             reliable it is cannot be known",
        );
    }
    if model.calibration().knows_nothing() {
        complain(&format!(
            "sitescout: the examples of `{}` have nothing in common that other sites do not have: held \
             out, their pages are recognised no better than at random; the model is written, but look \
             whether all of them are of one topic, or label more, before you use it",
            model.topic()
        ));
    }
}

fn warn_of_suspects(corpus: &Corpus, topic: &str, validation: &Validation) {
    let suspects = corpus.hosts_of_examples(&validation.suspects);
    if !suspects.is_empty() {
        complain(&format!(
            "sitescout: left out of the background, because they look like sites of `{topic}`: {}; label \
             those that are not as `{OTHER}`",
            suspects.join(", ")
        ));
    }
}

/// The sites of the topic, before or after they were read.
pub(super) struct Examples<G> {
    sites: usize,
    groups: BTreeSet<G>,
}

impl<G: Ord> Examples<G> {
    /// Of the topics and groups of all sites.
    pub(super) fn of<'a>(topic: &str, sites: impl Iterator<Item = (&'a str, G)>) -> Self {
        let of_topic = sites.filter(|(own, _)| *own == topic);
        let groups: Vec<G> = of_topic.map(|(_, group)| group).collect();
        Self {
            sites: groups.len(),
            groups: groups.into_iter().collect(),
        }
    }

    /// Whether there are enough to tell what they have in common. `which` says which sites these are.
    pub(super) fn check(&self, topic: &str, which: &str) -> anyhow::Result<()> {
        const WHAT_TO_DO: &str = "name two at least, better five or more, of different owners";
        match (self.sites, self.groups.len()) {
            (0, _) => bail!("there is no site of `{topic}` {which}; {WHAT_TO_DO}"),
            (1, _) => bail!("there is only one site of `{topic}` {which}; {WHAT_TO_DO}"),
            (sites, 1) => bail!(
                "all {sites} sites of `{topic}` {which} are of one group, which counts as one example; \
                 {WHAT_TO_DO}, or give sites that share neither owner nor text groups of their own"
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn warn_if_few(&self, topic: &str) {
        if self.groups.len() < FEW_EXAMPLES {
            complain(&format!(
                "sitescout: `{topic}` is learned from {} examples only, sites of one group being one; \
                 the model is written, but with five or more it would be much more reliable",
                self.groups.len()
            ));
        }
    }
}

/// A topic and its examples.
struct TrainingTopic {
    name: String,
    description: String,
    labels: Labels,
    /// The text of its file, if it has one.
    file: Option<String>,
}

fn read_topic(arguments: &Arguments) -> anyhow::Result<TrainingTopic> {
    let file = Path::new(&arguments.topic);
    if file.extension() == Some(OsStr::new("toml")) {
        let has_decisions = arguments.from_decisions.is_some();
        return read_topic_file(file, arguments.labels.as_deref(), has_decisions);
    }
    let own = arguments.out.join(&arguments.topic).join(TOPIC_FILE);
    let Some(path) = &arguments.labels else {
        if arguments.from_decisions.is_some() {
            return if fs::exists(&own)? {
                read_topic_file(&own, None, true)
            } else {
                Ok(TrainingTopic::without_labels(&arguments.topic))
            };
        }
        bail!("name the examples of `{}` with --labels", arguments.topic);
    };
    Ok(TrainingTopic {
        name: arguments.topic.clone(),
        description: String::new(),
        labels: labels_with(path, &arguments.topic)?,
        file: None,
    })
}

impl TrainingTopic {
    /// For a topic whose examples all come from editors.
    fn without_labels(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            labels: Labels::default(),
            file: None,
        }
    }
}

/// Decisions of editors and blocks of operators, from a store.
struct Edits {
    decisions: Vec<(SiteId, bool)>,
    blocks: BTreeSet<SiteId>,
}

fn edits_of_store(state: &Path, topic: &str, settings: &Settings) -> anyhow::Result<Edits> {
    const BATCH: usize = 1_000;
    let store = sources::open_store(state, settings).map_err(|error| {
        let locked = matches!(error.downcast_ref(), Some(StoreError::Locked(_)));
        let hint = "ask the daemon that has it open: curl -s \
                    localhost:9465/v1/topics/TOPIC/decisions > decisions.jsonl, and give that file \
                    as --from-decisions=decisions.jsonl";
        if locked { error.context(hint) } else { error }
    })?;
    sources::runtime()?.block_on(async {
        let topic = sources::topic_of(&*store, Some(topic)).await?;
        let blocks = store.all_blocks().await?;
        let (mut decisions, mut after) = (Vec::new(), None);
        loop {
            let batch = store.decisions(topic, after, BATCH).await?;
            let Some((last, _)) = batch.last() else {
                return Ok(Edits { decisions, blocks });
            };
            after = Some(last.clone());
            let batch = batch.into_iter();
            decisions
                .extend(batch.map(|(site, decision)| (site, decision.opinion == Opinion::Accept)));
        }
    })
}

/// Decisions of editors from a response of the API.
fn decisions_of_file(file: &Path, topic: &str) -> anyhow::Result<Vec<(SiteId, bool)>> {
    /// A line of the response; other fields are ignored.
    #[derive(Deserialize)]
    struct Line {
        topic: String,
        host: String,
        decision: Opinion,
    }
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the decisions {}", file.display()))?;
    let mut decisions = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = || {
            format!(
                "{}:{number}: not a decision as the API writes it",
                file.display()
            )
        };
        let line: Line = serde_json::from_str(line).with_context(place)?;
        let is_accepted = line.decision == Opinion::Accept;
        if line.topic == topic {
            decisions.push((line.host.parse().with_context(place)?, is_accepted));
        }
    }
    ensure!(
        !decisions.is_empty(),
        "{} has no decision for the topic `{topic}`",
        file.display()
    );
    Ok(decisions)
}

/// A topic from its definition, with its own training sites or those of a labels file, or with
/// none if there are decisions of editors.
fn read_topic_file(
    file: &Path,
    labels: Option<&Path>,
    has_decisions: bool,
) -> anyhow::Result<TrainingTopic> {
    let text = read_settings(file)?;
    let definition = TopicDefinition::parse(&text).map_err(|error| in_file(file, &error))?;
    let names_sites = !(definition.target_sites.is_empty() && definition.other_sites.is_empty());
    let own = Labels::of_topic(&definition).with_context(|| file.display().to_string())?;
    let labels = match (names_sites, labels) {
        (true, None) => own,
        (false, None) if has_decisions => own,
        (false, Some(path)) => labels_with(path, &definition.name)?,
        (true, Some(_)) => bail!(
            "{} names its training sites; leave --labels out",
            file.display()
        ),
        (false, None) => bail!(
            "{} names no training sites: list `target_sites` in its [training], \
             or name them with --labels",
            file.display()
        ),
    };
    sources::print_remarks(file, &labels);
    Ok(TrainingTopic {
        name: definition.name,
        description: definition.description,
        labels,
        file: Some(text),
    })
}

/// Reads labels, which must contain the topic.
fn labels_with(path: &Path, topic: &str) -> anyhow::Result<Labels> {
    let labels = sources::read_labels(path)?;
    let topics = labels.topics();
    if !topics.contains(&topic) {
        ensure!(
            topic != OTHER,
            "`{OTHER}` is no topic, but the label of sites of no topic"
        );
        bail!(
            "no site is labelled `{topic}`; there are: {}",
            topics.join(", ")
        );
    }
    Ok(labels)
}

/// The command line for the card, with file names in place of paths.
fn command(arguments: &Arguments, settings: &Settings) -> String {
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned()
    };
    let mut words = vec![
        "sitescout train".to_owned(),
        name(Path::new(&arguments.topic)),
    ];
    words.extend(
        arguments
            .warc
            .iter()
            .map(|file| format!("--warc {}", name(file))),
    );
    words.extend(
        arguments
            .labels
            .iter()
            .map(|file| format!("--labels {}", name(file))),
    );
    if arguments.from_decisions.is_some() {
        words.push("--from-decisions".to_owned());
    }
    let training = &settings.training;
    words.push(format!(
        "--page-classifier {}",
        training.page_classifier.name()
    ));
    words.push(format!("--seed {}", training.seed));
    words.join(" ")
}
