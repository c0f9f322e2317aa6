//! The paper's page classifier: the nearest of several centroids per class (4.3.1).
//!
//! A class has many kinds of page: home, contact, links, products. So the training pages of
//! each class are clustered by k-means, and a class is the set of its centroids, `CS_t` and
//! `CS_o`. The nearest centroid of each decides:
//!
//! ```text
//! d_k = (1 − cos(p, nearest of CS_k)) / 2        in [ε, 1 − ε]
//! Pr[p|k] = ln d_k / (ln d_t + ln d_o)
//! ```
//!
//! Deviations. The printed formula sums over an index that is a misprint; this reading
//! sums up to 1, grows with closeness, and is near 1/2 far from all centroids, as the
//! paper requires. It needs *half* the cosine distance: with the plain one, pages at
//! 0.9 and 1.0 would be certain. Vectors are projected to a few dimensions by latent
//! semantic analysis before they are clustered, which finds better clusters in a tenth of
//! the time, since linfa's k-means needs dense vectors. Pages are drawn by their weights, so
//! that sites count equally, not pages. The result is a score, calibrated on held-out sites like
//! that of any classifier before it becomes a confidence.

use linfa::DatasetBase;
use linfa::traits::Fit;
use linfa_clustering::KMeans;
use linfa_linalg::eigh::{EigSort, EighInto};
use linfa_linalg::qr::QRInto;
use ndarray::{Array1, Array2, ArrayView1, Axis};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256Plus;
use serde::{Deserialize, Serialize};

use crate::web::PageConfidence;

use super::linear::WeighedPage;
use super::vector::{Feature, PageVector, narrow};
use super::{Aspect, PageClassifier};

/// How a centroid classifier is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CentroidParams {
    /// Number of dimensions that pages are projected to.
    pub(crate) dimensions: usize,
    /// Maximum number of centroids of the target class.
    pub(crate) target_centroids: usize,
    /// Maximum number of centroids of the other class.
    pub(crate) other_centroids: usize,
    /// Random seed.
    pub(crate) seed: u64,
}

/// Distances are kept this far from 0 and 1, where the formula is undefined.
const EPSILON: f64 = 1e-6;

/// Maximum number of pages, evenly drawn, from which the projection and the centroids of each class
/// are learned: more take longer and change little.
const MAX_PAGES: usize = 1_500;

/// At most one centroid per this many pages, rounded up.
const PAGES_PER_CENTROID: usize = 4;

/// Power iterations of the randomised projection (Halko, Martinsson, Tropp: Finding
/// structure with randomness, 2011, algorithm 4.4).
const POWER_ITERATIONS: usize = 2;

/// The centroids of both classes, in the projected space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CentroidClassifier {
    pub(super) dimensions: usize,
    /// One row for each feature.
    pub(super) projection: Vec<f32>,
    /// One row for each centroid, of length 1.
    pub(super) target: Vec<f32>,
    pub(super) other: Vec<f32>,
}

/// Pr\[p|target\] of a page at these half cosine distances from the nearest centroids.
#[must_use]
pub(crate) fn log_distance_confidence(target: f64, other: f64) -> PageConfidence {
    let log = |distance: f64| distance.clamp(EPSILON, 1.0 - EPSILON).ln();
    let (target, other) = (log(target), log(other));
    PageConfidence::new(target / (target + other)).unwrap_or(PageConfidence::NEUTRAL)
}

// === impl CentroidClassifier ===

impl CentroidClassifier {
    /// Clusters the pages of each class.
    #[must_use]
    pub(crate) fn fit(pages: &[WeighedPage], features: usize, params: &CentroidParams) -> Self {
        let mut random = Xoshiro256Plus::seed_from_u64(params.seed);
        let projection = Projection::learn(pages, features, params.dimensions, &mut random);
        let cluster = |is_target: bool, max_clusters: usize| {
            let of_class = pages.iter().filter(|page| page.is_target == is_target);
            let drawn = draw(of_class).into_iter();
            let rows: Vec<Array1<f64>> = drawn.map(|page| projection.project(page)).collect();
            centroids(&rows, projection.dimensions(), max_clusters, params.seed)
        };
        Self {
            dimensions: projection.dimensions(),
            target: cluster(true, params.target_centroids),
            other: cluster(false, params.other_centroids),
            projection: projection
                .matrix
                .iter()
                .map(|value| narrow(*value))
                .collect(),
        }
    }

