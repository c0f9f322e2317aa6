//! `sitescout evaluate crawl`: measures how soon the sites of a topic are found.

use std::io::{self, BufWriter, Write};

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::config::Settings;
use crate::lab::{CrawlExperiment, CrawlResult, CurveMeans, SHARES};

use super::LabelledSites;
use crate::cli::ExitCode;
use crate::cli::sources;
use crate::cli::terminal::sanitized_json;

const EXAMPLES: &str = "\
Examples:
  sitescout evaluate crawl --warc web.warc.gz --labels web.tsv --topic law_firm conference

Half of the groups are for training and do not count as finds. For each draw of start sites
one crawler visits half of the reachable sites, by each ordering and by the first ordering with
true labels instead of confidences.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    sites: LabelledSites,
    /// The topics to evaluate
    #[arg(long, value_name = "TOPIC", required = true, num_args = 1..)]
    topic: Vec<String>,
    /// Number of draws of start sites; the results are means
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    draws: u64,
    /// Start sites per draw
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    start_sites: u32,
    /// Print JSON Lines: one object for each topic
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let (web, labels) = arguments.sites.open(settings)?;
    let known = labels.topics();
    if let Some(unknown) = arguments
        .topic
        .iter()
        .find(|topic| !known.contains(&topic.as_str()))
    {
        bail!(
            "no site is labelled `{unknown}`; there are: {}",
            known.join(", ")
        );
    }
    let corpus = sources::read_corpus(&web, &labels, settings)?;
    let experiment = CrawlExperiment {
        fetcher: web.fetcher(),
        corpus: &corpus,
        settings,
        draws: arguments.draws,
        start_sites: arguments.start_sites as usize,
    };
    let runtime = sources::runtime()?;
    let mut out = BufWriter::new(io::stdout().lock());
    for topic in &arguments.topic {
        let result = runtime.block_on(experiment.run(topic))?;
        let Some(result) = result else {
            bail!("`{topic}` has too few groups of sites to hold half of them out");
        };
        if arguments.json {
            writeln!(out, "{}", sanitized_json(&crawl_as_json(&result)))?;
        } else {
            print_crawl(&result, &mut out)?;
        }
        out.flush()?;
    }
    Ok(ExitCode::Success)
}

fn print_crawl(result: &CrawlResult, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{}: {:.1} sites reachable, {:.1} of them held-out targets (means of {} draws)",
        result.topic, result.reachable, result.targets, result.draws
    )?;
    let shares: Vec<String> = SHARES
        .iter()
        .map(|share| format!("{:>5.0} %", share * 100.0))
        .collect();
    let shares = shares.concat();
    writeln!(
        out,
        "    {:<14}{:>21}{:>23}{:>15}",
        "", "targets reached", "judged relevant", "pages"
    )?;
    writeln!(
        out,
        "    {:<14}{shares}  {shares}       at 50 %",
        "sites visited"
    )?;
    for curve in &result.curves {
        let figures = |mean: fn(&CurveMeans) -> f64| -> String {
            let means = curve.points.iter().map(mean);
            let means: Vec<String> = means.map(|mean| format!("{mean:>7.2}")).collect();
            means.concat()
        };
        let last = curve.points.last().copied().unwrap_or_default();
        writeln!(
            out,
            "    {:<14}{}  {}{:>14.0}",
            curve.name,
            figures(|point| point.reached),
            figures(|point| point.found),
            last.pages
        )?;
    }
    Ok(())
}

fn crawl_as_json(result: &CrawlResult) -> Value {
    let curves = result.curves.iter().map(|curve| {
        let means =
            |mean: fn(&CurveMeans) -> f64| -> Vec<f64> { curve.points.iter().map(mean).collect() };
        json!({
            "ordering": curve.name,
            "reached": means(|point| point.reached),
            "found": means(|point| point.found),
            "pages": means(|point| point.pages),
        })
    });
    json!({
        "topic": result.topic,
        "draws": result.draws,
        "reachable": result.reachable,
        "targets": result.targets,
        "shares": SHARES,
        "curves": curves.collect::<Vec<_>>(),
    })
}
