//! Writes the definition of a topic, and changes the sites in one that a person wrote.
//!
//! A change replaces the lists of sites alone: all other keys and comments stay as they are. No
//! serialiser does that, and a definition has few keys.

use std::fmt::Write;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::topic::TopicDefinition;

const TRAINING: &str = "training";

impl TopicDefinition {
    /// The text of a new file, without goals.
    #[must_use]
    pub(crate) fn to_toml(&self) -> String {
        let mut text = format!("name = {}\n", quoted(&self.name));
        if !self.description.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "description = {}", quoted(&self.description));
        }
        let _ = writeln!(
            text,
            "start_sites = {}",
            list(&as_groups(&self.start_sites))
        );
        text.push_str(&self.training_table());
        text
    }

    /// The text of a definition with the sites of this one; none if the text is written in a way that
    /// cannot be changed.
    #[must_use]
    pub(crate) fn with_own_sites(&self, text: &str) -> Option<String> {
        let old = Self::parse(text).ok()?;
        let wanted = Self {
            start_sites: self.start_sites.clone(),
            target_sites: self.target_sites.clone(),
            other_sites: self.other_sites.clone(),
            ..old.clone()
        };
        let file = DeTable::parse(text).ok()?;
        let top = file.get_ref();
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        if wanted.start_sites != old.start_sites {
            let sites = as_groups(&wanted.start_sites);
            changes.push(change(top, "start_sites", &sites, "name")?);
        }
        if let Some(training) = top
            .get(TRAINING)
            .and_then(|table| table.get_ref().as_table())
        {
            let lists = [
                (
                    "target_sites",
                    &wanted.target_sites,
                    &old.target_sites,
                    "other_sites",
                ),
                (
                    "other_sites",
                    &wanted.other_sites,
                    &old.other_sites,
                    "target_sites",
                ),
            ];
            for (key, wanted, old, beside) in lists {
                if wanted != old {
                    changes.push(change(training, key, wanted, beside)?);
                }
            }
        } else {
            changes.push((text.len()..text.len(), wanted.training_table()));
        }
        // From the end, so that the places before stay where they are.
        changes.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
        let mut result = text.to_owned();
        for (range, new) in changes {
            result.replace_range(range, &new);
        }
        (Self::parse(&result).ok()? == wanted).then_some(result)
    }

    fn training_table(&self) -> String {
        let mut table = format!(
            "\n[{TRAINING}]\ntarget_sites = {}\n",
            list(&self.target_sites)
        );
        if !self.other_sites.is_empty() {
            let _ = writeln!(table, "other_sites = {}", list(&self.other_sites));
        }
        table
    }
}

/// Where a list is to be written, and what: in place of the old one, or else after another key.
fn change(
    table: &DeTable<'_>,
    key: &str,
    sites: &[Vec<String>],
    beside: &str,
) -> Option<(Range<usize>, String)> {
    let place = |key: &str| table.get(key).map(Spanned::<DeValue<'_>>::span);
    if let Some(old) = place(key) {
        return Some((old, list(sites)));
    }
    let end = place(beside)?.end;
    Some((end..end, format!("\n{key} = {}", list(sites))))
}

fn as_groups(sites: &[String]) -> Vec<Vec<String>> {
    sites.iter().map(|site| vec![site.clone()]).collect()
}

/// One site or group a line.
fn list(groups: &[Vec<String>]) -> String {
    if groups.is_empty() {
        return "[]".to_owned();
    }
    let mut text = "[\n".to_owned();
    for group in groups {
        let quoted: Vec<String> = group.iter().map(|site| quoted(site)).collect();
        let item = match &quoted[..] {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {item},");
    }
    text.push(']');
    text
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(sites: &[&[&str]]) -> Vec<Vec<String>> {
        let group = |hosts: &&[&str]| hosts.iter().map(|host| (*host).to_owned()).collect();
        sites.iter().map(group).collect()
    }

    fn definition() -> TopicDefinition {
        TopicDefinition {
            name: "pottery".to_owned(),
            description: "pots, \"mugs\"\n\\ and more\u{7f}".to_owned(),
            start_sites: vec!["a.example".to_owned()],
            target_sites: groups(&[&["a.example", "b.a.example"], &["c.example"]]),
            other_sites: groups(&[&["d.example"]]),
            ..TopicDefinition::default()
        }
    }

    #[test]
    fn a_definition_is_read_back_as_it_was_written() {
        let mut written = definition();
        assert_eq!(
            TopicDefinition::parse(&written.to_toml()),
            Ok(written.clone())
        );
        written.other_sites.clear();
        written.description.clear();
        assert_eq!(TopicDefinition::parse(&written.to_toml()), Ok(written));
    }

    #[test]
    fn comments_and_other_keys_survive_a_change_of_sites() {
        let text = "# ours\nname = \"pottery\" # short\nwanted = 5\n\n[training]\n# of one owner\n\
                    target_sites = [\"x.example\"] # old\n# the end\n";
        let changed = definition().with_own_sites(text).unwrap();
        for kept in [
            "# ours\n",
            "wanted = 5\n",
            "# of one owner\n",
            "# short",
            "# the end\n",
        ] {
            assert!(changed.contains(kept), "{changed}");
        }
        let read = TopicDefinition::parse(&changed).unwrap();
        assert_eq!(read.start_sites, definition().start_sites);
        assert_eq!(read.target_sites, definition().target_sites);
        assert_eq!(read.other_sites, definition().other_sites);
        assert_eq!(read.wanted, Some(5));
        assert_eq!(definition().with_own_sites(&changed), Some(changed));
    }

    #[test]
    fn a_definition_without_training_sites_gets_a_table() {
        let changed = definition()
            .with_own_sites("name = \"x\"\nstart_sites = []")
            .unwrap();
        let read = TopicDefinition::parse(&changed).unwrap();
        assert_eq!((read.name.as_str(), read.other_sites.len()), ("x", 1));
        assert_eq!(definition().with_own_sites("name = 1"), None);
        // There is no place for a second list in an empty table.
        assert_eq!(
            definition().with_own_sites("name = \"x\"\n[training]\n"),
            None
        );
    }
}
