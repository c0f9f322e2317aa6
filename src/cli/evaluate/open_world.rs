//! `sitescout evaluate classifier --open-world`: how well verdicts hold for sites of kinds that nobody
//! labelled.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use serde_json::{Map, Value, json};

use super::LabelledSites;
use crate::cli::ExitCode;
use crate::cli::sources;
use crate::cli::terminal::{complain, sanitized_json};
use crate::config::Settings;
use crate::lab::{Interval, Mistakes, OpenMeasures, OpenResult, OpenWorld, reliability};
use crate::web::SiteId;

#[derive(Debug, Args)]
pub(super) struct OpenWorldOptions {
    /// Learn from a few examples, and judge sites of kinds that were not learned from
    #[arg(long, conflicts_with_all = ["folds", "seeds", "p_threshold", "target_sites"])]
    pub(super) open_world: bool,
    /// Labels of the background: sites of the archives that are only learned from, as what the topics
    /// are not
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "open_world")]
    background: Vec<PathBuf>,
    /// Numbers of groups of sites to learn a topic from
    #[arg(long, value_name = "N", num_args = 1.., default_values_t = [5, 8], requires = "open_world",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    examples: Vec<u32>,
    /// Number of blocks that topics and other sites are dealt into; a topic is judged in its own, and
    /// the other blocks are background. With 1 all labelled sites are judged
    #[arg(long, default_value_t = 2, requires = "open_world",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    blocks: u32,
    /// Number of groups of a topic that are put among the background, unlabelled, which training is to find
    #[arg(long, value_name = "N", default_value_t = 0, requires = "open_world",
        value_parser = clap::value_parser!(u32).range(..=10_000))]
    planted: u32,
    /// Number of random draws of blocks and examples
    #[arg(long, default_value_t = 10, requires = "open_world",
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    draws: u64,
}

/// The results with one number of examples.
struct Table {
    examples: usize,
    results: Vec<OpenResult>,
}

