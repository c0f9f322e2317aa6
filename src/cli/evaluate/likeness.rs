//! `sitescout evaluate likeness`: is a generated web like real ones, and as difficult?

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;

use crate::config::Settings;
use crate::lab::generated::GeneratedWeb;
use crate::lab::{Experiment, Likeness, Row, Spread, TopicResult, Verdicts, likeness};
use crate::training::Labels;
use crate::web::SiteId;

use crate::cli::ExitCode;
use crate::cli::sources::{self, Web, WebSource};

/// Maximum number of folds in cross-validation, as in `evaluate classifier`.
const FOLDS: usize = 10;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// WARC files with real sites
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Labels of the real sites: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// The generated web: SITES,SEED or SITES,SEED,LOCALITY
    #[arg(long, value_name = "WEB", default_value = "20000,1", value_parser = sources::generated_web)]
    generated: GeneratedWeb,
    /// Maximum number of pages read of each site
    #[arg(long, value_name = "N", default_value_t = 200)]
    pages: usize,
}

/// Measurements of one web.
struct Known {
    likeness: Likeness,
    /// Means over topics; none if no topic has enough sites.
    judged: Option<TopicResult>,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let labels = sources::read_labels(&arguments.labels)?;
    let originals = arguments.generated.originals();
    let generated_labels = Labels::of(originals.take(labels.labels.len()));
    let real = Web::open(&arguments.warc, &[], None, settings)?;
    let real = look_at(&real, &labels, arguments.pages, settings)?;
    let generated = [WebSource::Generated(arguments.generated)];
    let generated = Web::open(&[], &generated, None, settings)?;
    let generated = look_at(&generated, &generated_labels, arguments.pages, settings)?;
    print(&real, &generated)?;
    Ok(ExitCode::Success)
}

fn look_at(web: &Web, labels: &Labels, pages: usize, settings: &Settings) -> anyhow::Result<Known> {
    let limits = sources::parse_limits(settings);
    let sites: Vec<SiteId> = labels
        .labels
        .iter()
        .map(|label| label.site.clone())
        .collect();
    let likeness = sources::runtime()?.block_on(likeness(&*web.pages, &sites, pages, &limits));
    let corpus = sources::read_corpus(web, labels, settings)?;
    let experiment = Experiment {
        fetcher: web.fetcher(),
        corpus: &corpus,
        limits,
        settings,
        folds: FOLDS,
        seeds: 1,
        p_threshold: None,
        target_sites: None,
    };
    let topics = labels.topics();
    let progress = sources::progress_bar(topics.len(), "judging sites");
    let mut results = Vec::new();
    for topic in topics {
        results.extend(experiment.run(topic));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(Known {
        likeness,
        judged: TopicResult::mean(&results),
    })
}

fn print(real: &Known, generated: &Known) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut line =
        |name: &str, one: String, other: String| writeln!(out, "{name:<30}{one:>24}{other:>26}");
    let (one, other) = (&real.likeness, &generated.likeness);
    line("", "real".to_owned(), "generated".to_owned())?;
    let shares = "10 %  50 %  90 %  mean";
    line("", shares.to_owned(), shares.to_owned())?;
    for (name, one, other) in [
        ("pages per site", one.pages, other.pages),
        ("words per page", one.words, other.words),
        ("links inside the site", one.intrinsic, other.intrinsic),
        ("links to other sites", one.transversal, other.transversal),
    ] {
        line(name, spread(one), spread(other))?;
    }
    let share = |share: f64| format!("{share:.3}");
    line(
        "near-duplicate pages",
        share(one.near_duplicates),
        share(other.near_duplicates),
    )?;
    for row in Row::ALL.iter().copied() {
        let f_measure = |known: &Known| judged(known, row, |verdicts| verdicts.f_measure);
        let name = format!("F of {}", row.name().replace('_', " "));
        line(&name, f_measure(real), f_measure(generated))?;
    }
    let pages = |known: &Known| {
        judged(known, Row::Internal, |verdicts| {
            verdicts.measures.pages_per_site()
        })
    };
    line("pages for a verdict", pages(real), pages(generated))?;
    line("sites", one.sites.to_string(), other.sites.to_string())?;
    out.flush()
}

fn judged(known: &Known, row: Row, figure: impl Fn(&Verdicts) -> f64) -> String {
    match &known.judged {
        Some(result) => format!("{:.3}", figure(result.row(row))),
        None => "-".to_owned(),
    }
}

fn spread(spread: Spread) -> String {
    let Spread {
        low,
        median,
        high,
        mean,
    } = spread;
    format!("{low:>6.0}{median:>6.0}{high:>6.0}{mean:>6.1}")
}
