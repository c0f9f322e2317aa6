//! The command line: one file for each command.
//!
//! A command reads the settings, calls the library and prints. Results go to standard
//! output, everything else to standard error, and the exit code says how it went.

mod archive;
mod background;
mod check_config;
mod classify;
mod crawl;
mod demo;
mod evaluate;
mod exit;
mod export;
mod generate;
mod import;
mod inspect;
#[cfg(unix)]
mod run;
mod serve_web;
mod signals;
mod sources;
mod terminal;
mod topic;
mod train;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::config::{ConfigError, LogLevel, Settings};
use crate::telemetry;
pub(crate) use exit::ExitCode;
use exit::UnusableSettings;

/// Finds websites of a topic: learns from example sites, samples unseen ones with few pages.
#[derive(Debug, Parser)]
#[command(name = "sitescout", version, after_help = exit::HELP)]
struct Arguments {
    /// Settings to use instead of the built-in defaults
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Trains, crawls and evaluates on a generated web, in a minute
    Demo(demo::Arguments),
    /// Lists the hosts, pages and problems of WARC archives
    Archive(archive::Arguments),
    /// Makes a topic of a few example sites, improves it, and says how far to trust it
    Topic(topic::Arguments),
    /// Learns what sites of a topic look like
    Train(train::Arguments),
    /// Makes, extends and shows the sites that training takes for examples of what a topic is not
    Background(background::Arguments),
    /// Judges sites by a model: relevant, irrelevant or undecided
    Classify(classify::Arguments),
    /// Finds further sites of a topic
    Crawl(crawl::Arguments),
    /// Exports the list of sites found
    Export(export::Arguments),
    /// Makes a store from what another one exported
    Import(import::Arguments),
    /// Runs as a service: crawls for the topics of the settings, for months
    #[cfg(unix)]
    Run(run::Arguments),
    /// Shows what is known about a site, and why
    Inspect(inspect::Arguments),
    /// Measures how well sites are judged
    Evaluate(evaluate::Arguments),
    /// Serves a generated web over HTTP
    ServeWeb(serve_web::Arguments),
    /// Checks a settings file and reports all its problems at once
    CheckConfig(check_config::Arguments),
    /// Writes man pages or shell completions, for packages
    #[command(hide = true)]
    Generate(generate::Arguments),
}

/// Runs the program on its command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // `--help` and `--version` come this way too. A closed terminal is no failure.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::Usage
            } else {
                ExitCode::Success
            };
        }
    };
    match dispatch(arguments) {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::Success,
        Err(error) => {
            terminal::complain(&format!("sitescout: {error:#}"));
            ExitCode::of(&error)
        }
    }
}

fn dispatch(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::CheckConfig(check) => check_config::run(&check, arguments.config.as_deref()),
        Command::ServeWeb(serve) => serve_web::run(&serve),
        Command::Generate(generate) => generate::run(&generate),
        Command::Demo(demo) => {
            // The demo prints its own progress; a settings file may set another log level.
            let mut quiet = Settings::default();
            quiet.log.level = LogLevel::Error;
            let settings = settings_or(arguments.config.as_deref(), quiet)?;
            demo::run(&demo, settings)
        }
        Command::Archive(archive) => {
            let settings = settings(arguments.config.as_deref())?;
            archive::run(&archive, settings)
        }
        Command::Topic(topic) => {
            let config = arguments.config.as_deref();
            topic::run(&topic, config, &settings(config)?)
        }
        Command::Train(train) => {
            let settings = settings(arguments.config.as_deref())?;
            train::run(&train, settings)
        }
        Command::Background(background) => {
            let settings = settings(arguments.config.as_deref())?;
            background::run(&background, &settings)
        }
        Command::Classify(classify) => {
            let settings = settings(arguments.config.as_deref())?;
            classify::run(&classify, &settings)
        }
        Command::Crawl(crawl) => {
            let settings = settings(arguments.config.as_deref())?;
            crawl::run(&crawl, settings)
        }
        #[cfg(unix)]
        Command::Run(run) => {
            let config = arguments.config.as_deref();
            run::run(&run, config, settings(config)?)
        }
        Command::Export(export) => {
            let settings = settings(arguments.config.as_deref())?;
            export::run(&export, &settings)
        }
        Command::Import(import) => {
            let settings = settings(arguments.config.as_deref())?;
            import::run(&import, &settings)
        }
        Command::Inspect(inspect) => {
            let settings = settings(arguments.config.as_deref())?;
            inspect::run(&inspect, &settings)
        }
        Command::Evaluate(evaluate) => {
            let settings = settings(arguments.config.as_deref())?;
            evaluate::run(&evaluate, settings)
        }
    }
}

/// Reads the settings and starts the log.
fn settings(path: Option<&Path>) -> anyhow::Result<Settings> {
    settings_or(path, Settings::default())
}

fn settings_or(path: Option<&Path>, default: Settings) -> anyhow::Result<Settings> {
    let settings = read_or(path, default)?;
    telemetry::start_log(&settings.log);
    Ok(settings)
}

fn read_or(path: Option<&Path>, default: Settings) -> anyhow::Result<Settings> {
    Ok(match path {
        None => default,
        Some(path) => {
            Settings::parse(&read_settings(path)?).map_err(|error| in_file(path, &error))?
        }
    })
}

fn read_settings(path: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(path);
    let bytes = bytes.with_context(|| format!("cannot read the settings {}", path.display()))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count();
            let message = format!("\n{}:{line}: the text is not UTF-8 here", path.display());
            Err(UnusableSettings(message).into())
        }
    }
}

/// The problems of a settings file, each with file name and line as compilers write them.
fn in_file(path: &Path, error: &ConfigError) -> UnusableSettings {
    let lines = error
        .0
        .iter()
        .map(|problem| format!("\n{}:{problem}", path.display()));
    UnusableSettings(lines.collect())
}
