//! `sitescout export`: the sites found, as a list for others.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::config::Settings;
use crate::store::{JudgedSite, KeyValueStore, SiteStore};
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

Relevant sites in the order in which they were judged; a file given with --out appears whole
or not at all. `--since` leaves out what has a sequence number up to that.";

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
    /// Irrelevant and undecided sites too
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
        writeln!(out, "seq,host,verdict,confidence,pages,start,judged_at")?;
    }
    let mut after = arguments.since;
    loop {
        let portion = store.judged(topic, after, PORTION).await?;
        let Some(last) = portion.last() else {
            return Ok(());
        };
        after = last.seq;
        for judged in portion {
            // A blocked host leaves the results at once, whatever was found about it.
            let is_wanted = (arguments.all || judged.verdict.is_relevant())
                && judged.confidence >= arguments.min_confidence
                && settings.external.permits(judged.site.host());
            if is_wanted {
                writeln!(out, "{}", line(&judged, arguments.format))?;
            }
        }
    }
}

/// Hosts consist of letters, digits, hyphens, dots and colons, so no field of a CSV line
/// needs quotes. One that begins with a hyphen would be a formula to some programs.
fn line(judged: &JudgedSite, format: Format) -> String {
    let judged_at = sources::date(judged.judged_at);
    match format {
        Format::Txt => judged.site.to_string(),
        Format::Csv => format!(
            "{},{}{},{},{:.6},{},{},{judged_at}",
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
        })),
    }
}
