//! `sitescout train`: what do sites of a topic look like?

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::config::{Settings, TopicDefinition};
use crate::training::{Card, Labels, OTHER, fit_model};

use super::sources::{self, CARD_FILE, MODEL_FILE, PageClassifierName, TOPIC_FILE, Web, WebSource};
use super::terminal::{complain, say};
use super::{ExitCode, in_file, read_settings};

const EXAMPLES: &str = "\
Examples:
  sitescout train sailing --warc sites.warc.gz --labels sites.tsv
  sitescout train sailing --warc a.warc b.warc --labels sites.tsv --out /srv/site-models
  sitescout train site-models/sailing/topic.toml --warc sites.warc.gz
  sitescout train --config live.toml site-models/sailing/topic.toml --record sites.warc.gz

Labels have one line for each host: host, tab, topic, and optionally tab and a group. All
topics but the one learned are the other class. Sites of one group (one owner, one
designer, the years of one event) are never torn apart when reliability is measured.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The topic to learn, by its name in the labels, or a topic.toml
    #[arg(value_name = "TOPIC")]
    topic: String,
    /// WARC files with the labelled sites; without any, the live web is asked
    #[arg(long, value_name = "FILE", num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Another web: warc:FILE or generated:SITES,SEED(,LOCALITY)
    #[arg(long, value_name = "WEB", conflicts_with = "warc")]
    web: Vec<WebSource>,
    /// Keep everything that the live web answers in this WARC file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["warc", "web"])]
    record: Option<PathBuf>,
    /// Labels: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Where the models are; the new one goes into a directory of its own in there
    #[arg(long, value_name = "DIR", default_value = "site-models")]
    out: PathBuf,
    /// The page classifier to use instead of the one in the settings
    #[arg(long, value_name = "NAME")]
    page_classifier: Option<PageClassifierName>,
    /// Where chance comes from, instead of the seed in the settings
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
    let topic = read_topic(arguments)?;
    let web = Web::open(
        &arguments.warc,
        &arguments.web,
        arguments.record.as_deref(),
        &settings,
    )?;
    let corpus = sources::read_corpus(&web, &topic.labels, &settings)?;
    let examples = corpus.examples(&topic.name);
    let targets = examples.iter().filter(|site| site.is_target()).count();
    ensure!(targets > 0, "no site of `{}` could be read", topic.name);
    ensure!(
        targets < examples.len(),
        "every site that could be read is of `{}`; label sites of other topics too, \
         so that there is something to tell it from",
        topic.name
    );
    let (model, validation) =
        fit_model(&topic.name, &corpus.lexicon, &examples, &settings.training);
    if validation.folds.is_none() {
        complain(
            "sitescout: too few groups of sites to hold any out: the model works, but how \
             reliable it is cannot be known",
        );
    }
    if model.calibration().knows_nothing() {
        complain(&format!(
            "sitescout: on sites held out, pages of `{}` are told from others no better than by \
             chance; the model is written, but label more sites, of the topic and of others, \
             before you use it",
            topic.name
        ));
    }
    let card = Card {
        model: &model,
        description: &topic.description,
        corpus: &corpus,
        validation: &validation,
        settings: &settings.training,
        command: &command(arguments, &settings),
    };
    let directory = arguments.out.join(&topic.name);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let bytes = model.to_bytes();
    sources::write_whole(&directory.join(MODEL_FILE), &bytes)?;
    sources::write_whole(&directory.join(CARD_FILE), card.to_markdown().as_bytes())?;
    // Start sites are looked for beside the model.
    let beside = directory.join(TOPIC_FILE);
    if let Some(text) = &topic.file
        && !fs::exists(&beside)?
    {
        sources::write_whole(&beside, text.as_bytes())?;
    }
    say(&format!(
        "{}: {} bytes, learned from {targets} sites of `{}` and {} others",
        directory.join(MODEL_FILE).display(),
        bytes.len(),
        topic.name,
        examples.len() - targets
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

/// A topic and its examples.
struct Topic {
    name: String,
    description: String,
    labels: Labels,
    /// The text of its file, if it has one.
    file: Option<String>,
}

fn read_topic(arguments: &Arguments) -> anyhow::Result<Topic> {
    let file = Path::new(&arguments.topic);
    if file.extension() == Some(OsStr::new("toml")) {
        return read_topic_file(file, arguments.labels.as_deref());
    }
    let Some(path) = &arguments.labels else {
        bail!(
            "say with --labels which sites are examples of `{}`",
            arguments.topic
        );
    };
    Ok(Topic {
        name: arguments.topic.clone(),
        description: String::new(),
        labels: labels_with(path, &arguments.topic)?,
        file: None,
    })
}

/// A topic that a user wrote down, with training sites of its own or those of a labels file.
fn read_topic_file(file: &Path, labels: Option<&Path>) -> anyhow::Result<Topic> {
    let text = read_settings(file)?;
    let definition = TopicDefinition::parse(&text).map_err(|error| in_file(file, &error))?;
    let names_sites = !(definition.target_sites.is_empty() && definition.other_sites.is_empty());
    let own = Labels::of_topic(&definition).with_context(|| file.display().to_string())?;
    let labels = match (names_sites, labels) {
        (true, None) => own,
        (false, Some(path)) => labels_with(path, &definition.name)?,
        (true, Some(_)) => bail!(
            "{} names its training sites; leave --labels out",
            file.display()
        ),
        (false, None) => bail!(
            "{} names no training sites: list `target_sites` and `other_sites` in its [training], \
             or say with --labels which they are",
            file.display()
        ),
    };
    sources::tell_remarks(file, &labels);
    Ok(Topic {
        name: definition.name,
        description: definition.description,
        labels,
        file: Some(text),
    })
}

/// Reads labels, among which the topic must be.
fn labels_with(path: &Path, topic: &str) -> anyhow::Result<Labels> {
    let labels = sources::read_labels(path)?;
    let topics = labels.topics();
    if !topics.contains(&topic) {
        ensure!(topic != OTHER, "`{OTHER}` is what all topics are told from");
        bail!(
            "no site is labelled `{topic}`; there are: {}",
            topics.join(", ")
        );
    }
    Ok(labels)
}

/// The command line, with the names of files only.
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
    let training = &settings.training;
    words.push(format!(
        "--page-classifier {}",
        training.page_classifier.name()
    ));
    words.push(format!("--seed {}", training.seed));
    words.join(" ")
}
