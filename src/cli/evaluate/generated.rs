//! `sitescout evaluate generated`: precision and recall of crawls of a generated web.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::config::Settings;
use crate::lab::generated::GeneratedWeb;
use crate::lab::{FoundSites, TopicModels, TruthExperiment, TruthResult};
use crate::telemetry::grouped;
use crate::training::Labels;

use crate::cli::ExitCode;
use crate::cli::sources::{self, Web, WebSource};
use crate::cli::terminal::sanitized_json;

const EXAMPLES: &str = "\
Examples:
  sitescout evaluate generated --generated 20000,1 --topic sailing
  sitescout evaluate generated --topic chess --pages 2000 --draws 20

A model is learned from the first sites of the web; they may be visited, but do not count.
One crawler at a time walks from a few of them by each ordering, and by the first ordering with
true labels instead of confidences. The same options give the same results.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The web: SITES,SEED or SITES,SEED,LOCALITY
    #[arg(long, value_name = "WEB", default_value = "20000,1", value_parser = sources::generated_web)]
    generated: GeneratedWeb,
    /// The topics to look for
    #[arg(long, value_name = "TOPIC", default_value = "sailing", num_args = 1.., value_parser = sources::generated_topic)]
    topic: Vec<&'static str>,
    /// Numbers of pages after which to count
    #[arg(long, value_name = "N", default_values_t = [2_000, 8_000], num_args = 1..)]
    pages: Vec<u64>,
    /// Number of training sites of the topic
    #[arg(long, value_name = "N", default_value_t = 15)]
    target_sites: usize,
    /// Number of other training sites
    #[arg(long, value_name = "N", default_value_t = 300)]
    other_sites: usize,
    /// Number of draws of start sites; the results are means
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    draws: u64,
    /// Start sites per draw
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    start_sites: u32,
    /// Print JSON Lines: one object for each topic
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    for topic in &arguments.topic {
        let experiment = learn(arguments, topic, settings)?;
        let result = sources::runtime()?.block_on(experiment.run())?;
        if arguments.json {
            writeln!(out, "{}", sanitized_json(&as_json(topic, &result)))?;
        } else {
            print(&mut out, arguments, topic, &result)?;
        }
        out.flush()?;
    }
    Ok(ExitCode::Success)
}

fn learn(
    arguments: &Arguments,
    topic: &'static str,
    settings: &Settings,
) -> anyhow::Result<TruthExperiment> {
    let web = arguments.generated;
    let (targets, others) = (arguments.target_sites, arguments.other_sites);
    ensure!(targets > 1, "a topic is learned from two sites or more");
    ensure!(
        arguments.start_sites as usize <= targets,
        "start sites are drawn from those that are learned from: at most {targets}"
    );
    let examples = web.examples(topic, targets, others).with_context(|| {
        format!(
            "a web of {} sites is too small to learn from that many",
            web.sites()
        )
    })?;
    let source = Web::open(&[], &[WebSource::Generated(web)], None, settings)?;
    let labels = Labels::of(examples.clone());
    let corpus = sources::read_corpus(&source, &labels, settings)?;
    let training = &settings.training;
    let models = TopicModels::fit(topic, &corpus.lexicon, &corpus.examples(topic), training);
    let mut pages = arguments.pages.clone();
    pages.sort_unstable();
    let mut sites: Vec<_> = examples.into_iter().map(|(site, _)| site).collect();
    let others = sites.split_off(targets);
    Ok(TruthExperiment {
        web,
        topic,
        models: Arc::new(models),
        targets: sites,
        others,
        settings: settings.clone(),
        pages,
        draws: arguments.draws,
        start_sites: arguments.start_sites as usize,
    })
}

fn print(
    out: &mut impl Write,
    arguments: &Arguments,
    topic: &str,
    result: &TruthResult,
) -> io::Result<()> {
    writeln!(
        out,
        "{topic}: {} sites, {} of them about it, learned from {} more and {} others;\n\
         crawled from {} start sites, {}",
        grouped(arguments.generated.sites()),
        grouped(result.targets),
        arguments.target_sites,
        grouped(arguments.other_sites as u64),
        arguments.start_sites,
        match arguments.draws {
            1 => "drawn once".to_owned(),
            draws => format!("means of {draws} draws"),
        }
    )?;
    writeln!(
        out,
        "    {:<14}{:>8}{:>8}{:>11}{:>9}{:>8}{:>10}",
        "", "pages", "found", "precision", "recall", "pprs", "harvest"
    )?;
    for row in &result.rows {
        for (at, found) in row.counts.iter().enumerate() {
            let name = if at == 0 { row.name.as_str() } else { "" };
            writeln!(
                out,
                "    {name:<14}{:>8}{:>8.1}{}{}{}{}",
                grouped(found.pages / found.crawls.max(1)),
                mean(found.found, found),
                figure(found.precision(), 11, 3),
                figure(found.recall(result.targets), 9, 3),
                figure(found.pprs(), 8, 1),
                figure(found.harvest(), 10, 2),
            )?;
        }
    }
    Ok(())
}

fn figure(value: Option<f64>, width: usize, digits: usize) -> String {
    match value {
        Some(value) => format!("{value:>width$.digits$}"),
        None => format!("{:>width$}", "-"),
    }
}

#[allow(clippy::cast_precision_loss, reason = "no crawl finds 2^53 sites")]
fn mean(sum: u64, found: &FoundSites) -> f64 {
    sum as f64 / found.crawls.max(1) as f64
}

fn as_json(topic: &str, result: &TruthResult) -> Value {
    let rows = result.rows.iter().map(|row| {
        let counts = row.counts.iter().map(|found| {
            json!({
                "crawls": found.crawls,
                "pages": found.pages,
                "decided": found.decided,
                "found": found.found,
                "right": found.right,
                "precision": found.precision(),
                "recall": found.recall(result.targets),
                "pprs": found.pprs(),
                "harvest": found.harvest(),
            })
        });
        json!({ "ordering": row.name, "after": counts.collect::<Vec<_>>() })
    });
    json!({ "topic": topic, "targets": result.targets, "rows": rows.collect::<Vec<_>>() })
}
