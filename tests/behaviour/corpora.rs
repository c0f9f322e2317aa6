//! Real websites from the directory `SITESCOUT_CORPORA`: every record parses, and the results are
//! pinned, so that no change to the parser goes unnoticed.

#![allow(clippy::print_stdout, reason = "prints the measurements")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sitescout::config::Settings;
use sitescout::fetch::Archive;
use sitescout::lab::{Experiment, Row, TopicResult};
use sitescout::parse;
use sitescout::training::{Corpus, CorpusLimits, Labels};
use sitescout::web::ContentKind;

use crate::reading_path::{self, Digest, Digests};
use crate::skips::{self, skipped};
use crate::{LIMITS, without_index};

/// The contents of an archive in a comparable form.
#[derive(Debug, Default, PartialEq, Eq)]
struct Census {
    sites: usize,
    pages: usize,
    /// Links to `ftp:` and `file:` addresses, which are no pages.
    other_records: u64,
    html: usize,
    intrinsic_links: usize,
    transversal_links: usize,
    parked: usize,
    soft_404: usize,
    empty_shells: usize,
    /// By number of pages, the most frequent first.
    languages: Vec<(String, usize)>,
}

fn census(path: PathBuf) -> Census {
    let archive = Archive::open(&[path], &without_index()).expect("the corpus");
    assert!(archive.problems().is_empty(), "{:?}", archive.problems());
    let mut census = Census {
        sites: archive.sites().count(),
        ..Census::default()
    };
    let mut languages: BTreeMap<String, usize> = BTreeMap::new();
    let mut captures = 0;
    for capture in archive.captures() {
        let url = capture.expect("a capture").url;
        captures += 1;
        let Some(page) = archive.read(&url).expect("a readable record") else {
            continue;
        };
        let parsed = parse::parse(&page, &LIMITS);
        census.pages += 1;
        census.html += usize::from(parsed.content == ContentKind::Html);
        census.intrinsic_links += parsed.intrinsic_links.len();
        census.transversal_links += parsed.transversal_links.len();
        census.parked += usize::from(parsed.signs.parked);
        census.soft_404 += usize::from(parsed.signs.soft_404);
        census.empty_shells += usize::from(parsed.signs.empty_shell);
        let language = parsed
            .language
            .map_or("-".to_owned(), |language| language.to_string());
        *languages.entry(language).or_default() += 1;
    }
    let others: u64 = archive.other_schemes().map(|(_, records)| records).sum();
    assert_eq!(
        captures + others,
        archive.records(),
        "every record is accounted for"
    );
    census.other_records = others;
    let mut languages: Vec<(String, usize)> = languages.into_iter().collect();
    languages.sort_by_key(|(_, pages)| std::cmp::Reverse(*pages));
    languages.truncate(8);
    census.languages = languages;
    println!("{census:#?}");
    census
}

fn named(languages: &[(&str, usize)]) -> Vec<(String, usize)> {
    languages
        .iter()
        .map(|(name, pages)| ((*name).to_owned(), *pages))
        .collect()
}

#[test]
fn three_hundred_real_sites_are_read() {
    let path = match skips::corpora() {
        Ok(corpora) => corpora.join("sites.warc.gz"),
        Err(why) => return skipped!(why),
    };
    let languages = [
        ("en", 9_557),
        ("-", 442),
        ("de", 372),
        ("fr", 83),
        ("pt", 31),
        ("es", 27),
        ("sv", 19),
        ("ru", 14),
    ];
    let expected = Census {
        sites: 311,
        pages: 10_563,
        other_records: 0,
        html: 10_528,
        intrinsic_links: 156_294,
        transversal_links: 44_887,
        parked: 0,
        soft_404: 5,
        empty_shells: 4,
        languages: named(&languages),
    };
    assert_eq!(census(path), expected);
}

#[test]
fn the_webkb_pages_of_1997_are_read() {
    let path = match skips::corpora() {
        Ok(corpora) => corpora.join("webkb.warc.gz"),
        Err(why) => return skipped!(why),
    };
    let languages = [
        ("en", 7_396),
        ("-", 810),
        ("fr", 11),
        ("ca", 3),
        ("es", 2),
        ("it", 2),
        ("de", 1),
        ("id", 1),
    ];
    let expected = Census {
        sites: 578,
        pages: 8_230,
        other_records: 52,
        html: 8_208,
        intrinsic_links: 62_430,
        transversal_links: 38_811,
        parked: 0,
        soft_404: 0,
        empty_shells: 105,
        languages: named(&languages),
    };
    assert_eq!(census(path), expected);
}

/// What the README promises about whole sites. Without optimisation it would take half an
/// hour, so only release builds measure it.
#[test]
fn real_sites_are_judged_as_well_as_we_say() {
    let corpora = match skips::corpora() {
        Ok(corpora) => corpora,
        Err(why) => return skipped!(why),
    };
    if cfg!(debug_assertions) {
        return skipped!("a debug build takes half an hour");
    }
    let path = corpora.join("sites.warc.gz");
    let archive = Arc::new(Archive::open(&[path], &without_index()).expect("the corpus"));
    let labels = std::fs::read_to_string(corpora.join("sites.labels.tsv")).expect("the labels");
    let labels = Labels::parse(&labels).expect("labels without mistakes");
    let settings = Settings::default();
    let limits = CorpusLimits {
        pages_per_site: settings.training.pages_per_site,
        sites_at_once: 8,
        parse: LIMITS,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let reading = Corpus::read(archive.clone(), &labels.labels, limits, |_| {});
    let corpus = runtime.block_on(reading);
    let experiment = Experiment {
        fetcher: archive,
        corpus: &corpus,
        limits: LIMITS,
        settings: &settings,
        folds: 10,
        seeds: 1,
        p_threshold: None,
        target_sites: None,
    };
    let topics = labels.topics();
    let results: Vec<TopicResult> = topics
        .iter()
        .map(|topic| experiment.run(topic).expect("enough groups"))
        .collect();
    if reading_path::has_known_arithmetic() {
        let mut digest = Digest::default();
        digest.add(&results);
        let judged = ("sites learned and judged".to_owned(), digest.text());
        reading_path::compare(&Digests::from([judged]));
    } else {
        skipped!("verdicts are not compared, this machine rounds logarithms otherwise");
    }
    for result in &results {
        let f_measure = result.row(Row::Internal).f_measure;
        println!("{}: F {f_measure:.3}", result.topic);
        assert!(f_measure >= 0.75, "{}: {f_measure}", result.topic);
    }
    let mean = TopicResult::mean(&results).expect("ten topics");
    let [internal, homepage, all_pages] =
        [Row::Internal, Row::Homepage, Row::AllPages].map(|row| mean.row(row));
    let pages = internal.measures.pages_per_site();
    let calibration_error = internal.measures.calibration_error();
    println!(
        "mean: F {:.3} with {pages:.2} pages; homepage {:.3}, all pages {:.3}; calibration \
         error {calibration_error:.3}",
        internal.f_measure, homepage.f_measure, all_pages.f_measure
    );
    assert!(internal.f_measure >= 0.93 && pages <= 2.5);
    assert!(internal.f_measure > homepage.f_measure);
    assert!(internal.f_measure >= all_pages.f_measure - 0.01);
    assert!(calibration_error <= 0.05);
}