    /// Half cosine distances to the nearest centroid of the target and the other class.
    #[must_use]
    pub(crate) fn distances(&self, page: &PageVector) -> (f64, f64) {
        let page = self.project(page);
        let nearest = |centroids: &[f32]| {
            let closeness = self
                .nearest(centroids, &page)
                .map_or(0.0, |(_, cosine)| cosine);
            (1.0 - closeness) / 2.0
        };
        (nearest(&self.target), nearest(&self.other))
    }

    /// Whether the tables have the right length for `features` terms, and finite numbers.
    pub(super) fn is_sound(&self, features: usize) -> bool {
        let is_whole = |table: &[f32]| table.len().is_multiple_of(self.dimensions.max(1));
        let tables = [&self.projection, &self.target, &self.other];
        self.dimensions <= features
            && features.checked_mul(self.dimensions) == Some(self.projection.len())
            && tables.iter().all(|table| is_whole(table))
            && tables
                .iter()
                .all(|table| table.iter().all(|value| value.is_finite()))
    }

    /// The page in the projected space, length 1.
    fn project(&self, page: &PageVector) -> Vec<f64> {
        let mut point = vec![0_f64; self.dimensions];
        for (feature, weight) in page.entries() {
            for (sum, value) in point.iter_mut().zip(self.row(*feature)) {
                *sum += f64::from(*weight) * f64::from(*value);
            }
        }
        let length = point.iter().map(|value| value * value).sum::<f64>().sqrt();
        if length > 0.0 {
            for value in &mut point {
                *value /= length;
            }
        }
        point
    }

    fn row(&self, feature: Feature) -> &[f32] {
        let start = feature as usize * self.dimensions;
        &self.projection[start..start + self.dimensions]
    }

    /// The nearest of some centroids and the cosine to it; the first of equals.
    fn nearest<'a>(&self, centroids: &'a [f32], page: &[f64]) -> Option<(&'a [f32], f64)> {
        let mut best: Option<(&[f32], f64)> = None;
        for centroid in centroids.chunks_exact(self.dimensions.max(1)) {
            let products = page.iter().zip(centroid);
            let cosine: f64 = products.map(|(one, other)| one * f64::from(*other)).sum();
            if best.is_none_or(|(_, closest)| cosine > closest) {
                best = Some((centroid, cosine));
            }
        }
        best
    }
}

impl PageClassifier for CentroidClassifier {
    fn score(&self, page: &PageVector) -> f64 {
        let (target, other) = self.distances(page);
        log_distance_confidence(target, other).log_odds()
    }

    /// The difference of a feature's contributions to the cosines with the nearest target centroid
    /// and the nearest other one.
    fn contributions(&self, page: &PageVector) -> Vec<(Feature, f64)> {
        let point = self.project(page);
        let (Some((target, _)), Some((other, _))) = (
            self.nearest(&self.target, &point),
            self.nearest(&self.other, &point),
        ) else {
            return Vec::new();
        };
        let contribution = |(feature, weight): &(Feature, f32)| {
            let row = self.row(*feature).iter().zip(target.iter().zip(other));
            let difference: f64 = row
                .map(|(value, (target, other))| f64::from(*value) * f64::from(target - other))
                .sum();
            (*feature, f64::from(*weight) * difference)
        };
        page.entries().iter().map(contribution).collect()
    }

    fn aspects(&self) -> Vec<Aspect> {
        let mut aspects = Vec::new();
        for (class, centroids) in [("topic", &self.target), ("other", &self.other)] {
            let rows = centroids.chunks_exact(self.dimensions.max(1));
            for (number, centroid) in (1..).zip(rows) {
                let closeness = self
                    .projection
                    .chunks_exact(self.dimensions.max(1))
                    .map(|row| {
                        let products = row.iter().zip(centroid);
                        products
                            .map(|(one, other)| f64::from(*one) * f64::from(*other))
                            .sum::<f64>()
                    });
                aspects.push(Aspect {
                    title: format!("{class}, centroid {number}"),
                    features: (0..).zip(closeness).collect(),
                });
            }
        }
        aspects
    }
}

/// The principal directions in which pages differ.
struct Projection {
    /// One row for each feature.
    matrix: Array2<f64>,
}

