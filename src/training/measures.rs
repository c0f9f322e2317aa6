//! Quality of verdicts on sites whose class is known.

use crate::web::SiteConfidence;

/// Bins of the calibration table.
const BINS: usize = 10;

/// A verdict on a site whose class is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcome {
    /// Whether the verdict is relevant; undecided counts as not.
    pub(crate) is_relevant: bool,
    pub(crate) confidence: SiteConfidence,
    /// Whether the site belongs to the topic.
    pub(crate) is_target: bool,
    /// Pages read for the verdict.
    pub(crate) pages: usize,
}

/// Sums over verdicts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    found: f64,
    false_finds: f64,
    missed: f64,
    sites: f64,
    pages: f64,
    squared_error: f64,
    bins: [Bin; BINS],
    /// The part of the bins that are sites of which no page spoke.
    mute: Bin,
}

/// Sites whose confidence fell into one range.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bin {
    pub(crate) sites: f64,
    /// The sum of their confidences.
    pub(crate) confidences: f64,
    /// How many of them are targets.
    pub(crate) targets: f64,
}

impl Measures {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        let confidence = outcome.confidence.get();
        let truth = f64::from(u8::from(outcome.is_target));
        match (outcome.is_relevant, outcome.is_target) {
            (true, true) => self.found += 1.0,
            (true, false) => self.false_finds += 1.0,
            (false, true) => self.missed += 1.0,
            (false, false) => {}
        }
        self.sites += 1.0;
        self.pages += count(outcome.pages);
        self.squared_error += (confidence - truth).powi(2);
        let of_site = Bin {
            sites: 1.0,
            confidences: confidence,
            targets: truth,
        };
        self.bins[bin_of(confidence)].merge(&of_site);
        if outcome.is_mute() {
            self.mute.merge(&of_site);
        }
    }

    /// Of the sites found relevant, how many are; 1 if none was found.
    #[must_use]
    pub(crate) fn precision(&self) -> f64 {
        ratio(self.found, self.found + self.false_finds, 1.0)
    }

    /// Of the target sites, how many were found; 1 if there are none.
    #[must_use]
    pub(crate) fn recall(&self) -> f64 {
        ratio(self.found, self.found + self.missed, 1.0)
    }

    /// The harmonic mean of precision and recall.
    #[must_use]
    pub(crate) fn f_measure(&self) -> f64 {
        let wrong = self.false_finds + self.missed;
        ratio(2.0 * self.found, 2.0 * self.found + wrong, 1.0)
    }

    /// The mean number of pages a verdict took.
    #[must_use]
    pub fn pages_per_site(&self) -> f64 {
        ratio(self.pages, self.sites, 0.0)
    }

    /// The mean squared distance of the confidence from the truth; 0 is perfect.
    #[must_use]
    pub(crate) fn brier(&self) -> f64 {
        ratio(self.squared_error, self.sites, 0.0)
    }

    /// Expected calibration error: |mean confidence − share of targets| in each bin, averaged over
    /// sites.
    #[must_use]
    pub fn calibration_error(&self) -> f64 {
        let gaps = self
            .bins
            .iter()
            .map(|bin| (bin.confidences - bin.targets).abs());
        ratio(gaps.sum(), self.sites, 0.0)
    }

    /// The calibration table: ten ranges of confidence, from 0 upwards.
    #[must_use]
    pub(crate) fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// The sites of which no page spoke, and the calibration table of the others: the confidence of a
    /// mute site says nothing about how reliable confidences are.
    #[must_use]
    pub(crate) fn mute_and_speaking(&self) -> (Bin, [Bin; BINS]) {
        let mut speaking = self.bins;
        let bin = &mut speaking[bin_of(SiteConfidence::NEUTRAL.get())];
        bin.sites -= self.mute.sites;
        bin.confidences -= self.mute.confidences;
        bin.targets -= self.mute.targets;
        (self.mute, speaking)
    }

    /// Adds the verdicts of another measurement.
    pub(crate) fn merge(&mut self, other: &Self) {
        let Self {
            found,
            false_finds,
            missed,
            sites,
            pages,
            squared_error,
            bins,
            mute,
        } = other;
        self.found += found;
        self.false_finds += false_finds;
        self.missed += missed;
        self.sites += sites;
        self.pages += pages;
        self.squared_error += squared_error;
        for (bin, more) in self.bins.iter_mut().zip(bins) {
            bin.merge(more);
        }
        self.mute.merge(mute);
    }
}

