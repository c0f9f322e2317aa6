//! The definition of a topic by its user: `topic.toml`.
//!
//! ```toml
//! name = "sailing"
//! description = "Sailing clubs and sailing schools"
//! start_sites = ["harbour-sailing.example"]
//! wanted = 500
//! p_threshold = 0.95
//!
//! [training]
//! target_sites = ["gulls-dinghy.example", ["2024.regatta.example", "2025.regatta.example"]]
//! other_sites = ["bakery-krume.example", "village-library.example"]
//! ```
//!
//! Sites that share an owner or a text form a nested list: a group.

use super::problem::ConfigError;
use super::section;
use super::value::{groups_of_texts, number, text, texts, whole_number};

/// A topic as its user defines it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicDefinition {
    /// Names the topic and its directory.
    pub name: String,
    /// Shown to people.
    pub description: String,
    /// The sites that a crawl starts from.
    pub start_sites: Vec<String>,
    /// A crawl ends when this many relevant sites are found.
    pub(crate) wanted: Option<u64>,
    /// The site confidence at which a verdict is reached; overrides that of the model.
    pub(crate) p_threshold: Option<f64>,
    /// Examples of the topic, by group.
    pub target_sites: Vec<Vec<String>>,
    /// Examples of everything else, by group.
    pub other_sites: Vec<Vec<String>>,
}

impl TopicDefinition {
    /// Parses a topic file. All problems are reported at once, in the order of the text.
    pub fn parse(content: &str) -> Result<Self, ConfigError> {
        section::read(content, |top| {
            let name = top.required("name", text);
            let description = top.value("description", String::new(), text);
            let start_sites = top.value("start_sites", Vec::new(), texts);
            let wanted = top.value("wanted", None, |value| {
                whole_number(1..=usize::MAX)(value).map(|wanted| Some(wanted as u64))
            });
            let p_threshold = top.value("p_threshold", None, |value| {
                number(0.5..=0.999_999)(value).map(Some)
            });
            let (target_sites, other_sites) = top.section("training", |training| {
                (
                    training.value("target_sites", Vec::new(), groups_of_texts),
                    training.value("other_sites", Vec::new(), groups_of_texts),
                )
            });
            Self {
                name,
                description,
                start_sites,
                wanted,
                p_threshold,
                target_sites,
                other_sites,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_and_groups_of_sites() {
        let topic = TopicDefinition::parse(
            "name = \"sailing\"\nstart_sites = [\"a.example\"]\n[training]\n\
             target_sites = [\"b.example\", [\"c.example\", \"d.example\"]]\nother_sites = []\n",
        );
        let topic = topic.unwrap();
        assert_eq!(topic.name, "sailing");
        assert_eq!(topic.start_sites, ["a.example"]);
        assert_eq!(
            topic.target_sites,
            [vec!["b.example"], vec!["c.example", "d.example"]]
        );
        assert!(topic.other_sites.is_empty());
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let error = TopicDefinition::parse("start = []\n[training]\ntarget_sites = [1]\n");
        let problems: Vec<String> = error
            .unwrap_err()
            .0
            .iter()
            .map(ToString::to_string)
            .collect();
        let wanted = [
            "1:1: `name` is missing",
            "1:1: unknown key `start` at the top of the file; did you mean `start_sites`?",
            "3:16: `training.target_sites` must be a list of texts, or of lists of texts that \
             belong together, not a list",
        ];
        assert_eq!(problems, wanted);
    }
}
