//! Pages as vectors of length one.

/// A feature: the index of a term in a vocabulary.
pub(crate) type Feature = u32;

/// The input of a classifier: the weights of a page's features, by ascending feature.
///
/// Invariant: the length is 1, or 0 if the page has no feature.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PageVector {
    entries: Vec<(Feature, f32)>,
}

impl PageVector {
    /// Normalises weights, which must be sorted by feature, to length one.
    #[must_use]
    pub(crate) fn normalised(mut entries: Vec<(Feature, f32)>) -> Self {
        debug_assert!(
            entries.is_sorted_by(|one, other| one.0 < other.0),
            "features ascend"
        );
        let squares = entries.iter().map(|(_, weight)| f64::from(weight * weight));
        let length = squares.sum::<f64>().sqrt();
        if length > 0.0 {
            for (_, weight) in &mut entries {
                *weight = narrow(f64::from(*weight) / length);
            }
        }
        Self { entries }
    }

    /// The sum of several pages, normalised.
    #[must_use]
    pub(crate) fn sum<'a>(pages: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut entries: Vec<(Feature, f32)> = pages
            .into_iter()
            .flat_map(|page| page.entries.iter().copied())
            .collect();
        entries.sort_by_key(|(feature, _)| *feature);
        entries.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                first.1 += later.1;
            }
            is_same
        });
        Self::normalised(entries)
    }

    /// The features the page has, with their weights.
    #[must_use]
    pub(crate) fn entries(&self) -> &[(Feature, f32)] {
        &self.entries
    }

    /// Number of terms of the page that are in the vocabulary.
    #[must_use]
    pub(crate) fn known_terms(&self) -> usize {
        self.entries.len()
    }

    /// The dot product with a weight for each feature.
    #[must_use]
    pub(crate) fn dot(&self, weights: &[f32]) -> f64 {
        let products = self
            .entries
            .iter()
            .map(|(feature, weight)| f64::from(*weight) * f64::from(weights[*feature as usize]));
        products.sum()
    }
}

/// Model files hold single precision: double would not judge better.
#[allow(clippy::cast_possible_truncation, reason = "rounding is intended")]
pub(super) fn narrow(number: f64) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one() {
        let vector = PageVector::normalised(vec![(1, 3.0), (4, 4.0)]);
        assert_eq!(vector.entries(), [(1, 0.6), (4, 0.8)]);
        assert!((vector.dot(&[9.0, 1.0, 9.0, 9.0, 0.5]) - 1.0).abs() < 1e-6);
        assert_eq!(PageVector::normalised(Vec::new()).known_terms(), 0);
        let apart = [vec![(0, 1.0)], vec![(1, 1.0)], vec![(1, 1.0)]].map(PageVector::normalised);
        let wanted = PageVector::normalised(vec![(0, 1.0), (1, 2.0)]);
        assert_eq!(PageVector::sum(&apart), wanted);
    }
}
