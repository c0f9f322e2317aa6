//! `sitescout evaluate classifier`: measures how well whole sites are judged.

use std::io::{self, BufWriter, Write};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::config::Settings;
use crate::lab::{Experiment, Row, TopicResult, Verdicts};
use crate::telemetry::grouped;

use super::LabelledSites;
use super::open_world::{self, OpenWorldOptions};
use crate::cli::ExitCode;
use crate::cli::sources::{self, PageClassifierName};
use crate::cli::terminal::{complain, sanitized_json};

const EXAMPLES: &str = "\
Examples:
  sitescout evaluate classifier --warc sites.warc.gz --labels sites.tsv --topic all
  sitescout evaluate classifier --warc a.warc --labels l.tsv --topic church --seeds 5
  sitescout evaluate classifier ... --topic all --page-classifier centroid --json
  sitescout evaluate classifier --open-world --topic all --warc sites.warc.gz others.warc.gz \\
      --labels sites.tsv --background others.tsv

Cross-validation by site, groups kept together. Three rows for each topic: the internal
crawler, a classifier of homepages only, and one that reads every page.

With --open-world a topic is learned from a few groups of its sites, and judged are sites of
kinds that were not learned from: the topics and other sites of its block.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    sites: LabelledSites,
    /// The topic to evaluate, or `all`
    #[arg(long, value_name = "TOPIC")]
    topic: String,
    /// Maximum number of folds; never more than the topic has groups
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    folds: u32,
    /// Number of random splits into folds; the results are means
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The page classifier to use instead of the one in the settings
    #[arg(long, value_name = "NAME")]
    page_classifier: Option<PageClassifierName>,
    /// A threshold to use instead of the one that training proposes
    #[arg(long, value_name = "P", value_parser = sources::p_threshold)]
    p_threshold: Option<f64>,
    /// Maximum number of sites of the topic to train on, for learning curves
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    target_sites: Option<u32>,
    /// Also list the sites that the internal crawler misjudged
    #[arg(long)]
    mistakes: bool,
    #[command(flatten)]
    open: OpenWorldOptions,
    /// Print JSON Lines: one object for each topic, then the mean
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, mut settings: Settings) -> anyhow::Result<ExitCode> {
    if let Some(name) = arguments.page_classifier {
        settings.training.page_classifier = name.into();
    }
    if arguments.open.open_world {
        let Arguments {
            open,
            sites,
            topic,
            mistakes,
            json,
            ..
        } = arguments;
        return open_world::run(open, sites, topic, *mistakes, *json, &settings);
    }
    let (web, labels) = arguments.sites.open(&settings)?;
    let topics = super::topics_of(&labels, &arguments.topic)?;
    let corpus = sources::read_corpus(&web, &labels, &settings)?;
    let experiment = Experiment {
        fetcher: web.fetcher(),
        corpus: &corpus,
        limits: sources::parse_limits(&settings),
        settings: &settings,
        folds: arguments.folds as usize,
        seeds: arguments.seeds,
        p_threshold: arguments.p_threshold,
        target_sites: arguments.target_sites.map(|sites| sites as usize),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut results = Vec::new();
    if !arguments.json {
        writeln!(out, "{HEADING}")?;
    }
    let progress = sources::progress_bar(topics.len(), "judging sites");
    for topic in &topics {
        let Some(result) = experiment.run(topic) else {
            complain(&format!(
                "sitescout: `{topic}` cannot be evaluated: holding sites out needs at least two \
                 groups of the topic and two of other sites"
            ));
            continue;
        };
        progress.inc(1);
        progress.suspend(|| print(&mut out, &result, arguments))?;
        results.push(result);
    }
    progress.finish_and_clear();
    let Some(mean) = TopicResult::mean(&results) else {
        bail!("there was nothing to evaluate");
    };
    if results.len() > 1 || arguments.json {
        print(&mut out, &mean, arguments)?;
    }
    if !arguments.json {
        print_calibration(&mut out, mean.row(Row::Internal))?;
        let folds: Vec<String> = results
            .iter()
            .map(|result| format!("{} {}", result.topic, result.folds))
            .collect();
        writeln!(out, "\nfolds: {}", folds.join(", "))?;
    }
    out.flush()?;
    Ok(ExitCode::Success)
}

const HEADING: &str =
    "topic (target sites)   p_err  thresh  classifier  pages   prec    rec      F  Brier";

fn print(out: &mut impl Write, result: &TopicResult, arguments: &Arguments) -> io::Result<()> {
    if arguments.json {
        writeln!(
            out,
            "{}",
            sanitized_json(&as_json(result, arguments.mistakes))
        )?;
        return out.flush();
    }
    for row in Row::ALL.iter().copied() {
        let left = match row {
            Row::Internal => format!(
                "{:<22} {:>5.3} {:>7.3}",
                format!("{} ({})", result.topic, result.target_sites),
                result.p_err,
                result.p_threshold
            ),
            _ => " ".repeat(36),
        };
        let verdicts = result.row(row);
        writeln!(
            out,
            "{left}  {:<10} {:>6.2} {:>6.3} {:>6.3} {:>6.3} {:>6.3}",
            row.name(),
            verdicts.measures.pages_per_site(),
            verdicts.precision,
            verdicts.recall,
            verdicts.f_measure,
            verdicts.measures.brier(),
        )?;
    }
    if arguments.mistakes {
        for (site, confidence) in &result.mistakes {
            writeln!(out, "    wrong: {site} {confidence:.3}")?;
        }
    }
    out.flush()
}

fn print_calibration(out: &mut impl Write, verdicts: &Verdicts) -> io::Result<()> {
    writeln!(
        out,
        "\ncalibration of the internal crawler: error {:.4}",
        verdicts.measures.calibration_error()
    )?;
    writeln!(
        out,
        "confidence     sites   mean confidence   share of targets"
    )?;
    for (at, bin) in verdicts.measures.bins().iter().enumerate() {
        let range = format!(
            "0.{at} to {}",
            if at == 9 {
                "1.0".to_owned()
            } else {
                format!("0.{}", at + 1)
            }
        );
        if bin.sites > 0.0 {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            let sites = grouped(bin.sites as u64);
            writeln!(
                out,
                "{range:<12} {sites:>7} {:>17.3} {:>18.3}",
                bin.confidences / bin.sites,
                bin.targets / bin.sites
            )?;
        }
    }
    Ok(())
}

fn as_json(result: &TopicResult, mistakes: bool) -> Value {
    let mut object = json!({
        "topic": result.topic,
        "sites": result.sites,
        "target_sites": result.target_sites,
        "folds": result.folds,
        "p_err": result.p_err,
        "p_threshold": result.p_threshold,
    });
    for row in Row::ALL.iter().copied() {
        let verdicts = result.row(row);
        object[row.name()] = json!({
            "precision": verdicts.precision,
            "recall": verdicts.recall,
            "f_measure": verdicts.f_measure,
            "pages_per_site": verdicts.measures.pages_per_site(),
            "brier": verdicts.measures.brier(),
            "calibration_error": verdicts.measures.calibration_error(),
        });
    }
    if mistakes {
        let mistakes = result
            .mistakes
            .iter()
            .map(|(site, confidence)| json!({ "host": site.as_str(), "confidence": confidence }));
        object["mistakes"] = mistakes.collect();
    }
    object
}
