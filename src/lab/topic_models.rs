//! The models with which orderings are compared: one, unless an ordering needs another.

use std::sync::Arc;

use crate::classify::{ExampleSite, Lexicon, SiteModel};
use crate::config::{ExternalSettings, PageClassifierChoice, Strategy, TrainingSettings};
use crate::external::{BorderOrdering, ordering};
use crate::training::fit_model;

/// Models of one topic, trained on the same sites with each page classifier that is needed.
pub(crate) struct TopicModels {
    /// With the page classifier of the settings.
    usual: Arc<SiteModel>,
    /// With those that orderings require.
    others: Vec<(PageClassifierChoice, Arc<SiteModel>)>,
}

// === impl TopicModels ===

impl TopicModels {
    /// Trains a model for each page classifier that is needed.
    #[must_use]
    pub(crate) fn fit(
        topic: &str,
        lexicon: &Lexicon,
        examples: &[ExampleSite<'_>],
        settings: &TrainingSettings,
    ) -> Self {
        let by = |page_classifier| {
            let settings = TrainingSettings {
                page_classifier,
                ..*settings
            };
            Arc::new(fit_model(topic, lexicon, examples, &settings).0)
        };
        let mut others: Vec<(PageClassifierChoice, Arc<SiteModel>)> = Vec::new();
        for needed in Strategy::ALL.into_iter().filter_map(needed_by) {
            let is_known = others.iter().any(|(known, _)| *known == needed);
            if needed != settings.page_classifier && !is_known {
                others.push((needed, by(needed)));
            }
        }
        Self {
            usual: by(settings.page_classifier),
            others,
        }
    }

    pub(super) fn of(&self, ordering: &dyn BorderOrdering) -> Arc<SiteModel> {
        let needed = ordering.page_classifier();
        let other = self.others.iter().find(|(by, _)| Some(*by) == needed);
        Arc::clone(other.map_or(&self.usual, |(_, model)| model))
    }
}

fn needed_by(strategy: Strategy) -> Option<PageClassifierChoice> {
    let settings = ExternalSettings {
        strategy,
        ..ExternalSettings::default()
    };
    ordering(&settings).page_classifier()
}
