//! `sitescout evaluate`: measures how well sites are judged and how soon they are found.

mod classifier;
mod crawl;
mod generated;
mod likeness;
mod open_world;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};

use crate::config::Settings;
use crate::training::Labels;

use super::ExitCode;
use super::sources::{self, Web, WebSource};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Repeats table 2 of the paper: judges labelled sites by cross-validation
    Classifier(classifier::Arguments),
    /// Compares orderings: how many sites of a topic are found after how many visits
    Crawl(crawl::Arguments),
    /// Compares orderings on a generated web: how much is found, and how much of it is right
    Generated(generated::Arguments),
    /// Compares a generated web with real sites: sizes, words, links, duplicates, difficulty
    Likeness(likeness::Arguments),
}

/// Sites with labels, and where they are.
#[derive(Debug, Args)]
struct LabelledSites {
    /// WARC files with the labelled sites
    #[arg(long, value_name = "FILE", required_unless_present = "web", num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Another source of pages: warc:FILE or generated:SITES,SEED(,LOCALITY)
    #[arg(long, value_name = "WEB", conflicts_with = "warc")]
    web: Vec<WebSource>,
    /// Labels: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
}

pub(super) fn run(arguments: &Arguments, settings: Settings) -> anyhow::Result<ExitCode> {
    match &arguments.what {
        What::Classifier(arguments) => classifier::run(arguments, settings),
        What::Crawl(arguments) => crawl::run(arguments, &settings),
        What::Generated(arguments) => generated::run(arguments, &settings),
        What::Likeness(arguments) => likeness::run(arguments, &settings),
    }
}

impl LabelledSites {
    fn open(&self, settings: &Settings) -> anyhow::Result<(Web, Labels)> {
        let web = Web::open(&self.warc, &self.web, None, settings)?;
        Ok((web, sources::read_labels(&self.labels)?))
    }
}

/// The topics that are evaluated: the one that is named, or `all`.
fn topics_of(labels: &Labels, wanted: &str) -> anyhow::Result<Vec<String>> {
    let known = labels.topics();
    let topics = match wanted {
        "all" => known,
        topic if known.contains(&topic) => vec![topic],
        topic => bail!(
            "no site is labelled `{topic}`; there are: {}",
            known.join(", ")
        ),
    };
    Ok(topics.into_iter().map(str::to_owned).collect())
}
