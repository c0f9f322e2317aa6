//! `sitescout generate`: man pages and shell completions, for packages.
//!
//! Both are generated from the definition of the command line, so they agree with `--help`. The
//! command is hidden: users get the files with the package.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::ExitCode;

/// Shells for which packages install completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A page of section 1 for each command
    Man,
    /// One file for each of bash, fish and zsh
    Completions,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// What to generate
    kind: Kind,
    /// The directory to write to; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let directory = &arguments.out;
    let written = fs::create_dir_all(directory).and_then(|()| match arguments.kind {
        Kind::Man => write_man_pages(directory),
        Kind::Completions => write_completions(directory),
    });
    written.with_context(|| format!("cannot write to {}", directory.display()))?;
    Ok(ExitCode::Success)
}

fn write_man_pages(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(super::Arguments::command(), directory)?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            let page = fs::read_to_string(&path)?;
            fs::write(&path, with_notes_as_written(&page))?;
        }
    }
    Ok(())
}

/// Examples and exit codes, line by line: roff would make paragraphs of them.
fn with_notes_as_written(page: &str) -> String {
    let Some((before, notes)) = page.split_once("\n.SH EXTRA\n") else {
        return page.to_owned();
    };
    let (notes, after) = match notes.find("\n.SH ") {
        Some(at) => notes.split_at(at),
        None => (notes.trim_end(), "\n"),
    };
    format!("{before}\n.SH NOTES\n.nf\n{notes}\n.fi{after}")
}

fn write_completions(directory: &Path) -> io::Result<()> {
    for shell in SHELLS {
        let mut command = super::Arguments::command();
        clap_complete::generate_to(shell, &mut command, "sitescout", directory)?;
    }
    Ok(())
}
