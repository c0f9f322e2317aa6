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
        let mut collected = Collected::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim_end();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let place = format!("line {line}");
            match parse_line(content) {
                Ok((site, topic, group)) => collected.add(&place, site, topic, group),
                Err(mistake) => collected.mistakes.push(format!("{place}: {mistake}")),
            }
        }
        collected.finish()
    }

    /// The labels of a topic definition.
    pub fn of_topic(topic: &TopicDefinition) -> Result<Self, LabelsError> {
        let mut collected = Collected::default();
        if !is_topic_name(&topic.name) || topic.name == OTHER {
            collected.mistakes.push(not_a_topic_name(&topic.name));
        }
        let classes = [
            ("target_sites", &*topic.name, &topic.target_sites),
            ("other_sites", OTHER, &topic.other_sites),
        ];
        for (place, class, groups) in classes {
            for group in groups {
                collected.add_group(place, class, group);
            }
        }
        collected.finish()
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

/// Labels as they come in, and what is wrong with them.
#[derive(Default)]
struct Collected {
    /// Each with the place it was found at.
    sites: BTreeMap<SiteId, (Label, String)>,
    remarks: Vec<String>,
    mistakes: Vec<String>,
}

impl Collected {
    fn add(&mut self, place: &str, site: SiteId, topic: &str, group: Option<&str>) {
        match self.sites.get(&site) {
            None => {
                let label = Label {
                    group: group.map_or_else(|| site.to_string(), str::to_owned),
                    site: site.clone(),
                    topic: topic.to_owned(),
                };
                self.sites.insert(site, (label, place.to_owned()));
            }
            Some((first, at)) if first.topic == topic => self.remarks.push(format!(
                "{place}: {site} is labelled in {at} already; both are one site"
            )),
            Some((first, at)) => self.mistakes.push(format!(
                "{place}: {site} is `{topic}` here and `{}` in {at}; keep one of them",
                first.topic
            )),
        }
    }

    fn add_group(&mut self, place: &str, topic: &str, hosts: &[String]) {
        let group = hosts.first().map(String::as_str);
        for host in hosts {
            match host.parse() {
                Ok(site) => self.add(place, site, topic, group),
                Err(error) => self.mistakes.push(format!("{place}: {error}")),
            }
        }
    }

    fn finish(self) -> Result<Labels, LabelsError> {
        if !self.mistakes.is_empty() {
            return Err(LabelsError(self.mistakes));
        }
        Ok(Labels {
            labels: self.sites.into_values().map(|(label, _)| label).collect(),
            remarks: self.remarks,
        })
    }
}

/// Site, topic and group of a line.
fn parse_line(content: &str) -> Result<(SiteId, &str, Option<&str>), String> {
    let fields: Vec<&str> = content.split('\t').map(str::trim).collect();
    let (host, topic, group) = match fields.as_slice() {
        [host, topic] => (host, topic, None),
        [host, topic, group] => (host, topic, Some(*group).filter(|group| !group.is_empty())),
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
    let site = host.parse().map_err(|error| format!("{error}"))?;
    Ok((site, topic, group))
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
            .map(|label| (label.site.as_str(), &*label.topic, &*label.group))
            .collect();
        assert_eq!(
            found,
            [
                ("a.example", "other", "a.example"),
                ("b.example", "sailing", "clubs")
            ]
        );
        assert_eq!(labels.topics(), ["sailing"]);
        assert!(labels.remarks.is_empty());
    }

    #[test]
    fn topic_files_are_labels_too() {
        let list = |hosts: &[&str]| {
            hosts
                .iter()
                .map(|host| (*host).to_owned())
                .collect::<Vec<_>>()
        };
        let mut topic = TopicDefinition {
            name: "x".to_owned(),
            target_sites: vec![list(&["a.example", "www.b.example"]), list(&["c.example"])],
            other_sites: vec![list(&["d.example"])],
            ..TopicDefinition::default()
        };
        let labels = Labels::of_topic(&topic).unwrap().labels;
        let groups: Vec<&str> = labels.iter().map(|label| &*label.group).collect();
        assert_eq!(groups, ["a.example", "a.example", "c.example", "d.example"]);
        topic.other_sites.push(list(&["b.example", ".."]));
        topic.name = OTHER.to_owned();
        let LabelsError(mistakes) = Labels::of_topic(&topic).unwrap_err();
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
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
