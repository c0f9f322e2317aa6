//! `sitescout run`: the daemon.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::config::{ApiSettings, Settings};
use crate::external::{Goals, TopicCrawl};
use crate::fetch::{FetchMetrics, LiveWeb, PageSource};
use crate::service::{Plan, PlannedTopic, Request, Service, ServiceError, Token};
use crate::telemetry::Metrics;

use super::ExitCode;
use super::exit::UnusableSettings;
use super::signals::{Signal, Signals};
use super::sources;

const EXAMPLES: &str = "\
Examples:
  sitescout run --config /etc/sitescout/config.toml
  sitescout run --config config.toml --check

Crawls for the topics in [service] of the settings until it is stopped, as a service of systemd
or by itself. SIGTERM and SIGINT end it after the visits under way, a second one at once;
SIGHUP reads settings, topics and models again.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Check settings, topics and models, and do nothing else
    #[arg(long)]
    check: bool,
    /// Accept the clock of this machine although the verdicts in the store contradict it
    #[arg(long)]
    accept_clock: bool,
}

pub(super) fn run(
    arguments: &Arguments,
    config: Option<&Path>,
    settings: Settings,
) -> anyhow::Result<ExitCode> {
    let plan = plan(settings).map_err(|error| match ExitCode::of(&error) {
        // A restart would not help.
        ExitCode::Failure => UnusableSettings(format!(": {error:#}")).into(),
        _ => error,
    })?;
    if arguments.check {
        return Ok(ExitCode::Success);
    }
    let config = config.map(Path::to_owned);
    let again = move || {
        let settings = super::read_or(config.as_deref(), Settings::default());
        let plan = settings.and_then(self::plan);
        plan.map_err(|error| format!("{error:#}"))
    };
    let is_clock_accepted = arguments.accept_clock;
    sources::run(async {
        let mut signals = Signals::new()?.with_reload()?;
        let listener = Service::listen(plan.settings.service.listen, "service")?;
        let api = plan.settings.api.listen;
        let api_listener = api
            .map(|address| Service::listen(address, "api"))
            .transpose()?;
        let metrics = Metrics::of_process();
        let fetch_metrics = FetchMetrics::register(&metrics);
        let pages = PageSource::live(&plan.settings.fetch, fetch_metrics, None)?;
        let (state, settings) = (
            plan.settings.service.state.clone(),
            plan.settings.store.clone(),
        );
        let opening = async {
            let open = move || sources::open_or_create_store(&state, &settings);
            let store = spawn_blocking(open).await??;
            store.register_metrics(&metrics);
            sources::check_clock(&store, is_clock_accepted).await?;
            anyhow::Ok(store)
        };
        // Opening a large store takes a while; a signal may stop it.
        let store = tokio::select! {
            opened = opening => opened?,
            () = signals.next() => return Ok(()),
        };
        let service = Service {
            listener,
            api_listener,
            store: Arc::new(store),
            pages: Arc::new(pages),
            metrics,
        };
        let (sender, requests) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let request = match signals.next_of_all().await {
                    Signal::Stop => Request::Stop,
                    Signal::Reload => Request::Reload,
                };
                if sender.send(request).await.is_err() {
                    return;
                }
            }
        });
        // The exit code depends on what is wrong with the store.
        let ended = service.run(plan, requests, Arc::new(again)).await;
        ended.map_err(|error| match error {
            ServiceError::Store(error) => anyhow::Error::new(error),
            error => error.into(),
        })
    })?;
    Ok(ExitCode::Success)
}

/// Checks everything before the store or the network is touched.
fn plan(settings: Settings) -> anyhow::Result<Plan> {
    let service = &settings.service;
    ensure!(
        !service.topics.is_empty(),
        "there is nothing to crawl for: name topics as `topics` in [service] of the settings"
    );
    LiveWeb::check(&settings.fetch)?;
    sources::check_topic_names(&service.topics)?;
    let mut topics = Vec::new();
    for name in &service.topics {
        let directory = service.models.join(name);
        let topic = sources::open_topic(&directory, &[]);
        let topic = topic.with_context(|| format!("the topic {name} cannot be crawled for"))?;
        let crawl = TopicCrawl::new(name, Arc::new(topic.model), &settings)?;
        topics.push(PlannedTopic {
            crawl: crawl.with_goals(Goals {
                wanted: topic.wanted,
                max_pages: None,
            }),
            starts: topic.starts,
        });
    }
    let token = token(&settings.api)?;
    Ok(Plan {
        settings,
        topics,
        token,
    })
}

/// The token for writes through the API, required unless it listens on loopback only.
fn token(settings: &ApiSettings) -> anyhow::Result<Option<Token>> {
    let Some(path) = &settings.token_file else {
        let public = settings.listen;
        let public = public.filter(|address| !address.ip().to_canonical().is_loopback());
        if let Some(address) = public {
            bail!(
                "the API would be open to others at {address}: name a file with a token as \
                 `token_file` in [api], or set `listen` there to a loopback address"
            );
        }
        ensure!(
            !settings.reads_need_token,
            "no client could read the API: `reads_need_token` in [api] needs `token_file`"
        );
        return Ok(None);
    };
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the token file {}", path.display()))?;
    let token = Token::parse(&text);
    let token = token.with_context(|| format!("the token file {}", path.display()))?;
    if sources::is_readable_by_all(path)? {
        tracing::warn!(
            file = %path.display(),
            "the token can be read by everybody on this machine; `chmod 640` helps"
        );
    }
    Ok(Some(token))
}
