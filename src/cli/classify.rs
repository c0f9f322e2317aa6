//! `sitescout classify`: judges sites by a model.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::config::Settings;
use crate::external::ordering;
use crate::internal::InternalCrawler;
use crate::web::{
    PageStep, SiteReport, SiteVisit, StepOutcome, TellingWord, UndecidedReason, Verdict,
};

use super::ExitCode;
use super::sources::{self, Web, WebSource};
use super::terminal::{Sanitized, complain, sanitized_json};

const EXAMPLES: &str = "\
Examples:
  sitescout classify --config live.toml --model site-models/sailing https://harbour.example/
  sitescout classify --config live.toml --model site-models/sailing --record a.warc.gz harbour.example
  sitescout classify --model site-models/sailing --warc a.warc.gz harbour.example
  sitescout classify --model site-models/sailing --warc a.warc.gz --explain gulls.example
  sitescout classify --model site-models/sailing --warc a.warc.gz --hosts list.txt --json
  zcat hosts.gz | sitescout classify --model site-models/sailing --warc a.warc.gz

Sites come from the command line, from a file, or from standard input, one a line, as hosts or
URLs; what follows a tab is ignored, and so are lines that begin with `#`. A bare host is tried
by https, then by http, then with `www.` or without. Verdicts come in the order
of the hosts. Lines that are no hosts are reported, and the exit code is 65.";

/// Maximum number of visits under way or waiting to be printed: a slow site at the head of
/// the queue delays the printing, but not the visits behind it.
const REPORTS_WAITING: usize = 4_096;

/// Number of hosts read ahead.
const HOSTS_AHEAD: usize = 16;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The directory of a site model
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// A WARC file to read the sites from; may be given several times. By default the live
    /// web, for which the settings must name a contact
    #[arg(long, value_name = "FILE")]
    warc: Vec<PathBuf>,
    /// Another source of pages: warc:FILE or generated:SITES,SEED(,LOCALITY)
    #[arg(long, value_name = "WEB", conflicts_with = "warc")]
    web: Vec<WebSource>,
    /// Record all responses of the live web in this WARC file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["warc", "web"])]
    record: Option<PathBuf>,
    /// Sites to judge
    #[arg(value_name = "HOST", conflicts_with = "hosts")]
    host: Vec<String>,
    /// A file with sites to judge, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Show each page with its confidence and its telling words
    #[arg(long)]
    explain: bool,
    /// Print JSON Lines: one object for each site
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let model = sources::open_model(&arguments.model)?;
    let web = Web::open(
        &arguments.warc,
        &arguments.web,
        arguments.record.as_deref(),
        settings,
    )?;
    let crawler = InternalCrawler::new(
        web.fetcher(),
        Arc::new(model),
        settings.internal,
        sources::parse_limits(settings),
        ordering(&settings.external).page_ordering(),
    );
    let hosts = Hosts::open(arguments)?;
    let mut out = VerdictPrinter {
        out: BufWriter::new(io::stdout().lock()),
        json: arguments.json,
        explain: arguments.explain,
        tally: ClassCounts::default(),
    };
    let bad = sources::runtime()?.block_on(async {
        let judged = judge_all(crawler, hosts, web.sites_at_once, &mut out).await;
        // The recording is kept even if judging failed.
        web.finish().await?;
        judged
    })?;
    out.out.flush()?;
    if !arguments.json && out.tally.sites > 1 {
        complain(&out.tally.summary());
    }
    match bad {
        0 => Ok(ExitCode::Success),
        _ => Ok(ExitCode::DamagedData),
    }
}