impl Projection {
    /// Latent semantic analysis by a randomised singular value decomposition.
    fn learn(
        pages: &[WeighedPage],
        features: usize,
        dimensions: usize,
        random: &mut Xoshiro256Plus,
    ) -> Self {
        let sample = draw(pages.iter());
        let wanted = dimensions.min(sample.len()).min(features);
        let width = (wanted + wanted / 4 + 2).min(sample.len()).min(features);
        if wanted == 0 {
            return Self {
                matrix: Array2::zeros((features, 0)),
            };
        }
        let directions = Array2::from_shape_fn((features, width), |_| random.gen_range(-1.0..1.0));
        let mut image = times(&sample, &directions);
        for _ in 0..POWER_ITERATIONS {
            let basis = orthonormal(image);
            image = times(&sample, &transposed_times(&sample, &basis, features));
        }
        // In this basis the problem is small: its eigenvectors are the principal directions.
        let reduced = transposed_times(&sample, &orthonormal(image), features);
        let rotation = match reduced.t().dot(&reduced).eigh_into() {
            Ok(solved) => solved.sort_eig_desc().1,
            Err(_) => Array2::eye(width),
        };
        let rotated = reduced.dot(&rotation);
        let principal = rotated.axis_iter(Axis(1)).take(wanted);
        let mut matrix = Array2::zeros((features, wanted));
        for (direction, mut column) in principal.zip(matrix.axis_iter_mut(Axis(1))) {
            let length = direction.dot(&direction).sqrt();
            if length > EPSILON {
                column.assign(&direction);
                column /= length;
            }
        }
        Self { matrix }
    }

    fn dimensions(&self) -> usize {
        self.matrix.ncols()
    }

    fn project(&self, page: &PageVector) -> Array1<f64> {
        let mut point = Array1::zeros(self.dimensions());
        for (feature, weight) in page.entries() {
            point.scaled_add(f64::from(*weight), &self.matrix.row(*feature as usize));
        }
        let length = point.dot(&point).sqrt();
        if length > 0.0 {
            point /= length;
        }
        point
    }
}

/// At most [`MAX_PAGES`] pages with known terms, drawn systematically and in proportion to their
/// weights; a page can be drawn more than once.
fn draw<'a>(pages: impl Iterator<Item = &'a WeighedPage>) -> Vec<&'a PageVector> {
    let pages = pages.filter(|page| page.weight > 0.0 && page.vector.known_terms() > 0);
    let pages: Vec<&WeighedPage> = pages.collect();
    let total: f64 = pages.iter().map(|page| page.weight).sum();
    let wanted = pages.len().min(MAX_PAGES);
    let step = total / f64::from(u32::try_from(wanted.max(1)).unwrap_or(u32::MAX));
    let mut drawn = Vec::with_capacity(wanted);
    let (mut passed, mut next) = (0.0, step / 2.0);
    for page in pages {
        passed += page.weight;
        while next < passed && drawn.len() < wanted {
            drawn.push(&page.vector);
            next += step;
        }
    }
    drawn
}

/// Pages times a matrix of features.
fn times(pages: &[&PageVector], matrix: &Array2<f64>) -> Array2<f64> {
    let mut product = Array2::zeros((pages.len(), matrix.ncols()));
    for (page, mut row) in pages.iter().zip(product.rows_mut()) {
        for (feature, weight) in page.entries() {
            row.scaled_add(f64::from(*weight), &matrix.row(*feature as usize));
        }
    }
    product
}

/// The transpose of pages times a matrix of pages.
fn transposed_times(pages: &[&PageVector], matrix: &Array2<f64>, features: usize) -> Array2<f64> {
    let mut product = Array2::zeros((features, matrix.ncols()));
    for (page, row) in pages.iter().zip(matrix.rows()) {
        for (feature, weight) in page.entries() {
            product
                .row_mut(*feature as usize)
                .scaled_add(f64::from(*weight), &row);
        }
    }
    product
}

/// A basis of the columns; columns that add nothing become zero.
fn orthonormal(matrix: Array2<f64>) -> Array2<f64> {
    match matrix.clone().qr_into() {
        Ok(qr) => qr.generate_q(),
        Err(_) => matrix,
    }
}

/// k-means; each centroid is normalised to length 1.
fn centroids(rows: &[Array1<f64>], dimensions: usize, max_clusters: usize, seed: u64) -> Vec<f32> {
    let clusters = max_clusters
        .min(rows.len().div_ceil(PAGES_PER_CENTROID))
        .max(1);
    if rows.is_empty() || dimensions == 0 {
        return Vec::new();
    }
    let points = Array2::from_shape_fn((rows.len(), dimensions), |(row, column)| rows[row][column]);
    let mean = || {
        points
            .mean_axis(Axis(0))
            .map(|mean| mean.insert_axis(Axis(0)))
    };
    let found = match clusters {
        1 => mean(),
        _ => k_means(&points, clusters, seed).or_else(mean),
    };
    let Some(found) = found else {
        return Vec::new();
    };
    found.rows().into_iter().flat_map(unit_row).collect()
}