// === impl Bin ===

impl Bin {
    fn merge(&mut self, other: &Self) {
        self.sites += other.sites;
        self.confidences += other.confidences;
        self.targets += other.targets;
    }
}

// === impl Outcome ===

impl Outcome {
    /// A page that spoke leaves a site exactly at 1/2 only if its classifier learned nothing.
    fn is_mute(&self) -> bool {
        !self.is_relevant && self.confidence == SiteConfidence::NEUTRAL
    }
}

fn bin_of(confidence: f64) -> usize {
    let bin = (0..BINS).find(|bin| confidence < count(bin + 1) / count(BINS));
    bin.unwrap_or(BINS - 1)
}

fn ratio(part: f64, whole: f64, of_nothing: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        of_nothing
    }
}

/// A number of sites or pages, for arithmetic.
#[allow(clippy::cast_precision_loss, reason = "no corpus has 2^53 pages")]
pub(super) fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(confidence: f64, is_target: bool, pages: usize) -> Outcome {
        Outcome {
            is_relevant: confidence > 0.5,
            confidence: SiteConfidence::new(confidence).unwrap(),
            is_target,
            pages,
        }
    }

    /// By hand: two of three targets found, one false find. Precision 2/3, recall 2/3, F 2/3;
    /// Brier (0.01 + 0.04 + 0.64 + 0.81 + 0.01) / 5 = 0.302; calibration error: bin 0.9 holds
    /// two sites of 0.9, one of them a target (gap 0.8), 0.8 one target (0.2), 0.2 one
    /// target (0.8), 0.1 no target (0.1): 1.9 / 5 = 0.38.
    #[test]
    fn five_verdicts_by_hand() {
        let mut measures = Measures::default();
        for (confidence, is_target, pages) in [
            (0.9, true, 1),
            (0.8, true, 2),
            (0.2, true, 3),
            (0.9, false, 4),
            (0.1, false, 2),
        ] {
            measures.add(&outcome(confidence, is_target, pages));
        }
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        close(measures.precision(), 2.0 / 3.0);
        close(measures.recall(), 2.0 / 3.0);
        close(measures.f_measure(), 2.0 / 3.0);
        close(measures.pages_per_site(), 12.0 / 5.0);
        close(measures.brier(), 0.302);
        close(measures.calibration_error(), 0.38);
        close(measures.bins()[9].sites, 2.0);
        let mut twice = measures.clone();
        twice.merge(&measures);
        close(twice.sites, 10.0);
        close(twice.f_measure(), measures.f_measure());
    }

    #[test]
    fn mute_sites_are_counted_apart() {
        let mut measures = Measures::default();
        for (confidence, is_target) in [(0.5, false), (0.5, true), (0.55, true)] {
            measures.add(&outcome(confidence, is_target, 1));
        }
        let once = measures.clone();
        measures.merge(&once);
        let (mute, speaking) = measures.mute_and_speaking();
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        close(mute.sites, 4.0);
        close(mute.targets, 2.0);
        close(speaking[5].sites, 2.0);
        close(speaking[5].confidences, 1.1);
        close(speaking[5].targets, 2.0);
        close(measures.bins()[5].sites, 6.0);
    }

    #[test]
    fn nothing_measured_is_nothing_wrong() {
        let none = Measures::default();
        assert!((none.f_measure() - 1.0).abs() < 1e-12);
        assert!(none.brier().abs() < 1e-12 && none.pages_per_site().abs() < 1e-12);
    }
}
