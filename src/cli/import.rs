//! `sitescout import`: creates a store from a dump of another one.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::config::Settings;
use crate::store::{DumpLine, Import};
use crate::telemetry::grouped;

use super::ExitCode;
use super::terminal::complain;

const EXAMPLES: &str = "\
Examples:
  sitescout export --everything --state old > backup.jsonl
  sitescout import backup.jsonl --state new
  zcat backup.jsonl.gz | sitescout import - --state new";

/// Records written per batch.
const BATCH: usize = 1_000;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// What `export --everything` wrote; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to create the store; must not exist yet
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let is_there = fs::exists(&arguments.state)?;
    ensure!(
        !is_there,
        "{} is there already; an import makes a store of its own",
        arguments.state.display()
    );
    let name = arguments.file.display();
    let source: Box<dyn BufRead> = if arguments.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&arguments.file);
        let file = file.with_context(|| format!("cannot read {name}"))?;
        Box::new(BufReader::new(file))
    };
    let mut import = Import::begin(&arguments.state, &settings.store)?;
    let records = load(source, &name.to_string(), &mut import).with_context(|| {
        format!(
            "{} holds a part only; delete it before the next import",
            arguments.state.display()
        )
    })?;
    import.finish()?;
    complain(&format!("{} records imported", grouped(records)));
    Ok(ExitCode::Success)
}

/// Reads a dump to its end, and returns the number of its records.
fn load(source: Box<dyn BufRead>, name: &str, import: &mut Import) -> anyhow::Result<u64> {
    let mut records = 0_u64;
    let mut batch = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        let line: DumpLine =
            serde_json::from_str(&line).with_context(|| format!("{name}, line {number}"))?;
        if let Some(wanted) = line.lines_before_end() {
            ensure!(
                wanted == records,
                "{name} has {records} records and should have {wanted}"
            );
            import.load(batch)?;
            return Ok(records);
        }
        batch.push(line);
        records += 1;
        if batch.len() >= BATCH {
            import.load(std::mem::take(&mut batch))?;
        }
    }
    bail!("{name} breaks off after {records} records")
}