pub(super) fn run(
    options: &OpenWorldOptions,
    sites: &LabelledSites,
    topic: &str,
    with_mistakes: bool,
    as_json: bool,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let (web, labels) = sites.open(settings)?;
    let topics: Vec<String> = super::topics_of(&labels, topic)?;
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let labelled: BTreeSet<SiteId> = labels
        .labels
        .iter()
        .map(|label| label.site.clone())
        .collect();
    let mut all = labels;
    let mut background = BTreeSet::new();
    for file in &options.background {
        let further = sources::read_labels(file)?;
        let known = background.len();
        let new = further.labels.iter().map(|label| label.site.clone());
        background.extend(new.filter(|site| !labelled.contains(site)));
        ensure!(
            background.len() > known,
            "{}: every site is labelled already, so nothing is left for the background",
            file.display()
        );
        all = all.with_further(further);
    }
    ensure!(
        options.blocks > 1 || !background.is_empty(),
        "with one block there is nothing that the topics are not: add --background, or more blocks"
    );
    let corpus = sources::read_corpus(&web, &all, settings)?;
    let world = OpenWorld {
        fetcher: web.fetcher(),
        corpus: &corpus,
        background: &background,
        limits: sources::parse_limits(settings),
        settings,
        blocks: options.blocks as usize,
        planted: options.planted as usize,
        draws: options.draws,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let rounds = usize::try_from(options.draws)? * topics.len();
    let priors = if options.blocks == 1 {
        1
    } else {
        options.draws * u64::from(options.blocks)
    };
    let progress = sources::progress_bar(usize::try_from(priors)?, "learning what topics share");
    let priors = world.priors(|| progress.inc(1));
    progress.finish_and_clear();
    let mut tables = Vec::new();
    for examples in &options.examples {
        let learned = examples + options.planted;
        let examples = *examples as usize;
        let progress = sources::progress_bar(rounds, "learning and judging");
        let results = world.run(&topics, examples, &priors, || progress.inc(1));
        progress.finish_and_clear();
        for topic in &topics {
            if !results.iter().any(|result| result.topic == *topic) {
                complain(&format!(
                    "sitescout: `{topic}` is left out: it has no more than {learned} groups of \
                     sites, so none is left to judge"
                ));
            }
        }
        ensure!(
            !results.is_empty(),
            "no topic has more than {learned} groups of sites"
        );
        let table = Table { examples, results };
        if as_json {
            table.print_json(&mut out, settings.training.seed)?;
        } else {
            table.print_topics(&mut out)?;
        }
        tables.push(table);
    }
    if !as_json {
        print_means(&mut out, &tables, settings.training.seed)?;
        for table in &tables {
            table.print_reliability(&mut out)?;
        }
        for table in &tables {
            table.print_suspects(&mut out)?;
        }
        for table in tables.iter().filter(|_| with_mistakes) {
            table.print_mistakes(&mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::Success)
}

impl Table {
    fn print_topics(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:<24} pages   prec    rec      F     AP  best F",
            format!("from {} groups", self.examples)
        )?;
        for result in &self.results {
            let measures = result.measures();
            writeln!(
                out,
                "{:<24} {:>5.2} {:>6.3} {:>6.3} {:>6.3} {:>6.3} {:>7.3}",
                result.topic,
                measures.pages,
                measures.precision,
                measures.recall,
                measures.f_measure,
                measures.average_precision,
                measures.best_f,
            )?;
        }
        writeln!(out)
    }

    fn print_reliability(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "\nfinds by confidence, from {} groups: number in a draw, mean confidence, share that is of \
             the topic",
            self.examples
        )?;
        for range in reliability(&self.results) {
            writeln!(
                out,
                "from {:.1} {:>8.1} {:>8.3} {:>8.3}",
                range.from, range.finds, range.confidence, range.share_of_targets
            )?;
        }
        Ok(())
    }

    fn print_suspects(&self, out: &mut impl Write) -> io::Result<()> {
        for result in self
            .results
            .iter()
            .filter(|result| !result.suspects.is_empty())
        {
            if result.planted.0 > 0 {
                writeln!(
                    out,
                    "\nof {} sites of `{}` among the background {} were left out",
                    result.planted.0, result.topic, result.planted.1
                )?;
            }
            let mut suspects: Vec<(&SiteId, &usize)> = result.suspects.iter().collect();
            suspects.sort_by_key(|(site, draws)| (Reverse(**draws), *site));
            let suspects = suspects.iter();
            let suspects = suspects.map(|(site, draws)| format!("{site} ({draws})"));
            writeln!(
                out,
                "\nlooked like `{}`, from {} groups, and left out of the background (in as many draws): {}",
                result.topic,
                self.examples,
                suspects.collect::<Vec<_>>().join(", ")
            )?;
        }
        Ok(())
    }

    fn print_mistakes(&self, out: &mut impl Write) -> io::Result<()> {
        for result in &self.results {
            writeln!(
                out,
                "\nmisjudged sites of `{}`, from {} groups: how often, mean confidence, truth",
                result.topic, self.examples
            )?;
            let mut mistakes: Vec<(&SiteId, &Mistakes)> = result.mistakes.iter().collect();
            mistakes.sort_by_key(|(site, mistakes)| (Reverse(mistakes.wrong), *site));
            for (site, mistakes) in mistakes {
                #[allow(clippy::cast_precision_loss, reason = "there are few draws")]
                let confidence = mistakes.confidence / mistakes.draws as f64;
                let truth = if mistakes.is_target { "topic" } else { "other" };
                writeln!(
                    out,
                    "{:>3} of {:>3}  {confidence:.3}  {truth}  {site}",
                    mistakes.wrong, mistakes.draws
                )?;
            }
        }
        Ok(())
    }

    fn print_json(&self, out: &mut impl Write, seed: u64) -> io::Result<()> {
        for result in &self.results {
            let values = result.measures().values();
            let named = OpenMeasures::NAMES.into_iter().zip(values);
            let mut object: Map<String, Value> = named
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .collect();
            object.insert("topic".to_owned(), json!(result.topic));
            let suspects = result.suspects.iter();
            let suspects: Map<String, Value> = suspects
                .map(|(site, draws)| (site.to_string(), json!(draws)))
                .collect();
            object.insert("suspects".to_owned(), json!(suspects));
            object.insert("planted".to_owned(), json!(result.planted.0));
            object.insert("planted_found".to_owned(), json!(result.planted.1));
            object.insert("examples".to_owned(), json!(self.examples));
            writeln!(out, "{}", sanitized_json(&Value::Object(object)))?;
        }
        let intervals = OpenMeasures::with_intervals(&self.results, seed);
        let named = OpenMeasures::NAMES.into_iter().zip(intervals);
        let with_ends = |(name, Interval { value, low, high }): (&str, Interval)| {
            let object = json!({ "value": value, "low": low, "high": high });
            (name.to_owned(), object)
        };
        let mut object: Map<String, Value> = named.map(with_ends).collect();
        object.insert("topic".to_owned(), json!("mean"));
        let ranges = reliability(&self.results).into_iter().map(|range| {
            json!({
                "from": range.from,
                "finds": range.finds,
                "confidence": range.confidence,
                "share_of_targets": range.share_of_targets,
            })
        });
        object.insert("reliability".to_owned(), ranges.collect());
        object.insert("examples".to_owned(), json!(self.examples));
        writeln!(out, "{}", sanitized_json(&Value::Object(object)))?;
        out.flush()
    }
}

fn print_means(out: &mut impl Write, tables: &[Table], seed: u64) -> io::Result<()> {
    writeln!(out, "means over draws, then topics, with 95 % intervals")?;
    write!(out, "{:<20}", "")?;
    for table in tables {
        write!(out, " {:>24}", format!("from {} groups", table.examples))?;
    }
    writeln!(out)?;
    let intervals = tables
        .iter()
        .map(|table| OpenMeasures::with_intervals(&table.results, seed));
    let intervals: Vec<[Interval; 8]> = intervals.collect();
    for (at, name) in OpenMeasures::NAMES.into_iter().enumerate() {
        write!(out, "{:<20}", name.replace('_', " "))?;
        for of_table in &intervals {
            let Interval { value, low, high } = of_table[at];
            write!(
                out,
                " {:>24}",
                format!("{value:.3} ({low:.3} to {high:.3})")
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
