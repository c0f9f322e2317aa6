//! The labels file: which site is an example of which topic.
//!
//! One line for each host: host, tab, topic, and optionally tab and a group. Empty lines
//! and lines that begin with `#` are skipped. The topic `other`, and every topic that is
//! not the one being learned, form the other class.
//!
//! All mistakes are reported at once, each with its line. Two lines for one site are merged with a
//! remark if they agree; contradictory ones are a mistake.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::config::TopicDefinition;
use crate::web::SiteId;

/// A labelled site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    pub(crate) site: SiteId,
    /// The topic it is an example of.
    pub(crate) topic: String,
    /// Sites of one group share an owner, a designer or a text, and are never split across folds of
    /// a cross-validation. A site without a group is its own.
    pub(crate) group: String,
}

/// The labels of a file, one for each site, in the order of their hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// One for each site, by host.
    pub labels: Vec<Label>,
    /// Warnings for the user.
    pub(crate) remarks: Vec<String>,
}

/// What is wrong with a labels file, line by line.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the labels cannot be used:\n{}", .0.join("\n"))]
pub struct LabelsError(pub(crate) Vec<String>);

impl Labels {
    /// Labels of sites, each in a group of its own.
    pub fn of<'a>(sites: impl IntoIterator<Item = (SiteId, &'a str)>) -> Self {
        let labels = sites.into_iter().map(|(site, topic)| {
            let label = Label {
                group: site.to_string(),
                topic: topic.to_owned(),
                site,
            };
            (label.site.clone(), label)
        });
        let labels: BTreeMap<SiteId, Label> = labels.collect();
        Self {
            labels: labels.into_values().collect(),
            remarks: Vec::new(),
        }
    }

    /// Labels of sites of no topic, those of one owner in one group.
    #[must_use]
    pub(crate) fn by_owner(sites: impl IntoIterator<Item = SiteId>) -> Self {
        let mut labels = Self::of(sites.into_iter().map(|site| (site, OTHER)));
        for label in &mut labels.labels {
            label.group = label.site.registrable_domain().to_owned();
        }
        labels
    }

    /// Parses a labels file.
    pub fn parse(text: &str) -> Result<Self, LabelsError> {
        let mut collected = Collected::default();
        collected.add_file("", text);
        collected.finish()
    }

    /// Parses labels files, each with its name, as one: also a line of one that contradicts a line of
    /// another is a mistake.
    pub(crate) fn parse_all(files: &[(String, String)]) -> Result<Self, LabelsError> {
        let mut collected = Collected::default();
        for (name, text) in files {
            collected.add_file(&format!("{name} "), text);
        }
        collected.finish()
    }

    /// The labels of a topic definition.
    pub(crate) fn of_topic(topic: &TopicDefinition) -> Result<Self, LabelsError> {
        let mut collected = Collected::default();
        if !is_topic_name(&topic.name) || topic.name == OTHER {
            collected.mistakes.push(not_a_topic_name(&topic.name));
        }
        for host in &topic.start_sites {
            if let Err(error) = host.parse::<SiteId>() {
                collected.mistakes.push(format!("start_sites: {error}"));
            }
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

    /// Applies the decisions of editors: accepted sites become examples of the topic, rejected ones
    /// of the other class. A decision overrides a label; groups stay as they are.
    #[must_use]
    pub(crate) fn with_decisions(
        self,
        topic: &str,
        decisions: impl IntoIterator<Item = (SiteId, bool)>,
    ) -> Self {
        let labels = self.labels.into_iter();
        let mut labels: BTreeMap<SiteId, Label> =
            labels.map(|label| (label.site.clone(), label)).collect();
        let mut remarks = self.remarks;
        for (site, is_accepted) in decisions {
            let class = if is_accepted { topic } else { OTHER };
            let label = labels.entry(site.clone()).or_insert_with(|| Label {
                group: site.to_string(),
                topic: class.to_owned(),
                site: site.clone(),
            });
            let was_target = label.topic == topic;
            if was_target != is_accepted {
                remarks.push(format!(
                    "{site} was labelled `{}`; the decision of an editor overrides it",
                    label.topic
                ));
                class.clone_into(&mut label.topic);
            }
        }
        Self {
            labels: labels.into_values().collect(),
            remarks,
        }
    }

    /// Adds the labels of sites that have none yet.
    #[must_use]
    pub(crate) fn with_further(self, further: Self) -> Self {
        let by_site = |label: Label| (label.site.clone(), label);
        let mut labels: BTreeMap<SiteId, Label> = further.labels.into_iter().map(by_site).collect();
        labels.extend(self.labels.into_iter().map(by_site));
        Self {
            labels: labels.into_values().collect(),
            remarks: [self.remarks, further.remarks].concat(),
        }
    }

    /// All topics but `other`, in alphabetical order.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        let topics = self.labels.iter().map(|label| label.topic.as_str());
        let mut topics: Vec<&str> = topics.filter(|topic| *topic != OTHER).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

/// The topic of sites that are examples of no topic.
pub(crate) const OTHER: &str = "other";

/// Labels being collected, and the mistakes in them.
#[derive(Default)]
struct Collected {
    sites: BTreeMap<SiteId, Found>,
    remarks: Vec<String>,
    mistakes: Vec<String>,
    /// Groups that share a site and are merged: the second name replaces the first.
    joined: Vec<(String, String)>,
}

/// A label and where it was found.
struct Found {
    topic: String,
    group: Option<String>,
    place: String,
}

impl Collected {
    /// Adds the lines of a file; `place` comes before their numbers in mistakes and remarks.
    fn add_file(&mut self, place: &str, text: &str) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim_end();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let place = format!("{place}line {line}");
            match parse_line(content) {
                Ok((site, topic, group)) => self.add(&place, site, topic, group),
                Err(mistake) => self.mistakes.push(format!("{place}: {mistake}")),
            }
        }
    }

    fn add(&mut self, place: &str, site: SiteId, topic: &str, group: Option<&str>) {
        let found = Found {
            topic: topic.to_owned(),
            group: group.map(str::to_owned),
            place: place.to_owned(),
        };
        let Some(first) = self.sites.get_mut(&site) else {
            self.sites.insert(site, found);
            return;
        };
        let at = &first.place;
        if first.topic != topic {
            self.mistakes.push(format!(
                "{place}: {site} is `{topic}` here and `{}` in {at}; keep one of them",
                first.topic
            ));
            return;
        }
        self.remarks.push(format!(
            "{place}: {site} is labelled in {at} already; both are one site"
        ));
        match (&first.group, found.group) {
            (Some(one), Some(other)) => self.joined.push((other, one.clone())),
            (None, group) => first.group = group,
            (Some(_), None) => {}
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

    fn finish(mut self) -> Result<Labels, LabelsError> {
        for at in 0..self.joined.len() {
            let (name, replacement) = self.joined[at].clone();
            let groups = self.sites.values_mut().map(|found| &mut found.group);
            for group in groups.filter(|group| group.as_deref() == Some(&*name)) {
                *group = Some(replacement.clone());
            }
            for (_, other) in self.joined.iter_mut().filter(|(_, other)| *other == name) {
                other.clone_from(&replacement);
            }
        }
        if !self.mistakes.is_empty() {
            return Err(LabelsError(self.mistakes));
        }
        let label = |(site, found): (SiteId, Found)| Label {
            group: found.group.unwrap_or_else(|| site.to_string()),
            site,
            topic: found.topic,
        };
        Ok(Labels {
            labels: self.sites.into_iter().map(label).collect(),
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
    format!(
        "`{name}` cannot be the name of a topic: letters, digits, `_`, `-` and `.` can, but not \
         `all`, `mean` or what begins with a dot"
    )
}

/// Whether a text can name a topic, and with it a directory.
#[must_use]
pub(crate) fn is_topic_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    // Commands and tables use these words for something else.
    let is_taken = matches!(name, "all" | "mean");
    !is_taken
        && !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('.')
        && name.chars().all(is_allowed)
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
        topic.start_sites = list(&["..", "a.example"]);
        topic.other_sites.push(list(&["b.example", ".."]));
        topic.name = OTHER.to_owned();
        let LabelsError(mistakes) = Labels::of_topic(&topic).unwrap_err();
        assert_eq!(mistakes.len(), 3, "{mistakes:?}");
    }

    #[test]
    fn lines_for_one_site_are_merged_with_a_remark() {
        let labels = Labels::parse("www.a.example\tx\na.example\tx\n").unwrap();
        assert_eq!(labels.labels.len(), 1);
        assert_eq!(
            labels.remarks,
            ["line 2: a.example is labelled in line 1 already; both are one site"]
        );
    }

    #[test]
    fn files_that_contradict_each_other_are_a_mistake_of_both() {
        let files = |second: &str| {
            let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
            [
                file("a.tsv", "# sites\na.example\tx\tclubs\nb.example\tother\n"),
                file("b.tsv", second),
            ]
        };
        let LabelsError(mistakes) =
            Labels::parse_all(&files("c.example\tx\nb.example\tx\n")).unwrap_err();
        assert_eq!(
            mistakes,
            ["b.tsv line 2: b.example is `x` here and `other` in a.tsv line 3; keep one of them"]
        );
        let merged = Labels::parse_all(&files("c.example\tx\tclubs\na.example\tx\n")).unwrap();
        let groups: Vec<(&str, &str)> = (merged.labels.iter())
            .map(|label| (label.site.as_str(), &*label.group))
            .collect();
        assert_eq!(
            groups,
            [
                ("a.example", "clubs"),
                ("b.example", "b.example"),
                ("c.example", "clubs")
            ]
        );
        assert_eq!(
            merged.remarks,
            ["b.tsv line 2: a.example is labelled in a.tsv line 2 already; both are one site"]
        );
    }

    #[test]
    fn a_merged_site_keeps_its_group() {
        let labels = Labels::parse("a.example\tx\nwww.a.example\tx\tclubs\n").unwrap();
        assert_eq!(labels.labels[0].group, "clubs");
        // Two groups that share a site are one.
        let text = "a.example\tx\tone\nwww.a.example\tx\ttwo\nb.example\ty\ttwo\nc.example\ty\n";
        let labels = Labels::parse(text).unwrap().labels;
        let groups: Vec<&str> = labels.iter().map(|label| &*label.group).collect();
        assert_eq!(groups, ["one", "one", "c.example"]);
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
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