/// Judges sites, several at once, and prints the verdicts in the order of the hosts, each
/// as soon as it is there: a client may send hosts one by one and wait for each verdict.
/// Returns the number of lines that were no hosts.
async fn judge_all<W: Write>(
    crawler: InternalCrawler,
    mut hosts: Hosts,
    sites_at_once: usize,
    out: &mut VerdictPrinter<W>,
) -> anyhow::Result<usize> {
    let mut visits: VecDeque<(SiteVisit, JoinHandle<SiteReport>)> = VecDeque::new();
    let slots = Arc::new(Semaphore::new(sites_at_once));
    let mut is_over = false;
    loop {
        let has_room = !is_over && visits.len() < REPORTS_WAITING;
        let oldest = async {
            match visits.front_mut() {
                Some((_, visit)) => visit.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            report = oldest => {
                let visit = visits.pop_front();
                let report = report.ok().or_else(|| {
                    let (visit, _) = visit?;
                    complain(&format!("sitescout: the visit to {} ended with an internal error", visit.site));
                    Some(SiteReport::interrupted(visit, crawler.model().fingerprint()))
                });
                if let Some(report) = report {
                    out.print(&report)?;
                }
            }
            line = hosts.lines.recv(), if has_room => match line {
                None => is_over = true,
                Some(line) => {
                    if let Some(visit) = hosts.visit(&line.context("cannot read the hosts")?) {
                        let own_visit = visit.clone();
                        let (crawler, slots) = (crawler.clone(), Arc::clone(&slots));
                        let visiting = tokio::spawn(async move {
                            // The semaphore is never closed.
                            let _slot = slots.acquire_owned().await;
                            crawler.sample(own_visit).await
                        });
                        visits.push_back((visit, visiting));
                    }
                }
            },
            else => return Ok(hosts.bad),
        }
        if is_over && visits.is_empty() {
            return Ok(hosts.bad);
        }
    }
}

/// The hosts to judge.
struct Hosts {
    lines: mpsc::Receiver<io::Result<Vec<u8>>>,
    line: usize,
    bad: usize,
}

impl Hosts {
    /// Reads the hosts on a separate thread, since standard input may block.
    fn open(arguments: &Arguments) -> anyhow::Result<Self> {
        let source: Box<dyn BufRead + Send> = match &arguments.hosts {
            _ if !arguments.host.is_empty() => {
                Box::new(io::Cursor::new(arguments.host.join("\n").into_bytes()))
            }
            Some(path) if path.as_os_str() != "-" => {
                let file = File::open(path)
                    .with_context(|| format!("cannot read the hosts {}", path.display()))?;
                Box::new(BufReader::new(file))
            }
            None if io::stdin().is_terminal() => {
                bail!("name the hosts to judge, or a file of them with --hosts")
            }
            _ => Box::new(BufReader::new(io::stdin())),
        };
        let (sender, lines) = mpsc::channel(HOSTS_AHEAD);
        std::thread::spawn(move || {
            for line in source.split(b'\n') {
                // The receiver is gone: judging has ended.
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            lines,
            line: 0,
            bad: 0,
        })
    }

    /// The visit to the site of a line; an invalid host is reported and counted.
    fn visit(&mut self, line: &[u8]) -> Option<SiteVisit> {
        self.line += 1;
        let line = String::from_utf8_lossy(line);
        let host = line.split('\t').next().unwrap_or_default().trim();
        if host.is_empty() || host.starts_with('#') {
            return None;
        }
        match SiteVisit::to(host) {
            Ok(visit) => Some(visit),
            Err(error) => {
                let message = format!("sitescout: host {}: {error}", self.line);
                complain(&Sanitized(&message).to_string());
                self.bad += 1;
                None
            }
        }
    }
}

/// Totals for the summary.
#[derive(Default)]
struct ClassCounts {
    sites: usize,
    relevant: usize,
    undecided: usize,
    pages: usize,
}

impl ClassCounts {
    fn add(&mut self, report: &SiteReport) {
        self.sites += 1;
        self.pages += report.cost.pages;
        match report.verdict {
            Verdict::Relevant => self.relevant += 1,
            Verdict::Irrelevant => {}
            Verdict::Undecided(_) => self.undecided += 1,
        }
    }

    fn summary(&self) -> String {
        format!(
            "{} sites: {} relevant, {} irrelevant, {} undecided; {} pages",
            self.sites,
            self.relevant,
            self.sites - self.relevant - self.undecided,
            self.undecided,
            self.pages
        )
    }
}

struct VerdictPrinter<W: Write> {
    out: W,
    json: bool,
    explain: bool,
    tally: ClassCounts,
}

impl<W: Write> VerdictPrinter<W> {
    fn print(&mut self, report: &SiteReport) -> io::Result<()> {
        self.tally.add(report);
        if self.json {
            writeln!(
                self.out,
                "{}",
                sanitized_json(&as_json(report, self.explain))
            )?;
        } else {
            self.print_text(report)?;
        }
        // A reader of a stream of hosts needs each verdict at once.
        self.out.flush()
    }

    fn print_text(&mut self, report: &SiteReport) -> io::Result<()> {
        let pages = match report.cost.pages {
            1 => "1 page ".to_owned(),
            pages => format!("{pages} pages"),
        };
        write!(
            self.out,
            "{:<10} {}  {pages:>8}  {}",
            report.verdict.name(),
            report.confidence,
            report.site
        )?;
        match (report.verdict.undecided_reason(), &report.alias_of) {
            (Some(UndecidedReason::Alias), Some(page)) => {
                writeln!(self.out, "  (leads to {})", page.site())?;
            }
            (Some(UndecidedReason::Deferred { not_before, .. }), _) => {
                writeln!(self.out, "  (deferred until {})", sources::date(not_before))?;
            }
            (Some(reason), _) => writeln!(self.out, "  ({})", reason.name())?,
            (None, _) if report.noindex => writeln!(self.out, "  (noindex)")?,
            (None, _) => writeln!(self.out)?,
        }
        if self.explain {
            for step in &report.steps {
                self.print_step(step)?;
            }
            writeln!(
                self.out,
                "    stopped: {}; {} links to other sites\n",
                report.stop_reason.name(),
                report.transversal_links.len()
            )?;
        }
        Ok(())
    }

    fn print_step(&mut self, step: &PageStep) -> io::Result<()> {
        let outcome = match &step.outcome {
            StepOutcome::Spoke => format!("page {}", step.confidence),
            other => other.to_string(),
        };
        writeln!(
            self.out,
            "    {outcome:<14} site {}  {} ({})",
            step.site_confidence,
            step.url,
            step.kind.name()
        )?;
        let words = &step.telling_words;
        for (side, words) in [("for", &words.for_target), ("against", &words.against)] {
            if !words.is_empty() {
                let words: Vec<String> = words.iter().map(in_words).collect();
                writeln!(self.out, "        {side:<8} {}", words.join(", "))?;
            }
        }
        Ok(())
    }
}

fn in_words(word: &TellingWord) -> String {
    format!("{} {:+.2}", Sanitized(&word.term), word.weight)
}

fn as_json(report: &SiteReport, explain: bool) -> Value {
    let pages = report.steps.iter().map(|step| {
        let mut page = json!({
            "url": step.url.as_str(),
            "kind": step.kind.name(),
            "outcome": step.outcome.name(),
            "error": match step.outcome {
                StepOutcome::Unanswered(why) => Some(why.name()),
                _ => None,
            },
            "confidence": step.confidence.get(),
            "site_confidence": step.site_confidence.get(),
        });
        if explain {
            let words = |words: &[TellingWord]| -> Value {
                let words = words.iter();
                words
                    .map(|word| json!({ "word": &*word.term, "weight": word.weight }))
                    .collect()
            };
            page["for"] = words(&step.telling_words.for_target);
            page["against"] = words(&step.telling_words.against);
        }
        page
    });
    let links = report.transversal_links.iter().map(|found| {
        json!({
            "host": found.link.site.as_str(),
            "url": found.link.page.as_str(),
            "anchor": found.link.anchor,
            "nofollow": found.link.nofollow,
            "from": report.steps.get(found.step).map(|step| step.url.as_str()),
        })
    });
    json!({
        "host": report.site.as_str(),
        "verdict": report.verdict.name(),
        "undecided_reason": report.verdict.undecided_reason().map(UndecidedReason::name),
        "not_before": match report.verdict.undecided_reason() {
            Some(UndecidedReason::Deferred { not_before, .. }) => Some(sources::date(not_before)),
            _ => None,
        },
        "confidence": report.confidence.get(),
        "pages": pages.collect::<Vec<Value>>(),
        "stop_reason": report.stop_reason.name(),
        "alias_of": report.alias_of.as_ref().map(|page| page.site().to_string()),
        "transversal_links": links.collect::<Vec<Value>>(),
        "model": report.model.to_string(),
        "noindex": report.noindex,
    })
}
