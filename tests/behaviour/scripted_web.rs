//! A web in memory that logs its requests, and a model of two topics with distinct words: sailing
//! and baking.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sitescout::classify::{SiteModel, Thresholds};
use sitescout::config::{InternalSettings, TrainingSettings};
use sitescout::fetch::{FetchError, Fetcher};
use sitescout::internal::{InternalCrawler, LinkPagesFirst, PageOrdering};
use sitescout::training::{Corpus, CorpusLimits, Labels, fit_model};
use sitescout::web::{FetchedPage, PageUrl, SiteReport, SiteVisit, Transfer};

use crate::LIMITS;

/// Pages by address. A host without any page is unreachable, a missing page is a 404.
#[derive(Default)]
pub(crate) struct ScriptedWeb {
    pages: BTreeMap<String, (StatusCode, HeaderMap, Bytes)>,
    /// Hosts whose robots.txt disallows everything.
    closed: Option<&'static str>,
    asked: Mutex<Vec<String>>,
}

impl ScriptedWeb {
    pub(crate) fn page(mut self, url: &str, body: &str) -> Self {
        self.add(url, 200, &[("content-type", "text/html")], body);
        self
    }

    pub(crate) fn answer(
        mut self,
        url: &str,
        status: u16,
        headers: &[(&'static str, &str)],
    ) -> Self {
        self.add(url, status, headers, "");
        self
    }

    /// A page of any status, with headers beside its type.
    pub(crate) fn page_with(
        mut self,
        url: &str,
        status: u16,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Self {
        let mut all = vec![("content-type", "text/html")];
        all.extend(headers);
        self.add(url, status, &all, body);
        self
    }

    /// Robots may not read what begins with this path.
    pub(crate) fn closed(self, path: &'static str) -> Self {
        Self {
            closed: Some(path),
            ..self
        }
    }

    fn add(&mut self, url: &str, status: u16, headers: &[(&'static str, &str)], body: &str) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header value"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.pages.insert(url.to_owned(), (status, map, body));
    }

    /// The requested paths, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic in between").clone()
    }
}

#[async_trait]
impl Fetcher for ScriptedWeb {
    async fn fetch(&self, page: &PageUrl) -> Result<FetchedPage, FetchError> {
        let path = page.as_url()[url::Position::BeforePath..].to_owned();
        if self.closed.is_some_and(|closed| path.starts_with(closed)) {
            return Err(FetchError::disallowed(page));
        }
        self.asked.lock().expect("no panic in between").push(path);
        let host = format!("http://{}/", page.site());
        if !self.pages.keys().any(|known| known.starts_with(&host)) {
            return Err(FetchError::no_host(&page.site()));
        }
        let missing = || (StatusCode::NOT_FOUND, HeaderMap::new(), Bytes::new());
        let (status, headers, body) = self
            .pages
            .get(&page.as_str().replacen("https:", "http:", 1))
            .cloned()
            .unwrap_or_else(missing);
        Ok(FetchedPage {
            url: page.clone(),
            status,
            headers,
            body,
            truncated: false,
            transfer: Transfer::default(),
        })
    }
}

const SAILING: [&str; 12] = [
    "sail", "boat", "harbour", "regatta", "crew", "wind", "keel", "tiller", "mast", "yacht",
    "mooring", "jib",
];
const BAKING: [&str; 12] = [
    "bread", "oven", "flour", "cake", "dough", "loaf", "yeast", "crust", "butter", "sugar",
    "pastry", "rye",
];

/// Eight of the topic's words, beginning at one of them, so that pages differ.
fn some_words(words: &[&str; 12], from: usize) -> String {
    let some: Vec<&str> = (0..8).map(|at| words[(from + at * 5) % 12]).collect();
    some.join(" ")
}

/// A page on the topic.
pub(crate) fn sailing(from: usize, links: &[&str]) -> String {
    body(&some_words(&SAILING, from), links)
}

/// A page on the other topic.
pub(crate) fn baking(from: usize, links: &[&str]) -> String {
    body(&some_words(&BAKING, from), links)
}

/// A page of words that the model does not know.
pub(crate) fn mute(word: &str, links: &[&str]) -> String {
    body(&format!("lorem{word} ipsum{word} dolor{word}"), links)
}

fn body(words: &str, links: &[&str]) -> String {
    let links: Vec<String> = links
        .iter()
        .map(|to| format!("<a href=\"{to}\">*</a>"))
        .collect();
    format!("<p>{words}</p>{}", links.join(" "))
}

/// A model that finds a site irrelevant after one page, and relevant after three. By the product of
/// odds it needs two pages either way.
pub(crate) fn model() -> Arc<SiteModel> {
    let mut web = ScriptedWeb::default();
    let mut labels = String::new();
    for at in 0..6 {
        for (topic, page) in [
            ("sailing", sailing as fn(usize, &[&str]) -> String),
            ("other", baking),
        ] {
            let host = format!("{topic}{at}.example");
            web = web.page(&format!("http://{host}/"), &page(at, &["/a", "/b"]));
            web = web.page(&format!("http://{host}/a"), &page(at + 1, &[]));
            web = web.page(&format!("http://{host}/b"), &page(at + 2, &[]));
            labels.extend([host.as_str(), "\t", topic, "\n"]);
        }
    }
    let labels = Labels::parse(&labels).expect("labels");
    let limits = CorpusLimits {
        pages_per_site: 25,
        sites_at_once: 8,
        parse: LIMITS,
    };
    let runtime = runtime();
    let reading = Corpus::read(Arc::new(web), &labels.labels, limits, |_| {});
    let corpus = runtime.block_on(reading);
    let examples = corpus.examples("sailing");
    let settings = TrainingSettings::default();
    let (model, _) = fit_model("sailing", &corpus.lexicon, &examples, &settings);
    // With the product, one page of a p_err of 0.02 gives 0.98 at most; two give 0.9996.
    let thresholds = Thresholds {
        p_threshold: 0.99,
        ..*model.thresholds()
    };
    Arc::new(model.with_thresholds(thresholds))
}

/// Visits a site of a scripted web.
pub(crate) fn visit(
    web: &Arc<ScriptedWeb>,
    visit: SiteVisit,
    settings: InternalSettings,
) -> SiteReport {
    visit_by(web, visit, settings, Arc::new(LinkPagesFirst))
}

/// The same, with a page order.
pub(crate) fn visit_by(
    web: &Arc<ScriptedWeb>,
    visit: SiteVisit,
    settings: InternalSettings,
    page_ordering: Arc<dyn PageOrdering>,
) -> SiteReport {
    let fetcher: Arc<dyn Fetcher> = web.clone();
    let crawler = InternalCrawler::new(fetcher, model(), settings, LIMITS, page_ordering);
    runtime().block_on(crawler.sample(visit))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}
