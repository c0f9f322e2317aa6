//! `sitescout export`: writes the list of a topic, or a dump of the store.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::config::{ListFormat, Settings};
use crate::store::{DumpStore, ReadStore};
use crate::verdicts::{List, ListError, beside, put_in_place};

use super::ExitCode;
use super::sources;
use super::terminal::sanitized_json;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One host a line
    Txt,
    /// With a header line
    Csv,
    /// One JSON object a line
    Jsonl,
}

impl From<Format> for ListFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Txt => Self::Txt,
            Format::Csv => Self::Csv,
            Format::Jsonl => Self::Jsonl,
        }
    }
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
    /// Format of the list
    #[arg(long, value_name = "FORMAT", default_value = "txt")]
    format: Format,
    /// Leave out sites of lower confidence
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    min_confidence: f64,
    /// Only sites with a sequence number above this
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    since: u64,
    /// Every verdict, of irrelevant and undecided sites too
    #[arg(long)]
    all: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Directory of the store
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let runtime = sources::runtime()?;
    if arguments.everything {
        let store = sources::open_store_for_dump(&arguments.state, settings)?;
        runtime.block_on(export_everything(&*store, arguments.out.as_deref()))?;
    } else {
        let store = sources::open_store(&arguments.state, settings)?;
        runtime.block_on(export_list(arguments, settings, &*store))?;
    }
    Ok(ExitCode::Success)
}

async fn export_list(
    arguments: &Arguments,
    settings: &Settings,
    store: &dyn ReadStore,
) -> anyhow::Result<()> {
    let list = List {
        topic: sources::topic_of(store, arguments.topic.as_deref()).await?,
        format: arguments.format.into(),
        since: arguments.since,
        min_confidence: arguments.min_confidence,
        has_all_verdicts: arguments.all,
        hosts: settings.external.host_lists(),
    };
    let written = match &arguments.out {
        Some(path) => list.write_to_file(store, path).await,
        None => print(&list, store).await,
    };
    // The exit code depends on what is wrong with the store.
    written.map_err(|error| match error {
        ListError::Store(error) => error.into(),
        error => error.into(),
    })
}

async fn print(list: &List, store: &dyn ReadStore) -> Result<(), ListError> {
    let mut out = BufWriter::new(io::stdout());
    list.write(store, &mut out).await?;
    Ok(out.flush()?)
}

async fn export_everything(store: &dyn DumpStore, path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else {
        let mut out = BufWriter::new(io::stdout());
        dump(store, &mut out).await?;
        return Ok(out.flush()?);
    };
    let failed = || format!("cannot write {}", path.display());
    let mut out = BufWriter::new(beside(path).with_context(failed)?);
    dump(store, &mut out).await?;
    put_in_place(out.into_inner()?, path).with_context(failed)
}

async fn dump(store: &dyn DumpStore, out: &mut impl Write) -> anyhow::Result<()> {
    let mut lines = store.dump();
    while let Some(line) = lines.recv().await {
        let line = serde_json::to_value(line?)?;
        writeln!(out, "{}", sanitized_json(&line))?;
    }
    Ok(())
}
