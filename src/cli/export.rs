//! `sitescout export`: the sites found, as a list for others.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::config::Settings;
use crate::store::{
    DirectoryStore, JudgedSite, KeyValueStore, Opinion, SitePlace, SiteQuery, StoreError, TopicId,
};
use crate::web::UndecidedReason;

use super::ExitCode;
use super::sources;
use super::terminal::harmless_json;

const EXAMPLES: &str = "\
Examples:
  sitescout export --topic sailing --format txt > hosts.txt
  sitescout export --topic sailing --format csv --out sailing.csv --min-confidence 0.95
  sitescout export --topic sailing --format jsonl --since 1204
  sitescout export --everything --out backup.jsonl

The list of a topic in the order in which sites came onto it: those judged relevant, without
those that an editor rejects or an operator blocks, and with those that an editor accepts. A file
given with --out appears whole or not at all. `--since` leaves out what has a sequence number up
to that. `--all` gives every verdict instead.";

/// So many verdicts are read at a time.
const PORTION: usize = 1_000;

/// What a list looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One host a line
    Txt,
    /// With a header line
    Csv,
    /// One JSON object a line
    Jsonl,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The topic
    #[arg(long, value_name = "TOPIC", required_unless_present = "everything")]
    topic: Option<String>,
    /// Every record of the store, as JSON Lines for `import`, instead of a list
    #[arg(long, conflicts_with_all = ["topic", "format", "min_confidence", "since", "all"])]
    everything: bool,
    /// What the list looks like
    #[arg(long, value_name = "FORMAT", default_value = "txt")]
    format: Format,
    /// Leave out sites of less confidence
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    min_confidence: f64,
    /// Leave out what has a sequence number up to this
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    since: u64,
    /// Every verdict, of irrelevant and undecided sites too
    #[arg(long)]
    all: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where everything found is kept
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let store = sources::open_store(&arguments.state, settings)?;
    match &arguments.out {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            sources::runtime()?.block_on(export(arguments, settings, &store, &mut out))?;
            out.flush()?;
        }
        Some(path) => {
            let directory = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let file = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")));
            let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
            {
                let mut out = BufWriter::new(file.as_file_mut());
                sources::runtime()?.block_on(export(arguments, settings, &store, &mut out))?;
                out.flush()?;
            }
            file.as_file().sync_all()?;
            sources::set_readable(file.path())?;
            file.persist(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(ExitCode::Success)
}

async fn export(
    arguments: &Arguments,
    settings: &Settings,
    store: &KeyValueStore,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if arguments.everything {
        let mut lines = store.dump();
        while let Some(line) = lines.recv().await {
            let line = serde_json::to_value(line?)?;
            writeln!(out, "{}", harmless_json(&line))?;
        }
        return Ok(());
    }
    let topic = sources::topic_of(store, arguments.topic.as_deref()).await?;
    if arguments.format == Format::Csv {
        writeln!(out, "{CSV_HEADER}")?;
    }
    let mut after = arguments.since;
    loop {
        let (portion, next) = match arguments.all {
            true => verdicts(store, topic, after).await?,
            false => list(store, topic, after).await?,
        };
        for exported in portion {
            // A blocked host leaves the results at once, whatever was found about it.
            let judged = &exported.judged;
            let is_wanted = exported.is_wanted
                && judged.confidence >= arguments.min_confidence
                && settings.external.permits(judged.site.host());
            if is_wanted {
                writeln!(out, "{}", exported.line(arguments.format))?;
            }
        }
        match next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

/// A line in the making. The number is that of the verdict, or of the change that brought the
/// site onto the list.
struct Exported {
    judged: JudgedSite,
    opinion: Option<Opinion>,
    is_wanted: bool,
}

/// A portion of the verdicts, and where the next begins.
async fn verdicts(
    store: &KeyValueStore,
    topic: TopicId,
    after: u64,
) -> Result<(Vec<Exported>, Option<u64>), StoreError> {
    let query = SiteQuery {
        topic: Some(topic),
        after: Some(SitePlace::Number(after)),
        most: PORTION,
        ..SiteQuery::default()
    };
    let portion = store.find(query).await?;
    let sites = portion.sites.into_iter().map(|found| Exported {
        judged: found.judged,
        opinion: found.decision.map(|decision| decision.opinion),
        is_wanted: true,
    });
    let next = match portion.next {
        Some(SitePlace::Number(number)) => Some(number),
        _ => None,
    };
    Ok((sites.collect(), next))
}

/// A portion of the list, and where the next begins.
async fn list(
    store: &KeyValueStore,
    topic: TopicId,
    after: u64,
) -> Result<(Vec<Exported>, Option<u64>), StoreError> {
    let entries = store.feed(topic, after, PORTION).await?;
    let next = entries.last().map(|entry| entry.seq);
    let portion = entries.into_iter().map(|entry| Exported {
        opinion: entry.decision.map(|decision| decision.opinion),
        is_wanted: entry.change.is_listed(),
        judged: JudgedSite {
            seq: entry.seq,
            ..entry.judged
        },
    });
    Ok((portion.collect(), next))
}

const CSV_HEADER: &str = "seq,host,verdict,confidence,pages,start,judged_at,decision";

// === impl Exported ===

impl Exported {
    /// Hosts consist of letters, digits, hyphens, dots and colons, so no field of a CSV line
    /// needs quotes. One that begins with a hyphen would be a formula to some programs.
    fn line(&self, format: Format) -> String {
        let judged = &self.judged;
        let decision = self.opinion.map(Opinion::name);
        let judged_at = sources::date(judged.judged_at);
        match format {
            Format::Txt => judged.site.to_string(),
            Format::Csv => format!(
                "{},{}{},{},{:.6},{},{},{judged_at},{}",
                judged.seq,
                if judged.site.as_str().starts_with('-') {
                    "'"
                } else {
                    ""
                },
                judged.site,
                judged.verdict.name(),
                judged.confidence,
                judged.pages,
                judged.is_start,
                decision.unwrap_or_default(),
            ),
            Format::Jsonl => harmless_json(&json!({
                "seq": judged.seq,
                "host": judged.site.as_str(),
                "verdict": judged.verdict.name(),
                "undecided_reason": judged.verdict.undecided_reason().map(UndecidedReason::name),
                "confidence": judged.confidence,
                "pages": judged.pages,
                "rank": judged.rank,
                "start": judged.is_start,
                "judged_at": judged_at,
                "model": judged.model.to_string(),
                "stop_reason": judged.stop_reason,
                "alias_of": judged.alias_of.as_ref().map(|page| page.site().to_string()),
                "address": judged.address,
                "decision": decision,
            })),
        }
    }
}
