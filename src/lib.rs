//! sitescout finds **websites**, not pages. From a few example sites of a topic it learns
//! what such sites look like, walks the graph of sites, and keeps a growing list of further
//! sites of that topic, downloading as few pages as it can.
//!
//! It is built after Ester, Kriegel, Schubert: *Accurate and Efficient Crawling for Relevant
//! Websites*, VLDB 2004; what we do differently is said where it is done.
//!
//! # The house
//!
//! Rooms, in the order in which to read them. Each imports rooms above it, and those alone that the
//! last column names; `tests/tidy.rs` reads this table and holds the code to it.
//!
//! | room | what happens there | imports |
//! |---|---|---|
//! | [`web`] | the nouns: sites, pages, links, confidences; no input, no output | - |
//! | [`config`] | text to checked settings, all problems told at once | - |
//! | [`telemetry`] | the log, the figures for Prometheus, heartbeats, the time of day | config |
//! | [`store`] | what survives a crash: the graph of sites, the border, claims, verdicts, decisions of editors | web config telemetry |
//! | [`fetch`] | where pages come from: the door [`fetch::Fetcher`], WARC archives, the live web; the only room that connects to other machines | web config telemetry |
//! | [`parse`] | bytes to text, language, links, terms; never fails | web |
//! | [`classify`] | pure mathematics: words to page confidences, pages to site confidences, the model file | web |
//! | [`internal`] | the internal crawler: samples one site until its class is sure, or a limit is reached | web config fetch parse classify |
//! | [`verdicts`] | the single exit for outcomes: one atomic record, then shown; lists of relevant sites | web config telemetry store |
//! | [`external`] | the external crawler: ranks the sites of the border, sends internal crawlers to the best | web config telemetry store fetch parse classify internal verdicts |
//! | [`training`] | labelled sites to a site model and its card | web config fetch parse classify internal |
//! | [`lab`] | offline evaluation: the same crawlers, measured; a generated web, and its server | web config telemetry store fetch parse classify internal external training |
//! | [`service`] | the daemon: topics for months, systemd, figures and probes, API, feed, dashboard | web config telemetry store fetch parse classify verdicts external |
//! | [`cli`] | the front door: one file for each command | web config telemetry store fetch parse classify internal verdicts external training lab service |
//!
//! # The walk of a site
//!
//! ```text
//! labelled sites ─► training ─► SiteModel ┐
//!                                         ▼
//!                       SiteVisit ─► internal::InternalCrawler ─► SiteReport
//!                                         │      ▲
//!            best page of the frontier    ▼      │  evidence, links
//! PageUrl ─► fetch::Fetcher ─► FetchedPage ─► parse ─► ParsedPage, PageTerms ─► classify
//! ```
//!
//! Two doors carry everything about a site: one [`web::SiteVisit`] goes into an
//! [`internal::InternalCrawler`], one [`web::SiteReport`] comes out. In between, the
//! crawler reads pages, best first, until the topic's [`classify::SiteModel`] is sure
//! enough about the site, no page is left, or a limit of the settings is reached. The model was learned by [`training`] from labelled sites; the
//! [`lab`] measures how well that works.
//!
//! Which site comes next is decided by an [`external::ExternalCrawler`]: it takes the best
//! sites of the border from a [`store::CrawlStore`], and the report on each goes back there through
//! [`verdicts::Ledger`], as one record, before anybody is shown its verdict.
//!
//! A page begins as a [`web::PageUrl`], in the one canonical spelling it has. A
//! [`fetch::Fetcher`] asks for it and hands back a [`web::FetchedPage`], whatever the
//! status, or a [`fetch::FetchError`] if there was no answer. [`parse::parse`] makes a
//! [`web::ParsedPage`] of any bytes: text by page part, language, links inside the site and
//! to other sites, a fingerprint, and signs that it is no page at all. From its text,
//! [`parse::words::count_terms`] makes the terms that a classifier counts.
//!
//! # Invariants
//!
//! - Sites, pages, visits and reports are nouns of [`web`] in every room.
//! - `parse` and `classify` are deterministic: same bytes, same model, same numbers. They do
//!   no input or output.
//! - Sampling a site never fails: a dead site has a report, too.
//! - Text from the web is hostile until it is escaped for where it goes.
//! - Waits and durations are `tokio::time`, the time of day is [`telemetry::clock`]; tests set both.
//! - Random choices have an explicit seed, and the order of a hash map decides nothing. Only names
//!   that must differ each time are drawn without: of a store, and of the records of a WARC file.
//! - Only `main` ends the process.

#![forbid(unsafe_code)]

pub mod web;

pub mod config;

pub mod telemetry;

pub mod store;

pub mod fetch;

pub mod parse;

pub mod classify;

pub mod internal;

pub mod verdicts;

pub mod external;

pub mod training;

pub mod lab;

#[cfg(unix)]
pub mod service;

pub mod cli;
