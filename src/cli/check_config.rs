//! `sitescout check-config`: checks a settings file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::Settings;

use super::{ExitCode, in_file, read_settings};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The file to check; `config.toml` if neither this nor `--config` is given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, config: Option<&Path>) -> anyhow::Result<ExitCode> {
    let file = arguments.file.as_deref().or(config);
    let path = file.unwrap_or(Path::new("config.toml"));
    let text = read_settings(path)?;
    Settings::parse(&text).map_err(|error| in_file(path, &error))?;
    let left_out = Settings::keys_left_out(&text);
    let defaults = match left_out.as_slice() {
        [] => "every key is set".to_owned(),
        keys => format!("left at their defaults: {}", keys.join(", ")),
    };
    writeln!(io::stdout(), "{}: ok, {defaults}", path.display())?;
    Ok(ExitCode::Success)
}
