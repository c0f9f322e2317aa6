//! What is wrong with a settings file, and where.

use std::fmt;

use thiserror::Error;

/// All problems of one settings file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", lines(.0))]
pub struct ConfigError(pub Vec<Problem>);

/// One problem at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The column in characters, from 1.
    pub(crate) column: usize,
    /// What is wrong and what would be right.
    pub(crate) message: String,
}

impl Problem {
    pub(super) fn at(text: &str, offset: usize, message: String) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
