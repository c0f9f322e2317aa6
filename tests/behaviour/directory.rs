//! The contract of `ReadStore` and `EditStore` for readers and editors, checked on every store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use proptest::prelude::*;
use serde_json::Value;
use sitescout::config::HostLists;
use sitescout::store::{
    ClaimedSite, Edit, Edited, FeedEntry, ListChange, Opinion, ReadStore, SiteCursor, SiteQuery,
    SortOrder, TakeRequest, TopicId, TopicOpening, VerdictKind,
};
use sitescout::telemetry::clock;
use sitescout::web::{SiteConfidence, SiteId, UndecidedReason, Verdict};

use crate::stores::{Combined, FullStore, StoreFixture, home, opening, places};

fn site(host: &str) -> SiteId {
    host.parse().expect("a host")
}

/// Number, host, change and reason of every entry of a feed after a number.
async fn feed(fixture: &StoreFixture, after: u64) -> Vec<(u64, String, &'static str, String)> {
    let read = fixture.store.feed(fixture.topic, after, 100).await;
    let line = |entry: FeedEntry| {
        let host = entry.judged.site.to_string();
        (
            entry.seq,
            host,
            entry.change.name(),
            entry.reason.name().to_owned(),
        )
    };
    read.expect("a feed").into_iter().map(line).collect()
}

fn line(
    seq: u64,
    host: &str,
    change: &'static str,
    reason: &str,
) -> (u64, String, &'static str, String) {
    (seq, host.to_owned(), change, reason.to_owned())
}

async fn edit(fixture: &StoreFixture, edit: Edit) -> Edited {
    fixture.store.edit(edit).await.expect("an edit")
}

async fn decide(fixture: &StoreFixture, host: &str, decision: Option<Opinion>) -> Edited {
    let decision = decision.map(|opinion| (opinion, "a note".to_owned()));
    let (topic, site) = (fixture.topic, site(host));
    let decided = Edit::Decide {
        topic,
        site,
        decision,
    };
    edit(fixture, decided).await
}

async fn recheck(fixture: &StoreFixture, host: &str) -> Edited {
    let (topic, site) = (fixture.topic, site(host));
    edit(fixture, Edit::Recheck { topic, site }).await
}

/// Judges these sites of a new border.
async fn judged(fixture: &StoreFixture, sites: &[(&str, Verdict)]) {
    let hosts: Vec<&str> = sites.iter().map(|(host, _)| *host).collect();
    fixture.enter(&hosts, false).await;
    fixture.take(sites.len()).await;
    for (host, verdict) in sites {
        fixture.judge(host, *verdict, Vec::new()).await;
    }
}

/// A store with a good, a bad and a parked site, numbered 1 to 3.
async fn three() -> Vec<StoreFixture> {
    let fixtures = StoreFixture::all().await;
    for fixture in &fixtures {
        judged(
            fixture,
            &[
                ("good.example", Verdict::Relevant),
                ("bad.test", Verdict::Irrelevant),
                ("parked.org", Verdict::Undecided(UndecidedReason::Parked)),
            ],
        )
        .await;
    }
    fixtures
}

