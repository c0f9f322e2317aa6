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
//! | [`config`] | text to checked settings, all problems reported at once | - |
//! | [`telemetry`] | the log, the Prometheus registry, heartbeats, the time of day | config |
//! | [`store`] | what survives a crash: the graph of sites, the border, claims, verdicts, decisions of editors | web config telemetry |
//! | [`fetch`] | where pages come from: the door [`fetch::Fetcher`], WARC archives, the live web; the only room that connects to other machines | web config telemetry |
//! | [`parse`] | bytes to text, language, links, terms; never fails | web |
//! | [`classify`] | pure mathematics: words to page confidences, pages to site confidences, the files of models and backgrounds | web |
//! | [`internal`] | the internal crawler: samples one site until its class is sure, or a limit is reached | web config fetch parse classify |
//! | [`verdicts`] | the single exit for outcomes: one atomic record, then shown; lists of relevant sites | web config telemetry store |
//! | [`external`] | the external crawler: ranks the sites of the border, sends internal crawlers to the best | web config telemetry store fetch parse classify internal verdicts |
//! | [`training`] | labelled sites, and the background, to a site model and its card | web config fetch parse classify internal |
//! | [`lab`] | offline evaluation: the same crawlers, measured; a generated web, and its server | web config telemetry store fetch parse classify internal external training |
//! | [`service`] | the daemon: topics for months, systemd, metrics and probes, API, feed, dashboard | web config telemetry store fetch parse classify verdicts external |
//! | [`cli`] | the front door: one file for each command | web config telemetry store fetch parse classify internal verdicts external training lab service |
//!
//! # Where to change what
//!
//! | change | place |
//! |---|---|
//! | order in which sites are visited | a type in `external/ordering.rs` that implements [`external::BorderOrdering`] and its supertrait [`store::Ranking`], and its name in `config::Strategy`; it ranks by [`store::Standing`], which is fed by [`store::NewEdge`]; to compare it, the lists `COMPARED` of `lab/crawl_truth.rs` and `lab/crawl_curves.rs`; for users, `config.toml` and `docs/manual.md` |
//! | order in which the pages of a site are read | a type in `internal/page_ordering.rs` that implements [`internal::PageOrdering`], over what a `WaitingPage` there holds, returned by `page_ordering` of a `BorderOrdering`: no setting selects it alone; which pages wait at all: `internal/page_frontier.rs`. `lab/table_two.rs` and `training/corpus.rs` choose their own |
//! | storage engine: another ordered map | implement `DiskEngine` of `store/engine.rs` as `sled_engine.rs` does, name it as `DefaultEngine` in `key_value_store.rs`, and simulate power cuts as in `power_loss.rs`; the rest of `store` is written against it, and `ENGINES` of `tests/behaviour/stores.rs` tests it |
//! | storage engine: a database of its own layout | implement [`store::CrawlStore`], [`store::ReadStore`], [`store::EditStore`] and [`store::DumpStore`], whose lines are `DumpedRecord` in `store/dump.rs`; choose it by a setting of [`config::StoreSettings`]; open it in `open_store` and `open_or_create_store` of `cli/sources.rs`, and in `cli/import.rs`, which call on a [`store::KeyValueStore`] what is in no trait: its clock check and its metrics; confine its crate in `tests/tidy.rs`; an item in `ENGINES` of `tests/behaviour/stores.rs`, with the way to leave a store as a killed process does |
//! | source of pages (a renderer, another archive format) | an implementation of [`fetch::Fetcher`], whose documentation lists its duties, composed with host lists and recorder in `fetch/source.rs`; one that requests pages of the live web, such as a renderer, goes in front of it by [`fetch::PageSource::behind`], in `cli/run.rs` for the daemon and in `cli/sources.rs` for commands; the live web then gives it only `fetch.limits.content_types`; what users write after `--web`: `WebSource` in `cli/sources.rs` |
//! | robots.txt, politeness, time limits, addresses | `fetch/live/`, whose header has a table |
//! | content encoding | `fetch/body.rs`: `Coding` and `ACCEPTED_CODINGS`, within the 32 MiB that all decoders share; `benches/fetch.rs` sends the same header |
//! | what is read of a page | `parse/html/page_reader.rs`; its terms: `parse/words.rs`, counted by `parse/term_reader.rs` |
//! | how scores become confidences | `classify/calibration.rs` for a topic, `classify/topic_prior.rs` for what is learned over topics; how pages add up: `classify/evidence.rs`; what host names say: `classify/host_words.rs` |
//! | page classifier | an implementation of `classify::PageClassifier`, and a variant of `classify::PageModel` |
//! | what a background keeps of a site | `training/background.rs`: which terms, and how further sites join; its bytes and `VERSION`: `classify/background_file.rs`; what labels leave out of it: `add_background` of `training/corpus.rs`; the file that comes with the program: `site-models/README.md` |
//! | what `sitescout topic` says of a topic | `cli/topic/trust.rs`, from the held-out verdicts of `training/known_sites.rs`; where pages of its sites come from: `cli/topic/reading.rs`; which examples it refuses: `cli/topic/examples.rs` for single ones, `cli/topic/learning.rs` for all together; how a directory is replaced: `cli/topic/directory.rs`; how it changes a definition: `config/topic_file.rs` |
//! | when a visit ends | `internal/mod.rs`: `reason_to_stop` for limits and verdicts, `add_outcome` and what it calls for responses |
//! | when a crawl ends | `external/mod.rs`: `reason_to_end`; `crawl` for an empty border and a stop |
//! | Prometheus metric | of visits, by topic: `external/metrics.rs`, from a field of `web::VisitCost` that `internal/site_sample.rs` counts; otherwise where it is counted: `metrics.rs` of `fetch`, `store` and `external`, `service/status_board.rs`, `telemetry/mod.rs`; always the table in `docs/operations.md`, and `tests/golden/figures.txt` |
//! | API endpoint | a function in `service/api/`, a line in the router and in the table of `service/api/mod.rs`, and `docs/api.md`; data that the store does not return yet: a method of [`store::ReadStore`], in `store/site_queries.rs`; its JSON: `verdicts/view.rs` |
//! | dashboard | `service/dashboard/` |
//! | field of a judged site (list, feed, API, `inspect`) | `verdicts/view.rs` |
//! | setting | `config/`, and its comment in `config.toml` |
//! | measure or table of an evaluation | of verdicts: `training/measures.rs`; `evaluate classifier`: `lab/table_two.rs`, with `--open-world`: `lab/open_world.rs`, `lab/open_measures.rs`, and who is learned from and judged: `training/deals.rs`; `crawl`: `lab/crawl_curves.rs`; `generated`: `lab/crawl_truth.rs`; `likeness`: `lab/likeness.rs`; each is printed, as text and JSON, by the file in `cli/evaluate/` with the name of the command |
//! | reason, outcome, undecided kind | `web/reason.rs`, `web/verdict.rs` |
//!
//! # The walk of a page's bytes
//!
//! ```text
//! internal::SiteWalker        one request at a time: retries, redirects, entrances, else
//!   PageFrontier              the best PageUrl by the PageOrdering
//! fetch::PageSource           a Fetcher; host lists and blocks, unless the live web checks them
//!   fetch::live::LiveWeb      robots.txt, host lists and blocks, the site's turn
//!     Client, Connections     address guard and rate limit, connection, limits in bytes and time
//!     Body::decode            content encodings ─► web::FetchedPage
//! internal::InternalCrawler   errors, redirects and gatekeepers end here; large bodies are read in
//!   ReadingPool               a thread, within a bound of memory
//!   parse::parse              charset, tokens, text, links, fingerprint ─► web::ParsedPage
//!   parse::TermReader         words, their spellings remembered ─► web::PageTerms
//!   SiteModel::judge          page confidence
//! internal::SiteSample        SiteEvidence ─► site confidence; near-duplicates
//! internal::SiteWalker        intrinsic links ─► PageFrontier
//! ```
//!
//! # The walk of a border site
//!
//! ```text
//! web::SiteReport             links of another site, with anchors and page confidences
//! BorderOrdering::weigh       ─► store::NewEdge: global and local weight
//! store/edges.rs              in the record of that site's verdict: caps of a source, its Standing
//! store/state.rs              becomes known, as a start site does; store::Ranking::rank: its place
//! CrawlStore::take            deferred sites that are due, rechecks, then the best: claimed by one
//! external::ExternalCrawler   ─► web::SiteVisit, unless the site is blocked or poison
//! external::Pool              a slot and a task for an
//! internal::InternalCrawler   pages until the verdict is sure and enough links are found
//! external::OwnTrouble        holds failed visits back while the failure may be ours
//! verdicts::Ledger            the SiteReport becomes one atomic record
//! store/verdicts.rs           the claim ends; verdict, evidence, number in the sequence; its edges
//! store/list_changes.rs       on the list or off it ─► feed, export, API
//! ```
//!
//! Two doors carry everything about a site: one [`web::SiteVisit`] goes into an
//! [`internal::InternalCrawler`], one [`web::SiteReport`] comes out. The external crawler shows a
//! verdict only after its report is recorded. Models come from [`training`]; the [`lab`] measures how
//! well they and the orderings work, with the same crawlers.
//!
//! # Invariants
//!
//! - Sites, pages, visits and reports are nouns of [`web`] in every room.
//! - `parse` and `classify` are deterministic: same bytes, same model, same numbers. They do
//!   no input or output.
//! - Sampling a site never fails: a dead site has a report, too.
//! - Text from the web is hostile until it is escaped for where it goes.
//! - Waits and durations are `tokio::time`, but in the store, where threads wait for the disk and for
//!   each other; the time of day is [`telemetry::clock`]. Tests set both.
//! - Random choices have an explicit seed, and the order of a hash map decides nothing. Drawn without
//!   a seed are names that must differ each time (of a store, of the owner of claims, of the records
//!   of a WARC file) and the secret seeds of hash tables.
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
