//! Which site is an example of which topic: the labels file.
//!
//! One line for each host: host, tab, topic, and optionally tab and a group. Empty lines
//! and lines that begin with `#` are skipped. The topic `other`, and every topic that is
//! not the one being learned, form the other class.
//!
//! All mistakes are told at once, each with its line. Two spellings of one site are merged
//! if they agree, and told about; if they contradict each other, somebody must decide.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::config::TopicDefinition;
use crate::web::SiteId;

/// A labelled site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The site.
    pub site: SiteId,
    /// The topic it is an example of.
    pub topic: String,
    /// Sites of one group share an owner, a designer or a text, and are never torn apart
    /// by a cross-validation. A site without a group is one of its own.
    pub group: String,
    /// The line it stands in; 0 if it comes from elsewhere.
    pub line: usize,
}

/// The labels of a file, one for each site, in the order of their hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// One for each site, by host.
    pub labels: Vec<Label>,
    /// What the user should know, but need not mend.
    pub remarks: Vec<String>,
}

/// What is wrong with a labels file, line by line.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the labels cannot be used:\n{}", .0.join("\n"))]
pub struct LabelsError(pub Vec<String>);

impl Labels {
    /// Reads the text of a labels file.
    pub fn parse(text: &str) -> Result<Self, LabelsError> {
        let mut sites: BTreeMap<SiteId, Label> = BTreeMap::new();
        let mut remarks = Vec::new();
        let mut mistakes = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim_end();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let label = match parse_line(content, line) {
                Ok(label) => label,
                Err(mistake) => {
                    mistakes.push(format!("line {line}: {mistake}"));
                    continue;
                }
            };
            match sites.get(&label.site) {
                None => {
                    sites.insert(label.site.clone(), label);
                }
                Some(first) if first.topic == label.topic => remarks.push(format!(
                    "line {line}: {} is labelled in line {} already; both are one site",
                    label.site, first.line
                )),
                Some(first) => mistakes.push(format!(
                    "line {line}: {} is `{}` here and `{}` in line {}; keep one of them",
                    label.site, label.topic, first.topic, first.line
                )),
            }
        }
        match mistakes.is_empty() {
            true => Ok(Self {
                labels: sites.into_values().collect(),
                remarks,
            }),
            false => Err(LabelsError(mistakes)),
        }
    }

    /// The labels of a topic definition.
    pub fn of_topic(topic: &TopicDefinition) -> Result<Self, LabelsError> {
        let mut mistakes = Vec::new();
        if !is_topic_name(&topic.name) || topic.name == OTHER {
            mistakes.push(not_a_topic_name(&topic.name));
        }
        let mut sites: BTreeMap<SiteId, Label> = BTreeMap::new();
        let mut remarks = Vec::new();
        let classes = [
            (&*topic.name, &topic.target_sites),
            (OTHER, &topic.other_sites),
        ];
        for (name, groups) in classes {
            for (host, group) in groups
                .iter()
                .flat_map(|group| group.iter().zip(group.first().into_iter().cycle()))
            {
                let site: SiteId = match host.parse() {
                    Ok(site) => site,
                    Err(error) => {
                        mistakes.push(format!("{error}"));
                        continue;
                    }
                };
                let label = Label {
                    site: site.clone(),
                    topic: name.to_owned(),
                    group: group.clone(),
                    line: 0,
                };
                match sites.insert(site.clone(), label) {
                    None => {}
                    Some(first) if first.topic == name => {
                        remarks.push(format!("{site} is listed twice"));
                    }
                    Some(_) => mistakes.push(format!(
                        "{site} is among the target sites and among the others; keep one of them"
                    )),
                }
            }
        }
        match mistakes.is_empty() {
            true => Ok(Self {
                labels: sites.into_values().collect(),
                remarks,
            }),
            false => Err(LabelsError(mistakes)),
        }
    }

    /// All topics but `other`, in the order of the alphabet.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        let topics = self.labels.iter().map(|label| label.topic.as_str());
        let mut topics: Vec<&str> = topics.filter(|topic| *topic != OTHER).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

/// The topic of sites that are examples of nothing in particular.
pub const OTHER: &str = "other";

fn parse_line(content: &str, line: usize) -> Result<Label, String> {
    let fields: Vec<&str> = content.split('\t').map(str::trim).collect();
    let (host, topic, group) = match fields.as_slice() {
        [host, topic] => (*host, *topic, None),
        [host, topic, group] => (
            *host,
            *topic,
            Some(*group).filter(|group| !group.is_empty()),
        ),
        _ => {
            return Err(format!(
                "expected a host, a tab, a topic, and optionally a tab and a group; found `{}`",
                content.escape_debug()
            ));
        }
    };
    if !is_topic_name(topic) {
        return Err(not_a_topic_name(topic));
    }
    let site: SiteId = host.parse().map_err(|error| format!("{error}"))?;
    Ok(Label {
        group: group.map_or_else(|| site.to_string(), str::to_owned),
        site,
        topic: topic.to_owned(),
        line,
    })
}

fn not_a_topic_name(name: &str) -> String {
    let name = name.escape_debug();
    format!("`{name}` cannot be the name of a topic: letters, digits, `_`, `-` and `.` can")
}

/// Whether a text can name a topic, and with it a directory.
#[must_use]
pub fn is_topic_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_topics_and_groups() {
        let text = "\u{feff}# comment\r\nb.example\tsailing\tclubs\r\n\nwww.a.example\tother\n";
        let labels = Labels::parse(text).unwrap();
        let found: Vec<_> = labels
            .labels
            .iter()
            .map(|label| {
                (
                    label.site.as_str(),
                    &*label.topic,
                    &*label.group,
                    label.line,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("a.example", "other", "a.example", 4),
                ("b.example", "sailing", "clubs", 2)
            ]
        );
        assert_eq!(labels.topics(), ["sailing"]);
        assert!(labels.remarks.is_empty());
    }

    #[test]
    fn spellings_of_one_site_are_merged_and_told() {
        let labels = Labels::parse("www.a.example\tx\na.example\tx\n").unwrap();
        assert_eq!(labels.labels.len(), 1);
        assert_eq!(
            labels.remarks,
            ["line 2: a.example is labelled in line 1 already; both are one site"]
        );
    }

    #[test]
    fn all_mistakes_are_told_with_their_lines() {
        let text = "a.example\tx\nwww.a.example\ty\nb.example\n..\tx\nc.example\t../x\n";
        let LabelsError(mistakes) = Labels::parse(text).unwrap_err();
        assert_eq!(mistakes.len(), 4, "{mistakes:?}");
        assert_eq!(
            mistakes[0],
            "line 2: a.example is `y` here and `x` in line 1; keep one of them"
        );
        assert!(
            mistakes[1].starts_with("line 3: expected a host, a tab"),
            "{mistakes:?}"
        );
        assert!(mistakes[2].starts_with("line 4: "), "{mistakes:?}");
        assert!(
            mistakes[3].contains("cannot be the name of a topic"),
            "{mistakes:?}"
        );
    }
}
