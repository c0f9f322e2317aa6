//! Judges a page by the model of a topic, and keeps nothing.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use crate::classify::{EvidenceStanding, JudgedPage, KnownTerms, SiteModel};
use crate::fetch::{ErrorKind, Fetcher};
use crate::parse::{self, ParseLimits, TermReader};
use crate::verdicts::WordView;
use crate::web::{
    EvidenceRule, FetchedPage, PageConfidence, PageKind, PageUrl, SiteConfidence, TellingWord,
    Transfer,
};

use super::Api;
use super::access::Authorized;
use super::answers::{ApiProblem, Json, Path, ProblemBody};

/// The address of pasted pages without `url`.
const PASTED_URL: &str = "https://pasted.invalid/";

/// A page to try: its HTML, or an address to fetch it from, which needs the token
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Trial {
    html: Option<String>,
    url: Option<String>,
}

/// The judgement of the model on a page
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TrialResult {
    /// Pr[page | target]; 0.5 if the page is mute
    confidence: f64,
    /// Whether the page has too few known words to judge it
    is_mute: bool,
    language: Option<String>,
    title: String,
    /// Number of terms of the model on the page
    known_terms: usize,
    /// Words for the topic
    r#for: Vec<WordView>,
    /// Words against the topic
    against: Vec<WordView>,
    /// The verdict on a site with this homepage, if that page alone suffices
    would_decide: Option<&'static str>,
}

/// Try a page against the model of a topic
#[utoipa::path(
    post,
    path = "/v1/topics/{topic}/try",
    tag = "topics",
    params(("topic" = String, Path, description = "The name of the topic")),
    request_body = Trial,
    security((), ("token" = [])),
    responses(
        (status = 200, body = TrialResult),
        (status = "4XX", body = ProblemBody),
        (status = "5XX", body = ProblemBody)
    )
)]
pub(super) async fn try_page(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    authorized: Result<Authorized, ApiProblem>,
    Json(trial): Json<Trial>,
) -> Result<Json<TrialResult>, ApiProblem> {
    api.stored_topic(&topic).await?;
    let Some(planned) = api.planned(&topic) else {
        let message = format!("the topic `{topic}` is not in the settings, so it has no model");
        return Err(ApiProblem::conflict(message));
    };
    let address = |url: &str| {
        let url = url.parse::<PageUrl>();
        url.map_err(|error| ApiProblem::bad_request(format!("`url` is no page address: {error}")))
    };
    let url = trial.url.as_deref().map(address).transpose()?;
    let page = match (trial.html, url) {
        (Some(html), url) => pasted(html, url),
        (None, Some(url)) => {
            // The daemon sends a request to a host of the client's choice.
            authorized?;
            api.fetched(&url).await?
        }
        (None, None) => {
            let message = "send the page as `html`, or its address as `url`".to_owned();
            return Err(ApiProblem::bad_request(message));
        }
    };
    let parse = &api.state.borrow().plan.settings.parse.clone();
    let limits = ParseLimits {
        max_links: parse.max_links,
        max_url_bytes: parse.max_url_bytes,
    };
    let permit = Arc::clone(&api.trials).try_acquire_owned();
    let permit = permit.map_err(|_| ApiProblem::too_busy())?;
    let judged = spawn_blocking(move || {
        // Held by the blocking task, which goes on when the client has disconnected.
        let _permit = permit;
        TrialResult::of(&page, planned.crawl.model(), &limits)
    });
    match judged.await {
        Ok(result) => Ok(Json(result)),
        Err(_) => Err(ApiProblem::bad_request(
            "the page cannot be read".to_owned(),
        )),
    }
}

// === impl Api ===

impl Api {
    /// Fetches a page as a visit would: not from a blocked host, no redirect, no error page.
    async fn fetched(&self, url: &PageUrl) -> Result<FetchedPage, ApiProblem> {
        let site = url.site();
        let is_permitted = {
            let state = self.state.borrow();
            state.plan.settings.external.permits(site.host())
        };
        if !is_permitted || self.store.block_of(&site).await?.is_some() {
            return Err(ApiProblem::conflict(format!("{site} is blocked")));
        }
        let fetched = self.pages.fetch(url).await;
        let fetched = fetched.map_err(|error| match error.kind {
            ErrorKind::Blocked => ApiProblem::conflict(error.to_string()),
            _ => ApiProblem::unreachable(error.to_string()),
        })?;
        if let Some(target) = fetched.redirect_target() {
            let message = format!("the page redirects to {target}; try that");
            return Err(ApiProblem::unreachable(message));
        }
        if let Some(gatekeeper) = fetched.gatekeeper() {
            let message = format!("a gatekeeper ({gatekeeper}) answers instead of the site");
            return Err(ApiProblem::unreachable(message));
        }
        if fetched.status.is_success() {
            Ok(fetched)
        } else {
            Err(ApiProblem::unreachable(format!(
                "the server answered {}",
                fetched.status
            )))
        }
    }
}

/// Pasted HTML as if a server had sent it.
fn pasted(html: String, url: Option<PageUrl>) -> FetchedPage {
    let placeholder = || PASTED_URL.parse().expect("a constant address");
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    FetchedPage {
        url: url.unwrap_or_else(placeholder),
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, kind)]),
        body: html.into(),
        truncated: false,
        transfer: Transfer::default(),
    }
}

// === impl TrialResult ===

impl TrialResult {
    fn of(page: &FetchedPage, model: &Arc<SiteModel>, limits: &ParseLimits) -> Self {
        let parsed = parse::parse(page, limits);
        let terms = TermReader::new(KnownTerms::of(Arc::clone(model))).count(&parsed);
        let mut result = Self {
            confidence: PageConfidence::NEUTRAL.get(),
            is_mute: true,
            language: parsed.language.map(|language| language.code().to_owned()),
            title: parsed.title(),
            known_terms: model.vocabulary().vector(&terms).known_terms(),
            r#for: Vec::new(),
            against: Vec::new(),
            would_decide: None,
        };
        if let JudgedPage::Spoke {
            confidence,
            p_err,
            telling_words,
        } = model.judge(&terms, PageKind::Homepage)
        {
            let mut evidence = model.evidence(EvidenceRule::Damped, SiteConfidence::NEUTRAL);
            evidence.add(confidence, p_err);
            let is_enough = evidence.standing(model.thresholds()) != EvidenceStanding::Open;
            let verdict = if evidence.is_for_target() {
                "relevant"
            } else {
                "irrelevant"
            };
            result.confidence = confidence.get();
            result.is_mute = false;
            result.r#for = words(&telling_words.for_target);
            result.against = words(&telling_words.against);
            result.would_decide = is_enough.then_some(verdict);
        }
        result
    }
}

fn words(words: &[TellingWord]) -> Vec<WordView> {
    let words = words.iter();
    words
        .map(|word| WordView {
            word: word.term.to_string(),
            weight: word.weight,
        })
        .collect()
}