#[tokio::test]
async fn a_list_follows_the_verdicts_until_an_editor_decides() {
    for fixture in three().await {
        assert_eq!(
            feed(&fixture, 0).await,
            [line(1, "good.example", "added", "judged")]
        );
        let rejected = decide(&fixture, "good.example", Some(Opinion::Reject)).await;
        assert_eq!(rejected, Edited::Done { seq: Some(4) });
        let accepted = decide(&fixture, "bad.test", Some(Opinion::Accept)).await;
        assert_eq!(accepted, Edited::Done { seq: Some(5) });
        let dropped = line(4, "good.example", "dropped", "rejected");
        let added = line(5, "bad.test", "added", "accepted");
        assert_eq!(feed(&fixture, 0).await, [dropped, added.clone()]);
        assert_eq!(
            feed(&fixture, 4).await,
            [added],
            "later readers miss nothing"
        );
        let again = decide(&fixture, "bad.test", Some(Opinion::Accept)).await;
        assert_eq!(again, Edited::Unchanged, "no second entry");
        // A recheck with the same verdict leaves the editor's decision in force.
        for host in ["good.example", "bad.test"] {
            assert_eq!(recheck(&fixture, host).await, Edited::Done { seq: None });
        }
        let mut taken = fixture.take(9).await;
        taken.sort();
        assert_eq!(taken, ["bad.test", "good.example"]);
        fixture
            .judge("good.example", Verdict::Relevant, Vec::new())
            .await;
        fixture
            .judge("bad.test", Verdict::Irrelevant, Vec::new())
            .await;
        let file = fixture.store.site(fixture.topic, &site("bad.test")).await;
        let file = file.expect("a read").expect("a file");
        assert!(file.is_listed && file.decision.is_some());
        assert_eq!(file.judged.expect("a verdict").verdict, Verdict::Irrelevant);
        let listed: BTreeMap<String, &str> = feed(&fixture, 0)
            .await
            .into_iter()
            .map(|(_, host, change, _)| (host, change))
            .collect();
        assert_eq!(listed["good.example"], "dropped");
        assert!(["added", "changed"].contains(&listed["bad.test"]));
        // Without the decision, the verdict counts again.
        decide(&fixture, "good.example", None).await;
        decide(&fixture, "bad.test", None).await;
        let entries = feed(&fixture, 5).await;
        let entries: Vec<(&str, &str, &str)> = entries
            .iter()
            .map(|(_, host, change, reason)| (host.as_str(), *change, reason.as_str()))
            .collect();
        assert_eq!(
            entries,
            [
                ("good.example", "added", "withdrawn"),
                ("bad.test", "dropped", "withdrawn")
            ]
        );
    }
}

#[tokio::test]
async fn an_unvisited_site_cannot_be_decided_on() {
    for fixture in three().await {
        fixture.enter(&["new.example"], false).await;
        let decided = decide(&fixture, "new.example", Some(Opinion::Accept)).await;
        assert_eq!(decided, Edited::NotVisited);
        assert_eq!(recheck(&fixture, "new.example").await, Edited::NotVisited);
        let unheard = decide(&fixture, "unheard.example", Some(Opinion::Accept)).await;
        assert_eq!(unheard, Edited::Unknown);
        assert_eq!(recheck(&fixture, "unheard.example").await, Edited::Unknown);
        let decisions = fixture.store.decisions(fixture.topic, None, 9).await;
        assert!(decisions.expect("decisions").is_empty());
    }
}

#[tokio::test]
async fn a_site_that_changes_is_listed_by_its_last_change() {
    for fixture in three().await {
        for (number, verdict, change) in [
            (4, Verdict::Irrelevant, ("dropped", "irrelevant")),
            (5, Verdict::Relevant, ("added", "judged")),
            (
                6,
                Verdict::Undecided(UndecidedReason::Parked),
                ("dropped", "parked"),
            ),
            (
                7,
                Verdict::Undecided(UndecidedReason::Failing),
                ("dropped", "parked"),
            ),
        ] {
            recheck(&fixture, "good.example").await;
            assert_eq!(fixture.take(1).await, ["good.example"]);
            fixture.judge("good.example", verdict, Vec::new()).await;
            let number = number.min(6);
            let wanted = line(number, "good.example", change.0, change.1);
            assert_eq!(feed(&fixture, 0).await, [wanted]);
        }
    }
}

#[tokio::test]
async fn an_alias_says_where_it_leads() {
    for fixture in three().await {
        recheck(&fixture, "good.example").await;
        fixture.take(1).await;
        let alias = Verdict::Undecided(UndecidedReason::Alias);
        let mut moved = fixture.outcome("good.example", alias, Vec::new());
        moved.report.alias_of = Some(home("better.example"));
        fixture.store.record(vec![moved]).await.expect("a record");
        let entries = fixture
            .store
            .feed(fixture.topic, 1, 9)
            .await
            .expect("a feed");
        assert_eq!(entries[0].change, ListChange::Alias);
        let target = entries[0].judged.alias_of.as_ref().expect("a target");
        assert_eq!(target.site(), site("better.example"));
    }
}