/// The tolerance is loose because linfa counts the old centroid as one more point, which makes
/// small clusters converge slowly.
fn k_means(points: &Array2<f64>, clusters: usize, seed: u64) -> Option<Array2<f64>> {
    let dataset = DatasetBase::from(points.clone());
    let fit = || {
        KMeans::params_with_rng(clusters, Xoshiro256Plus::seed_from_u64(seed))
            .n_runs(1)
            .max_n_iterations(50)
            .tolerance(1e-3)
            .fit(&dataset)
            .ok()
    };
    // A pool of one thread: linfa would otherwise use the global rayon pool.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .ok()?;
    Some(pool.install(fit)?.centroids().clone())
}

fn unit_row(row: ArrayView1<'_, f64>) -> Vec<f32> {
    let length = row.dot(&row).sqrt().max(f64::MIN_POSITIVE);
    row.iter().map(|value| narrow(value / length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: ln 0.1 / (ln 0.1 + ln 0.4) = 2.302585 / 3.218876 = 0.715338.
    #[test]
    fn closer_means_more_confident() {
        let near = log_distance_confidence(0.1, 0.4).get();
        assert!((near - 0.715_338).abs() < 1e-6, "{near}");
        let mirrored = log_distance_confidence(0.4, 0.1).get();
        assert!((near + mirrored - 1.0).abs() < 1e-12);
        // Far from everything: cosines of 0.1 and 0, half distances of 0.45 and 0.5.
        let far = log_distance_confidence(0.45, 0.5).get();
        assert!((far - 0.535_317).abs() < 1e-6, "{far}");
        // On top of a centroid.
        assert!(log_distance_confidence(0.0, 0.5).get() > 0.95);
        assert!(log_distance_confidence(1.0, 1.0).get().is_finite());
    }

    fn page(features: &[Feature], is_target: bool) -> WeighedPage {
        WeighedPage {
            vector: PageVector::normalised(features.iter().map(|at| (*at, 1.0)).collect()),
            is_target,
            weight: 1.0,
        }
    }

    const PARAMS: CentroidParams = CentroidParams {
        dimensions: 8,
        target_centroids: 2,
        other_centroids: 2,
        seed: 7,
    };

    fn many() -> Vec<WeighedPage> {
        let kinds: [(&[Feature], bool); 4] = [
            (&[0, 1, 2], true),
            (&[3, 4, 5], true),
            (&[6, 7, 8], false),
            (&[9, 10, 11], false),
        ];
        let mut pages = Vec::new();
        for (features, is_target) in kinds {
            for left_out in 0..3 {
                let mut some = features.to_vec();
                some.remove(left_out);
                pages.extend(std::iter::repeat_n(page(&some, is_target), 4));
            }
        }
        pages
    }

    #[test]
    fn each_kind_of_page_has_its_centroid() {
        let fitted = CentroidClassifier::fit(&many(), 12, &PARAMS);
        assert_eq!(fitted.target.len(), 2 * fitted.dimensions);
        assert_eq!(fitted.other.len(), 2 * fitted.dimensions);
        for (features, is_target) in [
            (&[0_u32, 1, 2], true),
            (&[3, 4, 5], true),
            (&[6, 7, 8], false),
        ] {
            let page = page(features, is_target);
            assert_eq!(fitted.score(&page.vector) > 0.0, is_target, "{features:?}");
            let pulls = fitted.contributions(&page.vector);
            assert!(pulls.iter().all(|(_, pull)| (*pull > 0.0) == is_target));
        }
        assert_eq!(fitted.aspects().len(), 4);
    }

    #[test]
    fn the_same_seed_gives_the_same_centroids() {
        let once = CentroidClassifier::fit(&many(), 12, &PARAMS);
        assert_eq!(once, CentroidClassifier::fit(&many(), 12, &PARAMS));
    }

    #[test]
    fn few_pages_or_none_are_no_trouble() {
        let one = CentroidClassifier::fit(&[page(&[0], true)], 2, &PARAMS);
        assert!(one.score(&page(&[0], true).vector) > 0.0);
        let none = CentroidClassifier::fit(&[], 0, &PARAMS);
        assert!(none.score(&PageVector::default()).abs() < 1e-12);
        let alike = vec![page(&[0], true); 40];
        assert!(CentroidClassifier::fit(&alike, 1, &PARAMS).score(&alike[0].vector) > 0.0);
    }
}
