//! Reads the tables of a settings file key by key; the keys never read are unknown keys.
//!
//! Deriving this with serde would be shorter, but stops at the first mistake.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{ConfigError, Problem};

/// A known key at least this similar to an unknown one is suggested.
const SIMILAR: f64 = 0.7;

/// One table of the file, or an absent one.
pub(super) struct Section<'a> {
    /// Dotted, empty for the whole file.
    name: String,
    entries: BTreeMap<&'a str, (Range<usize>, &'a Spanned<DeValue<'a>>)>,
    known: Vec<&'static str>,
    notes: &'a RefCell<Notes>,
}

/// Findings while reading.
#[derive(Default)]
struct Notes {
    /// Offset and message.
    problems: Vec<(usize, String)>,
    left_out: Vec<String>,
}

/// Reads a whole file.
pub(super) fn read<T>(
    text: &str,
    read: impl FnOnce(&mut Section<'_>) -> T,
) -> Result<T, ConfigError> {
    let (settings, notes) = read_noting(text, read);
    if notes.problems.is_empty() {
        return Ok(settings);
    }
    let mut problems = notes.problems;
    problems.sort();
    problems.dedup();
    let problems = problems.into_iter();
    Err(ConfigError(
        problems
            .map(|(offset, message)| Problem::at(text, offset, message))
            .collect(),
    ))
}

/// Which keys a file does not set.
pub(super) fn keys_left_out<T>(
    text: &str,
    read: impl FnOnce(&mut Section<'_>) -> T,
) -> Vec<String> {
    read_noting(text, read).1.left_out
}

fn read_noting<T>(text: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> (T, Notes) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let notes = RefCell::new(Notes::default());
    let mut top = Section::new(String::new(), table.get_ref(), &notes);
    let settings = read(&mut top);
    top.refuse_unknown_keys();
    drop(top);
    let mut notes = notes.into_inner();
    // At a syntax error, other problems at the same offset come from the parser's recovery.
    for error in errors {
        let offset = error.span().map_or(0, |span| span.start);
        notes.problems.retain(|(other, _)| *other != offset);
        notes.problems.push((offset, error.message().to_owned()));
    }
    (settings, notes)
}

impl<'a> Section<'a> {
    fn new(name: String, table: &'a DeTable<'a>, notes: &'a RefCell<Notes>) -> Self {
        let entries = table.iter().map(|(key, value)| {
            let name: &str = key.get_ref();
            (name, (key.span(), value))
        });
        Self {
            name,
            entries: entries.collect(),
            known: Vec::new(),
            notes,
        }
    }

    /// Reads a table inside this one; an absent one is read as empty.
    pub(super) fn section<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let name = self.full_name(key);
        self.known.push(key);
        let empty = DeTable::new();
        let table = match self.entries.remove(key) {
            Some((_, value)) => match value.get_ref() {
                DeValue::Table(table) => table,
                other => {
                    let message = format!("`{name}` must be a table, not {}", described(other));
                    self.problem(value.span().start, message);
                    &empty
                }
            },
            None => &empty,
        };
        let mut section = Section::new(name, table, self.notes);
        let settings = read(&mut section);
        section.refuse_unknown_keys();
        settings
    }

    /// Reads a value. An invalid one is reported and replaced by the default, so that reading goes on.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> T {
        self.known.push(key);
        let Some((_, value)) = self.entries.remove(key) else {
            let name = self.full_name(key);
            self.notes.borrow_mut().left_out.push(name);
            return default;
        };
        match read(value.get_ref()) {
            Ok(read) => read,
            Err(wanted) => {
                let found = described(value.get_ref());
                let message = format!("`{}` must be {wanted}, not {found}", self.full_name(key));
                self.problem(value.span().start, message);
                default
            }
        }
    }

    /// Reads a mandatory value; a missing one is reported.
    pub(super) fn required<T: Default>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> T {
        if !self.entries.contains_key(key) {
            let name = self.full_name(key);
            self.problem(0, format!("`{name}` is missing"));
        }
        self.value(key, T::default(), read)
    }

    fn refuse_unknown_keys(&self) {
        for (key, (span, _)) in &self.entries {
            let place = match self.name.as_str() {
                "" => "at the top of the file".to_owned(),
                name => format!("in [{name}]"),
            };
            let nearest = self
                .known
                .iter()
                .map(|known| (strsim::jaro_winkler(key, known), known))
                .max_by(|one, other| one.0.total_cmp(&other.0));
            let help = match nearest {
                Some((similarity, known)) if similarity >= SIMILAR => {
                    format!("did you mean `{known}`?")
                }
                _ => format!("known are: {}", self.known.join(", ")),
            };
            self.problem(span.start, format!("unknown key `{key}` {place}; {help}"));
        }
    }

    fn problem(&self, offset: usize, message: String) {
        self.notes.borrow_mut().problems.push((offset, message));
    }

    fn full_name(&self, key: &str) -> String {
        match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }
}

/// A value as messages show it.
fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