#[tokio::test]
async fn a_blocked_host_leaves_at_once_is_not_visited_and_may_come_back() {
    for fixture in three().await {
        fixture.enter(&["new.example"], false).await;
        for host in ["good.example", "new.example"] {
            let (site, note) = (site(host), "spam".to_owned());
            let blocked = edit(&fixture, Edit::Block { site, note }).await;
            assert_eq!(blocked, Edited::Done { seq: None });
        }
        assert_eq!(
            feed(&fixture, 1).await,
            [line(4, "good.example", "dropped", "blocked")]
        );
        // Not even an editor gets it back.
        decide(&fixture, "good.example", Some(Opinion::Accept)).await;
        assert_eq!(
            feed(&fixture, 4).await,
            [line(5, "good.example", "dropped", "blocked")]
        );
        decide(&fixture, "good.example", None).await;
        let taking = TakeRequest::any(9, clock::now());
        let taken = fixture.take_sites(taking).await;
        let handed_out = |taken: &ClaimedSite| (taken.site().to_string(), taken.is_blocked);
        let handed_out: Vec<(String, bool)> = taken.iter().map(handed_out).collect();
        assert_eq!(handed_out, [("new.example".to_owned(), true)]);
        let refused = Verdict::Undecided(UndecidedReason::Blocked);
        fixture.judge("new.example", refused, Vec::new()).await;
        let blocks = fixture.store.blocks(None, 9).await.expect("blocks");
        let hosts: Vec<&str> = blocks.iter().map(|(site, _)| site.as_str()).collect();
        assert_eq!(hosts, ["good.example", "new.example"]);
        for (site, block) in blocks {
            assert_eq!(block.note, "spam");
            edit(&fixture, Edit::Unblock { site }).await;
        }
        let entries = feed(&fixture, 6).await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(
            (entries[0].2, entries[0].3.as_str()),
            ("added", "unblocked")
        );
        assert_eq!(fixture.take(9).await, ["new.example"], "it gets its visit");
        let nothing = site("good.example");
        let again = edit(&fixture, Edit::Unblock { site: nothing }).await;
        assert_eq!(again, Edited::Unchanged);
    }
}

#[tokio::test]
async fn the_lists_of_the_operator_clean_the_list_when_a_topic_is_opened() {
    for fixture in three().await {
        let with = |block: &[&str]| TopicOpening {
            hosts: Arc::new(HostLists::new(
                &block
                    .iter()
                    .map(|host| (*host).to_owned())
                    .collect::<Vec<_>>(),
                &[],
            )),
            ..opening(Combined)
        };
        fixture
            .store
            .open_topic(with(&["*.example"]))
            .await
            .expect("a topic");
        assert_eq!(
            feed(&fixture, 0).await,
            [line(4, "good.example", "dropped", "blocked")]
        );
        fixture
            .store
            .open_topic(with(&["*.example"]))
            .await
            .expect("a topic");
        assert_eq!(feed(&fixture, 4).await, [], "once is enough");
        // Judged while blocked; when unblocked, its entry comes after every cursor.
        judged(&fixture, &[("late.example", Verdict::Relevant)]).await;
        assert_eq!(feed(&fixture, 4).await, []);
        fixture.store.open_topic(with(&[])).await.expect("a topic");
        assert_eq!(
            feed(&fixture, 5).await,
            [
                line(6, "good.example", "added", "judged"),
                line(7, "late.example", "added", "judged")
            ]
        );
    }
}

