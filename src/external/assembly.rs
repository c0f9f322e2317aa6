//! Builds a crawl, for commands, daemon and lab alike.
//!
//! A [`TopicCrawl`] combines settings and a model, and rejects a model that its ordering cannot work
//! with. Opened with a store, a fetcher and slots it becomes an [`ExternalCrawler`].
//!
//! Invariant: nothing else creates an external crawler, so that a strategy means the same
//! everywhere.

use std::sync::Arc;

use thiserror::Error;

use crate::classify::SiteModel;
use crate::config::{PageClassifierChoice, Settings};
use crate::fetch::Fetcher;
use crate::internal::InternalCrawler;
use crate::parse::ParseLimits;
use crate::store::{CrawlStore, StoreError};

use super::{BorderOrdering, CrawlMetrics, CrawlerSlots, ExternalCrawler, Goals, ordering};

/// A topic to crawl for, with its model, ordering, goals and settings.
#[derive(Clone)]
pub struct TopicCrawl {
    pub(super) name: String,
    model: Arc<SiteModel>,
    pub(super) ordering: Arc<dyn BorderOrdering>,
    pub(super) goals: Goals,
    pub(super) settings: Arc<Settings>,
}

/// An ordering cannot work with the page classifier of a model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the strategy `{ordering}` needs the page classifier `{needed}`, and the model of `{topic}` has \
     `{found}`: run `sitescout train {topic} --page-classifier {needed}`, with the sites that it was \
     learned from, or set another `strategy` in [external]"
)]
pub struct UnfitModel {
    ordering: String,
    topic: String,
    needed: &'static str,
    found: String,
}

// === impl TopicCrawl ===

impl TopicCrawl {
    /// A crawl by the strategy of the settings, without goals.
    pub fn new(name: &str, model: Arc<SiteModel>, settings: &Settings) -> Result<Self, UnfitModel> {
        Self::by(ordering(&settings.external), name, model, settings)
    }

    /// A crawl by an ordering that settings cannot name.
    pub fn by(
        ordering: Arc<dyn BorderOrdering>,
        name: &str,
        model: Arc<SiteModel>,
        settings: &Settings,
    ) -> Result<Self, UnfitModel> {
        check_page_classifier(&*ordering, name, model.pages().name())?;
        Ok(Self {
            name: name.to_owned(),
            model,
            ordering,
            goals: Goals::default(),
            settings: Arc::new(settings.clone()),
        })
    }

    /// Sets when the crawl ends.
    #[must_use]
    pub fn with_goals(self, goals: Goals) -> Self {
        Self { goals, ..self }
    }

    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub(crate) fn model(&self) -> &Arc<SiteModel> {
        &self.model
    }

    #[must_use]
    pub(crate) fn goals(&self) -> Goals {
        self.goals
    }

    /// Opens the topic in the store and joins the slots.
    pub async fn open(
        self,
        store: Arc<dyn CrawlStore>,
        fetcher: Arc<dyn Fetcher>,
        metrics: &CrawlMetrics,
        slots: &Arc<CrawlerSlots>,
    ) -> Result<ExternalCrawler, StoreError> {
        let parse = &self.settings.parse;
        let limits = ParseLimits {
            max_links: parse.max_links,
            max_url_bytes: parse.max_url_bytes,
        };
        let model = Arc::clone(&self.model);
        let settings = self.settings.internal;
        let pages = self.ordering.page_ordering();
        let crawler = InternalCrawler::new(fetcher, model, settings, limits, pages);
        ExternalCrawler::open(self, store, crawler, metrics, slots).await
    }
}

/// Rejects a page classifier that an ordering cannot work with.
pub(crate) fn check_page_classifier(
    ordering: &dyn BorderOrdering,
    topic: &str,
    found: &str,
) -> Result<(), UnfitModel> {
    let needed = ordering.page_classifier().map(PageClassifierChoice::name);
    match needed.filter(|needed| *needed != found) {
        None => Ok(()),
        Some(needed) => Err(UnfitModel {
            ordering: ordering.name().to_owned(),
            topic: topic.to_owned(),
            needed,
            found: found.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExternalSettings, Strategy};

    #[test]
    fn a_page_classifier_is_refused_by_the_paper_alone_and_the_command_is_named() {
        for strategy in Strategy::ALL {
            let ordering = ordering(&ExternalSettings {
                strategy,
                ..ExternalSettings::default()
            });
            let check = |found| check_page_classifier(&*ordering, "sailing", found);
            assert_eq!(check("centroid"), Ok(()), "{strategy:?}");
            match (strategy, check("linear")) {
                (Strategy::Paper, Err(refused)) => {
                    let command = "`sitescout train sailing --page-classifier centroid`";
                    assert!(refused.to_string().contains(command), "{refused}");
                }
                (_, checked) => assert_eq!(checked, Ok(()), "{strategy:?}"),
            }
        }
    }
}
