//! `sitescout evaluate`: how well are whole sites judged, and how soon are they found?

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::config::Settings;
use crate::lab::generated::Truth;
use crate::lab::{
    CrawlExperiment, CrawlResult, Experiment, Row, SHARES, Spread, TopicResult, Verdicts, likeness,
};
use crate::web::SiteId;

use super::ExitCode;
use super::sources::{self, PageClassifierName, Web, WebSource};
use super::terminal::{complain, grouped, harmless_json};

const EXAMPLES: &str = "\
Examples:
  sitescout evaluate classifier --warc sites.warc.gz --labels sites.tsv --topic all
  sitescout evaluate classifier --warc a.warc --labels l.tsv --topic church --seeds 5
  sitescout evaluate classifier ... --topic all --page-classifier centroid --json

Cross-validation by site, groups kept together. Three rows for each topic: the internal
crawler, a classifier of homepages only, and one that reads every page.";

const CRAWL_EXAMPLES: &str = "\
Examples:
  sitescout evaluate crawl --warc web.warc.gz --labels web.tsv --topic law_firm conference

Half of the groups are learned from and do not count as finds. For each draw of start sites
one crawler visits sites until half of those that can be reached are visited, by each ordering,
and by the first of them fed with the true labels.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Repeats table 2 of the paper: judges labelled sites by cross-validation
    #[command(after_help = EXAMPLES)]
    Classifier(ClassifierArguments),
    /// Compares orderings: how many sites of a topic are found after how many visits
    #[command(after_help = CRAWL_EXAMPLES)]
    Crawl(CrawlArguments),
    /// Holds a generated web against real sites: sizes, words, links, repetitions
    Likeness(LikenessArguments),
}

#[derive(Debug, Args)]
struct LikenessArguments {
    /// WARC files with real sites
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Labels of the real sites: host, tab, topic
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// The generated web: SITES,SEED
    #[arg(long, value_name = "SITES,SEED", default_value = "20000,1")]
    generated: String,
    /// The pages read of each site
    #[arg(long, value_name = "N", default_value_t = 200)]
    pages: usize,
}