#[tokio::test]
async fn a_reader_of_a_feed_is_woken_when_there_is_a_change_and_not_before() {
    for fixture in three().await {
        let head = async || {
            let heads = fixture.store.heads().await.expect("a store");
            (heads.last_number, heads.lists[&fixture.topic])
        };
        let (_, first) = head().await;
        assert_eq!(first, 1);
        let mut waiting = std::pin::pin!(fixture.store.wait_for_change(fixture.topic, first));
        judged(&fixture, &[("dull.test", Verdict::Irrelevant)]).await;
        tokio::select! {
            biased;
            _ = waiting.as_mut() => panic!("no site was listed"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(head().await.1, 1);
        judged(&fixture, &[("fine.test", Verdict::Relevant)]).await;
        waiting.await.expect("a store");
        assert_eq!(head().await, (5, 5));
    }
}

#[tokio::test]
async fn the_queue_begins_with_the_most_informative_sites() {
    for fixture in StoreFixture::all().await {
        let sites = [
            ("sure.example", 0.99, Verdict::Relevant),
            ("unsure.test", 0.55, Verdict::Relevant),
            ("disputed.org", 0.02, Verdict::Irrelevant),
            (
                "dead.net",
                0.5,
                Verdict::Undecided(UndecidedReason::Failing),
            ),
        ];
        let hosts: Vec<&str> = sites.iter().map(|(host, ..)| *host).collect();
        fixture.enter(&hosts, false).await;
        fixture.take(9).await;
        for (host, confidence, verdict) in sites {
            let mut outcome = fixture.outcome(host, verdict, Vec::new());
            outcome.report.confidence = SiteConfidence::new(confidence).expect("a confidence");
            outcome.rank = if host == "unsure.test" { 0.45 } else { 0.9 };
            fixture.store.record(vec![outcome]).await.expect("a record");
        }
        let queue = async || -> Vec<String> {
            let queue = fixture
                .store
                .queue(fixture.topic, 9)
                .await
                .expect("a queue");
            let uses: Vec<f64> = queue.iter().map(|(_, usefulness)| *usefulness).collect();
            assert!(uses.is_sorted_by(|one, next| one >= next), "{uses:?}");
            let hosts = queue.iter().map(|(found, _)| found.judged.site.to_string());
            hosts.collect()
        };
        let all = ["unsure.test", "disputed.org", "sure.example"];
        assert_eq!(queue().await, all);
        decide(&fixture, "unsure.test", Some(Opinion::Reject)).await;
        assert_eq!(queue().await, all[1..]);
        // A new verdict does not put it back into the queue, a withdrawn decision does.
        recheck(&fixture, "unsure.test").await;
        fixture.take(9).await;
        fixture
            .judge("unsure.test", Verdict::Relevant, Vec::new())
            .await;
        assert_eq!(queue().await, all[1..]);
        decide(&fixture, "unsure.test", None).await;
        let mut asked = queue().await;
        asked.sort();
        assert_eq!(asked, ["disputed.org", "sure.example", "unsure.test"]);
    }
}

fn any_site() -> SiteQuery {
    SiteQuery::default()
}

/// The hosts that a query finds, read page by page.
async fn found(store: &dyn ReadStore, query: SiteQuery) -> Vec<String> {
    let (mut hosts, mut after) = (Vec::new(), query.after.clone());
    loop {
        let query = SiteQuery {
            after,
            ..query.clone()
        };
        let portion = store.find(query).await.expect("sites");
        let found = portion.sites.into_iter();
        hosts.extend(found.map(|found| found.judged.site.to_string()));
        after = portion.next;
        if after.is_none() {
            return hosts;
        }
    }
}

#[tokio::test]
async fn sites_are_found_in_portions_of_any_size_in_any_order() {
    for fixture in three().await {
        let store = &fixture.store;
        let all = ["good.example", "bad.test", "parked.org"];
        for most in [1, 2, 3, 4] {
            let query = SiteQuery {
                limit: most,
                ..any_site()
            };
            assert_eq!(found(&**store, query.clone()).await, all);
            let newest = SiteQuery {
                order: SortOrder::Newest,
                ..query.clone()
            };
            assert_eq!(
                found(&**store, newest).await,
                ["parked.org", "bad.test", "good.example"]
            );
            let by_host = SiteQuery {
                host_prefix: Some(String::new()),
                ..query
            };
            assert_eq!(
                found(&**store, by_host).await,
                ["bad.test", "good.example", "parked.org"]
            );
        }
    }
}

#[tokio::test]
async fn sites_are_found_by_what_they_are() {
    for fixture in three().await {
        let store = &fixture.store;
        decide(&fixture, "bad.test", Some(Opinion::Accept)).await;
        let wrong_topic = TopicOpening {
            name: "another".to_owned(),
            ..opening(Combined)
        };
        let another: TopicId = store.open_topic(wrong_topic).await.expect("a topic");
        let none: [&str; 0] = [];
        let cases: [(SiteQuery, &[&str]); 9] = [
            (
                SiteQuery {
                    verdict: Some(VerdictKind::Undecided),
                    ..any_site()
                },
                &["parked.org"],
            ),
            (
                SiteQuery {
                    decision: Some(Some(Opinion::Accept)),
                    ..any_site()
                },
                &["bad.test"],
            ),
            (
                SiteQuery {
                    decision: Some(None),
                    ..any_site()
                },
                &["good.example", "parked.org"],
            ),
            (
                SiteQuery {
                    confidence: (0.8, 1.0),
                    ..any_site()
                },
                &none,
            ),
            (
                SiteQuery {
                    judged: (None, Some(SystemTime::UNIX_EPOCH)),
                    ..any_site()
                },
                &none,
            ),
            (
                SiteQuery {
                    topic: Some(fixture.topic),
                    host_prefix: Some("go".to_owned()),
                    ..any_site()
                },
                &["good.example"],
            ),
            (
                SiteQuery {
                    topic: Some(another),
                    ..any_site()
                },
                &none,
            ),
            (
                SiteQuery {
                    topic: Some(another),
                    host_prefix: Some("go".to_owned()),
                    ..any_site()
                },
                &none,
            ),
            (
                SiteQuery {
                    after: Some(SiteCursor::Number(2)),
                    ..any_site()
                },
                &["parked.org"],
            ),
        ];
        for (query, wanted) in cases {
            assert_eq!(found(&**store, query.clone()).await, wanted, "{query:?}");
        }
    }
}

#[tokio::test]
async fn everything_people_said_survives_a_dump() {
    for fixture in three().await {
        decide(&fixture, "bad.test", Some(Opinion::Accept)).await;
        let (site, note) = (site("good.example"), "spam".to_owned());
        edit(&fixture, Edit::Block { site, note }).await;
        let (topic, is_paused) = (fixture.topic, true);
        edit(&fixture, Edit::Pause { topic, is_paused }).await;
        assert!(fixture.store.is_paused(topic).await.expect("a read"));
        for form in [DumpForm::WithLists, DumpForm::WithoutLists] {
            for place in places() {
                check_copy(&fixture, place.open().await, form).await;
            }
        }
    }
}

/// A dump has lists, or is in the format of versions without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DumpForm {
    WithLists,
    WithoutLists,
}

/// Dumps a store into another, and compares what people said.
async fn check_copy(fixture: &StoreFixture, other: Arc<dyn FullStore>, form: DumpForm) {
    let topic = fixture.topic;
    let with_lists = form == DumpForm::WithLists;
    let mut lines = fixture.store.dump();
    while let Some(line) = lines.recv().await {
        let line = line.expect("a line");
        let value: Value = serde_json::to_value(&line).expect("JSON");
        if with_lists || value["record"] != "listing" {
            other.load(vec![line]).await.expect("a load");
        }
    }
    other.open_topic(opening(Combined)).await.expect("a topic");
    let copy = StoreFixture::of(other, topic);
    let entries = feed(&copy, 0).await;
    let listed: Vec<(&str, &str)> = entries
        .iter()
        .map(|(_, host, change, _)| (host.as_str(), *change))
        .collect();
    if with_lists {
        assert_eq!(entries, feed(fixture, 0).await);
    } else {
        assert_eq!(listed, [("bad.test", "added")]);
    }
    assert!(copy.store.is_paused(topic).await.expect("a read"));
    let identity = async |store: &dyn ReadStore| store.identity().await.expect("a name");
    assert_ne!(
        identity(&*copy.store).await,
        identity(&*fixture.store).await
    );
    assert_eq!(
        copy.store.blocks(None, 9).await.expect("blocks"),
        fixture.store.blocks(None, 9).await.expect("blocks")
    );
    assert_eq!(
        copy.store.decisions(topic, None, 9).await.expect("read"),
        fixture.store.decisions(topic, None, 9).await.expect("read")
    );
    assert_eq!(
        copy.store.queue(topic, 9).await.expect("a queue"),
        fixture.store.queue(topic, 9).await.expect("a queue")
    );
}

#[tokio::test]
async fn a_crawl_leaves_a_curve() {
    for fixture in StoreFixture::all().await {
        let hosts: Vec<String> = (0..40).map(|number| format!("h{number}.test")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        fixture.enter(&hosts, false).await;
        fixture.take(40).await;
        for (at, host) in hosts.iter().enumerate() {
            let verdict = match at % 4 {
                0 => Verdict::Relevant,
                _ => Verdict::Irrelevant,
            };
            fixture.judge(host, verdict, Vec::new()).await;
        }
        let curve = fixture.store.curve(fixture.topic).await.expect("a curve");
        let pages: Vec<u64> = curve.iter().map(|point| point.pages).collect();
        assert_eq!(pages, [10, 20, 30, 40, 50, 60, 70, 80]);
        let last = curve[7];
        assert_eq!((last.finds, last.irrelevant, last.border), (10, 30, 0));
        assert_eq!((last.pprs, last.harvest), (Some(8.0), Some(0.25)));
    }
}

/// What can happen to one of three sites.
#[derive(Debug, Clone, Copy)]
enum Event {
    Judged(bool),
    Decided(Option<Opinion>),
    Blocked(bool),
}

fn events() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let event = prop_oneof![
        any::<bool>().prop_map(Event::Judged),
        prop_oneof![
            Just(None),
            Just(Some(Opinion::Accept)),
            Just(Some(Opinion::Reject))
        ]
        .prop_map(Event::Decided),
        any::<bool>().prop_map(Event::Blocked),
    ];
    prop::collection::vec((0_usize..3, event), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A follower that reads at arbitrary times ends with the list of the store.
    #[test]
    fn a_follower_ends_with_the_list_of_the_store(
        events in events(),
        pauses in prop::collection::vec(1_usize..6, 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            for fixture in StoreFixture::all().await {
                check_follower(&fixture, &events, &pauses).await;
            }
        });
    }
}

/// Follows the list of a store while these events happen, and compares the two at the end.
async fn check_follower(fixture: &StoreFixture, events: &[(usize, Event)], pauses: &[usize]) {
    let hosts = ["a.example", "b.test", "c.org"];
    let first = hosts.map(|host| (host, Verdict::Irrelevant));
    judged(fixture, &first).await;
    let (mut after, mut followed) = (0, BTreeSet::new());
    let mut pauses = pauses.iter().copied().cycle();
    let mut rest = pauses.next().expect("a pause");
    for (number, event) in events.iter().copied() {
        let host = hosts[number];
        match event {
            Event::Judged(is_relevant) => {
                recheck(fixture, host).await;
                let verdict = if is_relevant {
                    Verdict::Relevant
                } else {
                    Verdict::Irrelevant
                };
                if fixture.take(1).await == [host] {
                    fixture.judge(host, verdict, Vec::new()).await;
                }
            }
            Event::Decided(opinion) => {
                decide(fixture, host, opinion).await;
            }
            Event::Blocked(true) => {
                let (site, note) = (site(host), String::new());
                edit(fixture, Edit::Block { site, note }).await;
            }
            Event::Blocked(false) => {
                let site = site(host);
                edit(fixture, Edit::Unblock { site }).await;
            }
        }
        rest -= 1;
        if rest == 0 {
            follow(fixture, &mut after, &mut followed).await;
            rest = pauses.next().expect("a pause");
        }
    }
    follow(fixture, &mut after, &mut followed).await;
    let mut listed = BTreeSet::new();
    for host in hosts {
        let file = fixture.store.site(fixture.topic, &site(host)).await;
        let file = file.expect("a read").expect("a file");
        let blocked = fixture.store.block_of(&site(host)).await.expect("a read");
        let wanted = match &file.decision {
            Some(decision) => decision.opinion == Opinion::Accept,
            None => file.judged.expect("a verdict").verdict.is_relevant(),
        };
        assert_eq!(file.is_listed, wanted && blocked.is_none(), "{host}");
        if file.is_listed {
            listed.insert(host.to_owned());
        }
    }
    assert_eq!(followed, listed);
}

async fn follow(fixture: &StoreFixture, after: &mut u64, followed: &mut BTreeSet<String>) {
    for (seq, host, change, _) in feed(fixture, *after).await {
        assert!(seq > *after);
        *after = seq;
        match change {
            "added" | "changed" => followed.insert(host),
            _ => followed.remove(&host),
        };
    }
}