#[derive(Debug, Args)]
struct CrawlArguments {
    /// WARC files with the labelled sites, linked to one web
    #[arg(long, value_name = "FILE", required_unless_present = "web", num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Another web: warc:FILE or generated:SITES,SEED
    #[arg(long, value_name = "WEB", conflicts_with = "warc")]
    web: Vec<WebSource>,
    /// Labels: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// The topics to evaluate
    #[arg(long, value_name = "TOPIC", required = true, num_args = 1..)]
    topic: Vec<String>,
    /// How often start sites are drawn; the results are means
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    draws: u64,
    /// How many start sites are drawn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    start_sites: u32,
    /// Print JSON Lines: one object for each topic
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ClassifierArguments {
    /// WARC files with the labelled sites
    #[arg(long, value_name = "FILE", required_unless_present = "web", num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Another web: warc:FILE or generated:SITES,SEED
    #[arg(long, value_name = "WEB", conflicts_with = "warc")]
    web: Vec<WebSource>,
    /// Labels: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,
    /// The topic to evaluate, or `all`
    #[arg(long, value_name = "TOPIC")]
    topic: String,
    /// At most so many folds; never more than the topic has groups
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    folds: u32,
    /// How often the folds are dealt anew; the results are means
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The page classifier to use instead of the one in the settings
    #[arg(long, value_name = "NAME")]
    page_classifier: Option<PageClassifierName>,
    /// A threshold to use instead of the one that training proposes
    #[arg(long, value_name = "P", value_parser = sources::p_threshold)]
    p_threshold: Option<f64>,
    /// Train on so many sites of the topic only, for learning curves
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    target_sites: Option<u32>,
    /// Also list the sites that the internal crawler got wrong
    #[arg(long)]
    mistakes: bool,
    /// Print JSON Lines: one object for each topic, then the mean
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: Settings) -> anyhow::Result<ExitCode> {
    match &arguments.what {
        What::Classifier(arguments) => evaluate_classifier(arguments, settings),
        What::Crawl(arguments) => evaluate_crawl(arguments, &settings),
        What::Likeness(arguments) => evaluate_likeness(arguments, &settings),
    }
}

fn evaluate_crawl(arguments: &CrawlArguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let web = Web::open(&arguments.warc, &arguments.web, None, settings)?;
    let labels = sources::read_labels(&arguments.labels)?;
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
        fetcher: web.fetcher,
        corpus: &corpus,
        limits: sources::parse_limits(settings),
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
        match arguments.json {
            true => writeln!(out, "{}", harmless_json(&crawl_as_json(&result)))?,
            false => print_crawl(&result, &mut out)?,
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
    let shares = SHARES
        .map(|share| format!("{:>5.0} %", share * 100.0))
        .concat();
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
        let figures = |means: [f64; 3]| means.map(|mean| format!("{mean:>7.2}")).concat();
        writeln!(
            out,
            "    {:<14}{}  {}{:>14.0}",
            curve.name,
            figures(curve.reached),
            figures(curve.found),
            curve.pages[2]
        )?;
    }
    Ok(())
}

fn crawl_as_json(result: &CrawlResult) -> Value {
    let curves = result.curves.iter().map(|curve| {
        json!({
            "ordering": curve.name,
            "reached": curve.reached,
            "found": curve.found,
            "pages": curve.pages,
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

fn evaluate_likeness(
    arguments: &LikenessArguments,
    settings: &Settings,
) -> anyhow::Result<ExitCode> {
    let source: WebSource = format!("generated:{}", arguments.generated)
        .parse()
        .map_err(anyhow::Error::msg)?;
    let WebSource::Generated(generated) = source else {
        bail!("expected SITES,SEED");
    };
    let labels = sources::read_labels(&arguments.labels)?;
    let real = Web::open(&arguments.warc, &[], None, settings)?;
    let real_sites: Vec<SiteId> = labels
        .labels
        .iter()
        .map(|label| label.site.clone())
        .collect();
    let generated_sites = (0..generated.sites()).map(|number| generated.site(number));
    let generated_sites = generated_sites
        .filter(|(_, truth)| *truth != Truth::NoSite)
        .filter_map(|(host, _)| host.parse::<SiteId>().ok())
        .take(real_sites.len());
    let generated_sites: Vec<SiteId> = generated_sites.collect();
    let limits = sources::parse_limits(settings);
    let (real, generated) = sources::runtime()?.block_on(async {
        let pages = arguments.pages;
        let real = likeness(&*real.fetcher, &real_sites, pages, &limits).await;
        let generated = likeness(&generated, &generated_sites, pages, &limits).await;
        (real, generated)
    });
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "{:<22}{:>26}{:>28}\n{:<22}{:>26}{:>28}",
        "", "real", "generated", "", "10 %  50 %  90 %  mean", "10 %  50 %  90 %  mean"
    )?;
    for (name, one, other) in [
        ("pages per site", real.pages, generated.pages),
        ("words per page", real.words, generated.words),
        ("links inside the site", real.intrinsic, generated.intrinsic),
        (
            "links to other sites",
            real.transversal,
            generated.transversal,
        ),
    ] {
        let figures = |spread: Spread| {
            let Spread {
                low,
                median,
                high,
                mean,
            } = spread;
            format!("{low:>6.0}{median:>6.0}{high:>6.0}{mean:>6.1}")
        };
        writeln!(out, "{name:<22}{:>26}{:>28}", figures(one), figures(other))?;
    }
    let (real_share, generated_share) = (real.near_duplicates, generated.near_duplicates);
    writeln!(
        out,
        "{:<22}{real_share:>26.3}{generated_share:>28.3}\n{:<22}{:>26}{:>28}",
        "near-duplicate pages", "sites", real.sites, generated.sites
    )?;
    out.flush()?;
    Ok(ExitCode::Success)
}

fn evaluate_classifier(
    arguments: &ClassifierArguments,
    mut settings: Settings,
) -> anyhow::Result<ExitCode> {
    if let Some(name) = arguments.page_classifier {
        settings.training.page_classifier = name.into();
    }
    let web = Web::open(&arguments.warc, &arguments.web, None, &settings)?;
    let labels = sources::read_labels(&arguments.labels)?;
    let topics: Vec<&str> = match arguments.topic.as_str() {
        "all" => labels.topics(),
        topic if labels.topics().contains(&topic) => vec![topic],
        topic => bail!(
            "no site is labelled `{topic}`; there are: {}",
            labels.topics().join(", ")
        ),
    };
    let corpus = sources::read_corpus(&web, &labels, &settings)?;
    let experiment = Experiment {
        fetcher: web.fetcher,
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
    for topic in topics {
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

fn print(
    out: &mut impl Write,
    result: &TopicResult,
    arguments: &ClassifierArguments,
) -> io::Result<()> {
    if arguments.json {
        writeln!(
            out,
            "{}",
            harmless_json(&as_json(result, arguments.mistakes))
        )?;
        return out.flush();
    }
    for row in Row::ALL {
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
    for row in Row::ALL {
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
