//! The contract of `CrawlStore`, checked on every store.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::json;
use sitescout::config::{EdgeRetention, OldVerdicts, StoreSettings};
use sitescout::store::{
    Averaging, BorderCaps, CLAIM_TERM, Claim, ClaimedSite, DumpStore, Edit, KeyValueStore, NewEdge,
    NewSite, Rank, Ranking, Recorded, Resolution, Standing, Store, StoreError, TakeRequest, Tally,
    TopicId, TopicOpening, VisitOutcome,
};
use sitescout::telemetry::clock::{self, TestClock};
use sitescout::web::{
    DeferralCause, ModelFingerprint, PageUrl, SiteConfidence, SiteId, SiteReport, SiteVisit,
    StopReason, UndecidedReason, Verdict,
};
use tokio::time::sleep;

/// The mean of global and local weights, ties by the number of edges.
pub(crate) struct Combined;

impl Ranking for Combined {
    fn name(&self) -> &'static str {
        "combined"
    }

    fn rank(&self, standing: &Standing) -> Rank {
        if standing.is_start {
            Rank {
                value: 1.0,
                tie: u32::MAX,
            }
        } else {
            Rank {
                value: f64::midpoint(standing.global, standing.local),
                tie: standing.edges,
            }
        }
    }
}

/// The same, where each edge counts alike.
struct ByEdge;

impl Ranking for ByEdge {
    fn name(&self) -> &'static str {
        "by-edge"
    }

    fn rank(&self, standing: &Standing) -> Rank {
        Combined.rank(standing)
    }

    fn averaging(&self) -> Averaging {
        Averaging::ByEdge
    }
}

/// In the order of discovery.
pub(crate) struct FirstCome;

impl Ranking for FirstCome {
    fn name(&self) -> &'static str {
        "first-come"
    }

    fn rank(&self, _: &Standing) -> Rank {
        Rank { value: 0.0, tie: 0 }
    }
}

/// The model of all reports below.
const MODEL: ModelFingerprint = ModelFingerprint::from_bits(7);

/// How often a store is tried that is being closed, and the pause in between.
const TRIES: usize = 500;
const TRY_INTERVAL: Duration = Duration::from_millis(20);

const DAY: Duration = Duration::from_hours(24);
const RECHECK_AFTER: Duration = Duration::from_hours(24 * 30);

pub(crate) fn opening(ranking: impl Ranking + 'static) -> TopicOpening {
    TopicOpening {
        name: "sailing".to_owned(),
        ranking: Arc::new(ranking),
        caps: BorderCaps::per_domain(3),
        model: MODEL,
        old_verdicts: OldVerdicts::Keep,
        recheck_after: Some(RECHECK_AFTER),
        watched_pages: 5_000,
        hosts: Arc::default(),
        platforms: Arc::default(),
    }
}

/// A busy site is deferred until then.
fn deferred_until(not_before: SystemTime) -> UndecidedReason {
    let cause = DeferralCause::Busy;
    UndecidedReason::Deferred { not_before, cause }
}

/// A store with all of its traits.
pub(crate) trait FullStore: Store + DumpStore {}

impl<S: Store + DumpStore> FullStore for S {}

/// Opens a store: the first call creates it, later ones find it as it was left.
type Open = Box<dyn Fn(&StoreSettings) -> Result<Arc<dyn FullStore>, StoreError>>;

/// Makes a store look as if the process that had it open had been killed. Returns false while it is being
/// closed.
type MarkKilled = Box<dyn Fn() -> bool>;

/// Where a store is.
pub(crate) struct Place {
    open: Open,
    /// None if a store does not outlive its process.
    mark_killed: Option<MarkKilled>,
}

/// A new place for a store of each engine. A further engine is an item here; every test then checks its
/// stores.
const ENGINES: [fn() -> Place; 2] = [on_disk, in_memory];

/// New places, one for each engine.
pub(crate) fn places() -> impl Iterator<Item = Place> {
    ENGINES.iter().map(|place| place())
}

/// New places for stores that outlive their process, one for each such engine.
pub(crate) fn durable_places() -> impl Iterator<Item = Place> {
    places().filter(|place| place.mark_killed.is_some())
}

fn on_disk() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state");
    // A process removes the mark when it ends by itself.
    let in_use = path.join("sitescout-in-use");
    let Place { open, .. } = place_at(&path);
    Place {
        open: Box::new(move |settings| {
            let _kept = &directory;
            open(settings)
        }),
        mark_killed: Some(Box::new(move || {
            let is_closed = !in_use.exists();
            if is_closed {
                std::fs::write(&in_use, "").expect("a file");
            }
            is_closed
        })),
    }
}

fn place_at(directory: &Path) -> Place {
    let directory = directory.to_owned();
    Place {
        open: Box::new(move |settings| Ok(Arc::new(KeyValueStore::open(&directory, settings)?))),
        mark_killed: None,
    }
}

fn in_memory() -> Place {
    Place {
        open: Box::new(|settings| Ok(Arc::new(KeyValueStore::in_memory_with(settings)?))),
        mark_killed: None,
    }
}

// === impl Place ===

impl Place {
    /// Opens a store that another handle may just be closing.
    pub(crate) async fn open(&self) -> Arc<dyn FullStore> {
        self.open_with(&StoreSettings::default()).await
    }

    async fn open_with(&self, settings: &StoreSettings) -> Arc<dyn FullStore> {
        for _ in 0..TRIES {
            match (self.open)(settings) {
                Err(StoreError::Locked(_)) => sleep(TRY_INTERVAL).await,
                opened => return opened.expect("a store"),
            }
        }
        panic!("the store is never closed");
    }

    /// Leaves a store as a process does that is killed.
    pub(crate) async fn kill(&self, store: Arc<dyn FullStore>) {
        drop(store);
        let mark_killed = self.mark_killed.as_ref().expect("a durable store");
        for _ in 0..TRIES {
            if mark_killed() {
                return;
            }
            sleep(TRY_INTERVAL).await;
        }
        panic!("the store is never closed");
    }
}

/// A store with one topic.
pub(crate) struct StoreFixture {
    pub(crate) store: Arc<dyn FullStore>,
    pub(crate) topic: TopicId,
    /// The last claim on each site.
    claims: Mutex<BTreeMap<SiteId, Claim>>,
    /// Keeps the directory of the store.
    #[allow(dead_code, reason = "held for its drop")]
    place: Option<Place>,
}

impl StoreFixture {
    /// One whose topic is open already.
    pub(crate) fn of(store: Arc<dyn FullStore>, topic: TopicId) -> Self {
        Self {
            store,
            topic,
            claims: Mutex::default(),
            place: None,
        }
    }

    pub(crate) async fn over(store: Arc<dyn FullStore>) -> Self {
        let topic = store.open_topic(opening(Combined)).await.expect("a topic");
        Self::of(store, topic)
    }

    /// One with a store of each engine.
    pub(crate) async fn all() -> Vec<Self> {
        Self::all_with(&StoreSettings::default()).await
    }

    async fn all_with(settings: &StoreSettings) -> Vec<Self> {
        let mut all = Vec::new();
        for place in places() {
            let mut fixture = Self::over(place.open_with(settings).await).await;
            fixture.place = Some(place);
            all.push(fixture);
        }
        all
    }

    /// One with a store that is gone with it.
    async fn in_memory() -> Self {
        Self::over(in_memory().open().await).await
    }

    pub(crate) async fn enter(&self, hosts: &[&str], is_start: bool) -> usize {
        let sites = hosts.iter().map(|host| NewSite {
            entrance: home(host),
            is_start,
        });
        let entered = self.store.enter(self.topic, sites.collect()).await;
        entered.expect("room for sites")
    }

    pub(crate) async fn take(&self, most: usize) -> Vec<String> {
        self.take_at(most, clock::now()).await
    }

    async fn take_at(&self, most: usize, now: SystemTime) -> Vec<String> {
        let taken = self.take_sites(TakeRequest::any(most, now)).await;
        taken.iter().map(|taken| taken.site().to_string()).collect()
    }

    /// Takes sites, and remembers the claims on them.
    pub(crate) async fn take_sites(&self, taking: TakeRequest) -> Vec<ClaimedSite> {
        let taken = self.store.take(self.topic, taking).await;
        let taken = taken.expect("sites").sites;
        let claims = taken
            .iter()
            .map(|taken| (taken.site().clone(), taken.claim.clone()));
        self.claims.lock().expect("no panic").extend(claims);
        taken
    }

    /// The last claim on a site.
    fn claim(&self, host: &str) -> Claim {
        let site: SiteId = host.parse().expect("a host");
        self.claims.lock().expect("no panic")[&site].clone()
    }

    /// Reports on a site under its last claim.
    pub(crate) fn outcome(
        &self,
        host: &str,
        verdict: Verdict,
        edges: Vec<NewEdge>,
    ) -> VisitOutcome {
        outcome(self.claim(host), verdict, edges)
    }

    /// Takes a site, whichever it is, and reports these edges from it.
    pub(crate) async fn judge(
        &self,
        host: &str,
        verdict: Verdict,
        edges: Vec<NewEdge>,
    ) -> Option<u64> {
        let outcome = self.outcome(host, verdict, edges);
        let recorded = self.store.record(vec![outcome]).await;
        recorded.expect("a record")[0].seq()
    }
}

pub(crate) fn home(host: &str) -> PageUrl {
    format!("https://{host}/").parse().expect("an address")
}

pub(crate) fn edge(host: &str, global: f64, local: f64) -> NewEdge {
    NewEdge {
        entrance: home(host),
        global,
        local,
        pages: 1,
    }
}

pub(crate) fn outcome(claim: Claim, verdict: Verdict, edges: Vec<NewEdge>) -> VisitOutcome {
    let visit = SiteVisit::at(&home(claim.site.as_str()));
    let mut report = SiteReport::interrupted(visit, MODEL);
    report.verdict = verdict;
    report.stop_reason = StopReason::Confident;
    report.confidence = SiteConfidence::new(0.75).expect("a confidence");
    report.cost.pages = 2;
    let resolution = match verdict.undecided_reason() {
        Some(UndecidedReason::Deferred { not_before, .. }) => Resolution::Deferred(not_before),
        Some(UndecidedReason::Interrupted) => Resolution::PutBack,
        _ => Resolution::Judged,
    };
    VisitOutcome {
        claim,
        report,
        edges,
        rank: 0.5,
        resolution,
        keep_evidence: true,
    }
}

#[tokio::test]
async fn the_best_comes_first_then_the_most_recommended_then_the_first_found() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["start.example", "other.test"], true).await;
        assert_eq!(fixture.take(9).await, ["start.example", "other.test"]);
        let edges = vec![
            edge("middle.example", 0.6, 0.7),
            edge("first.example", 0.5, 0.5),
            edge("second.example", 0.5, 0.5),
            edge("best.example", 0.9, 0.9),
            edge("twice.example", 0.5, 0.5),
        ];
        fixture
            .judge("start.example", Verdict::Relevant, edges)
            .await;
        let again = vec![edge("twice.example", 0.5, 0.5)];
        fixture.judge("other.test", Verdict::Relevant, again).await;
        assert_eq!(
            fixture.take(9).await,
            [
                "best.example",
                "middle.example",
                "twice.example",
                "first.example",
                "second.example"
            ]
        );
        assert_eq!(
            fixture.take(9).await,
            [""; 0],
            "no site is handed out twice"
        );
    }
}

/// By hand: one domain recommends with 0.9 three times, another with 0.1 once. A farm counts
/// once, so the mean is 0.5 and not 0.7.
#[tokio::test]
async fn a_farm_of_hosts_counts_once() {
    for fixture in StoreFixture::all().await {
        let farm = ["a.farm.test", "b.farm.test", "c.farm.test"];
        fixture.enter(&farm, true).await;
        fixture.enter(&["honest.test"], true).await;
        fixture.take(9).await;
        for host in farm {
            fixture
                .judge(host, Verdict::Relevant, vec![edge("target.org", 0.9, 0.9)])
                .await;
        }
        let edges = vec![edge("target.org", 0.1, 0.1)];
        fixture
            .judge("honest.test", Verdict::Irrelevant, edges)
            .await;
        let site: SiteId = "target.org".parse().expect("a host");
        let file = fixture
            .store
            .site(fixture.topic, &site)
            .await
            .expect("a read");
        let file = file.expect("a file");
        assert_eq!((file.standing.edges, file.standing.domains), (4, 2));
        assert!((file.standing.global - 0.5).abs() < 1e-6, "{file:?}");
        assert_eq!(file.recommended_by.len(), 4);
    }
}

/// The same farm, where its mean is 0.7 because each edge counts alike. Another ranking
/// recomputes the averages of what is there already.
#[tokio::test]
async fn edges_count_alike_if_the_ranking_says_so() {
    for fixture in StoreFixture::all().await {
        let open = async |ranking: TopicOpening| {
            let topic = fixture.store.open_topic(ranking).await.expect("a topic");
            assert_eq!(topic, fixture.topic);
        };
        let mean = async || {
            let site: SiteId = "target.org".parse().expect("a host");
            let file = fixture
                .store
                .site(fixture.topic, &site)
                .await
                .expect("a read");
            let standing = file.expect("a file").standing;
            assert!((standing.global - standing.local).abs() < 1e-6);
            assert_eq!(standing.edges, 4);
            standing.global
        };
        let is_near = |one: f64, other: f64| (one - other).abs() < 1e-6;
        open(opening(ByEdge)).await;
        let farm = ["a.farm.test", "b.farm.test", "c.farm.test"];
        fixture.enter(&farm, true).await;
        fixture.enter(&["honest.test"], true).await;
        fixture.take(9).await;
        for host in farm {
            let edges = vec![edge("target.org", 0.9, 0.9), edge("rival.org", 0.6, 0.6)];
            fixture.judge(host, Verdict::Relevant, edges).await;
        }
        let edges = vec![edge("target.org", 0.1, 0.1)];
        fixture
            .judge("honest.test", Verdict::Irrelevant, edges)
            .await;
        assert!(is_near(mean().await, 0.7));
        open(opening(Combined)).await;
        assert!(is_near(mean().await, 0.5));
        open(opening(ByEdge)).await;
        assert!(is_near(mean().await, 0.7));
        assert_eq!(fixture.take(9).await, ["target.org", "rival.org"]);
    }
}

#[tokio::test]
async fn verdicts_are_numbered_without_gaps_and_can_be_read_on() {
    for fixture in StoreFixture::all().await {
        let hosts = ["a.example", "b.test", "c.org", "d.net"];
        fixture.enter(&hosts, false).await;
        fixture.take(9).await;
        let verdicts = [
            Verdict::Relevant,
            Verdict::Irrelevant,
            Verdict::Undecided(UndecidedReason::Parked),
            Verdict::Relevant,
        ];
        for (at, (host, verdict)) in hosts.into_iter().zip(verdicts).enumerate() {
            let seq = fixture.judge(host, verdict, Vec::new()).await;
            assert_eq!(seq, Some(at as u64 + 1));
        }
        let read = |after| fixture.store.judged(fixture.topic, after, 2);
        let first = read(0).await.expect("verdicts");
        let rest = read(first[1].seq).await.expect("verdicts");
        let all: Vec<(u64, String, Verdict)> = first
            .into_iter()
            .chain(rest)
            .map(|judged| (judged.seq, judged.site.to_string(), judged.verdict))
            .collect();
        let wanted = (1..).zip(hosts).zip(verdicts);
        let wanted: Vec<(u64, String, Verdict)> = wanted
            .map(|((seq, host), verdict)| (seq, host.to_owned(), verdict))
            .collect();
        assert_eq!(all, wanted);
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!(
            (totals.relevant, totals.irrelevant, totals.undecided),
            (2, 1, 1)
        );
        assert_eq!((totals.finds, totals.pages), (2, 8));
        assert_eq!((totals.border, totals.taken, totals.deferred), (0, 0, 0));
    }
}

#[tokio::test]
async fn start_sites_come_first_and_are_no_finds() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["hub.example"], true).await;
        fixture.take(1).await;
        let edges = vec![edge("sure.org", 1.0, 1.0)];
        fixture.judge("hub.example", Verdict::Relevant, edges).await;
        fixture.enter(&["late.test"], true).await;
        assert_eq!(fixture.take(2).await, ["late.test", "sure.org"]);
        fixture
            .judge("late.test", Verdict::Relevant, Vec::new())
            .await;
        fixture
            .judge("sure.org", Verdict::Relevant, Vec::new())
            .await;
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.relevant, totals.finds), (3, 1));
    }
}

#[tokio::test]
async fn deferred_sites_come_back_when_they_are_due_and_not_before() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["shy.example"], false).await;
        fixture.take(1).await;
        let now = clock::now();
        let not_before = now + Duration::from_hours(1);
        let deferred = Verdict::Undecided(deferred_until(not_before));
        let seq = fixture.judge("shy.example", deferred, Vec::new()).await;
        assert_eq!(seq, None, "no verdict");
        assert_eq!(fixture.take_at(9, now).await, [""; 0]);
        let due = fixture.store.next_due(fixture.topic).await.expect("a read");
        let due = due.deferred.expect("a time");
        let due = due.duration_since(now).expect("later");
        assert!(due > Duration::from_mins(59) && due <= Duration::from_hours(1));
        assert_eq!(fixture.take_at(9, not_before).await, ["shy.example"]);
        fixture
            .judge("shy.example", Verdict::Relevant, Vec::new())
            .await;
        assert_eq!(fixture.take_at(9, not_before).await, [""; 0]);
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.deferred, totals.relevant, totals.pages), (0, 1, 4));
    }
}

#[tokio::test]
async fn a_visit_that_is_broken_off_leaves_the_site_where_it_was() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["a.example", "b.test"], false).await;
        assert_eq!(fixture.take(1).await, ["a.example"]);
        let interrupted = Verdict::Undecided(UndecidedReason::Interrupted);
        let seq = fixture.judge("a.example", interrupted, Vec::new()).await;
        assert_eq!(seq, None);
        assert_eq!(fixture.take(9).await, ["a.example", "b.test"]);
    }
}

#[tokio::test]
async fn an_alias_leaves_its_edges_to_the_site_it_leads_to() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["fan.test", "friend.org"], true).await;
        fixture.take(9).await;
        for host in ["fan.test", "friend.org"] {
            let edges = vec![edge("old.example", 0.8, 0.6), edge("dull.net", 0.3, 0.3)];
            fixture.judge(host, Verdict::Relevant, edges).await;
        }
        assert_eq!(fixture.take(1).await, ["old.example"]);
        let alias = Verdict::Undecided(UndecidedReason::Alias);
        let mut outcome = fixture.outcome("old.example", alias, Vec::new());
        outcome.report.alias_of = Some("https://new.example/home".parse().expect("an address"));
        fixture.store.record(vec![outcome]).await.expect("a record");
        let taking = TakeRequest::any(1, clock::now());
        let taken = fixture.store.take(fixture.topic, taking).await;
        let [heir] = &taken.expect("sites").sites[..] else {
            panic!("one site");
        };
        assert_eq!(heir.entrance, home("new.example"));
        assert_eq!(heir.standing.edges, 2);
        assert!((heir.rank - 0.7).abs() < 1e-6, "{heir:?}");
    }
}

#[tokio::test]
async fn a_later_recommendation_of_an_alias_counts_for_the_site_it_leads_to() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["old.example", "fan.test"], true).await;
        fixture.take(9).await;
        let alias = Verdict::Undecided(UndecidedReason::Alias);
        let mut outcome = fixture.outcome("old.example", alias, Vec::new());
        outcome.report.alias_of = Some(home("new.org"));
        fixture.store.record(vec![outcome]).await.expect("a record");
        let edges = vec![edge("old.example", 0.8, 0.6)];
        fixture.judge("fan.test", Verdict::Relevant, edges).await;
        let recommended_by = async |host: &str| {
            let site: SiteId = host.parse().expect("a host");
            let file = fixture
                .store
                .site(fixture.topic, &site)
                .await
                .expect("a read");
            let by = file.expect("a file").recommended_by.into_iter();
            by.map(|edge| edge.source.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(recommended_by("new.org").await, ["fan.test"]);
        assert_eq!(recommended_by("old.example").await, [""; 0]);
    }
}

#[tokio::test]
async fn an_alias_takes_no_share_of_its_domain() {
    for fixture in StoreFixture::all().await {
        let farm = ["a.farm.test", "b.farm.test", "c.farm.test"];
        assert_eq!(fixture.enter(&farm, false).await, 3);
        assert_eq!(fixture.take(1).await, ["a.farm.test"]);
        assert_eq!(fixture.enter(&["d.farm.test"], false).await, 0);
        let alias = Verdict::Undecided(UndecidedReason::Alias);
        let mut outcome = fixture.outcome("a.farm.test", alias, Vec::new());
        outcome.report.alias_of = Some(home("elsewhere.org"));
        fixture.store.record(vec![outcome]).await.expect("a record");
        assert_eq!(fixture.enter(&["d.farm.test"], false).await, 1);
        assert_eq!(fixture.enter(&["e.farm.test"], false).await, 0);
    }
}

#[tokio::test]
async fn sites_at_an_address_are_counted_and_a_second_verdict_counts_once() {
    for fixture in StoreFixture::all().await {
        let address: IpAddr = "192.0.2.7".parse().expect("an address");
        let judge = async |host: &str| {
            let mut outcome = fixture.outcome(host, Verdict::Relevant, Vec::new());
            outcome.report.address = Some(address);
            let recorded = fixture.store.record(vec![outcome]).await;
            match recorded.expect("a record")[0] {
                Recorded::Done {
                    sites_at_address, ..
                } => sites_at_address,
                Recorded::Stale => panic!("{host} was not handed out"),
            }
        };
        let full = async |sites| {
            let full = fixture.store.full_addresses(fixture.topic, sites).await;
            full.expect("a read")
        };
        fixture.enter(&["a.example", "b.test"], false).await;
        fixture.take(9).await;
        assert_eq!(judge("a.example").await, 1);
        assert_eq!(full(2).await, [address; 0]);
        assert_eq!(judge("b.test").await, 2);
        assert_eq!(full(2).await, [address]);
        let rejudging = TopicOpening {
            model: ModelFingerprint::from_bits(8),
            old_verdicts: OldVerdicts::RejudgeAll,
            ..opening(Combined)
        };
        fixture.store.open_topic(rejudging).await.expect("a topic");
        assert_eq!(fixture.take(9).await, ["a.example", "b.test"]);
        assert_eq!(judge("a.example").await, 2);
    }
}

/// Records of older versions have a number for each address.
#[tokio::test]
async fn sites_in_an_ipv6_network_are_counted_together() {
    let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
    for fixture in StoreFixture::all().await {
        let topic = fixture.topic.number();
        let old = [
            ("2001:db8:0:1::7", 2),
            ("2001:db8:0:1:a::", 3),
            ("2001:db8:0:2::7", 4),
            ("192.0.2.7", 1),
        ];
        let lines = old.map(|(address, sites)| {
            let line = json!({
                "record": "address", "topic": topic, "address": address, "sites": sites,
            });
            serde_json::from_value(line).expect("a record")
        });
        fixture.store.load(lines.into()).await.expect("a record");
        let full = async |sites| {
            let full = fixture.store.full_addresses(fixture.topic, sites).await;
            full.expect("a read")
        };
        assert!(full(6).await.is_empty());
        assert_eq!(full(5).await, [ip("2001:db8:0:1::")]);
        let both = [ip("2001:db8:0:1::"), ip("2001:db8:0:2::")];
        assert_eq!(full(4).await, both);
        let hosts = ["a.example", "b.test", "c.test", "d.test"];
        fixture.enter(&hosts, false).await;
        fixture.take(9).await;
        let judge = async |host: &str, address: &str| {
            let mut outcome = fixture.outcome(host, Verdict::Relevant, Vec::new());
            outcome.report.address = Some(ip(address));
            let recorded = fixture.store.record(vec![outcome]).await;
            match recorded.expect("a record")[0] {
                Recorded::Done {
                    sites_at_address, ..
                } => sites_at_address,
                Recorded::Stale => panic!("{host} was not handed out"),
            }
        };
        assert_eq!(judge("a.example", "2001:db8:0:1:ffff::9").await, 6);
        assert_eq!(judge("b.test", "2001:db8:0:3::1").await, 1);
        assert_eq!(judge("c.test", "::ffff:192.0.2.7").await, 2);
        assert_eq!(judge("d.test", "192.0.2.8").await, 1);
        assert_eq!(full(4).await, both);
        assert_eq!(full(2).await, [&[ip("192.0.2.7")][..], &both].concat());
        let mut dump = fixture.store.dump();
        let mut kept = Vec::new();
        while let Some(line) = dump.recv().await {
            let line = serde_json::to_value(line.expect("a record")).expect("JSON");
            if line["record"] == "address" {
                kept.push(format!("{} {}", line["address"], line["sites"]));
            }
        }
        kept.sort();
        let wanted = [
            "\"192.0.2.7\" 2",
            "\"192.0.2.8\" 1",
            "\"2001:db8:0:1::\" 6",
            "\"2001:db8:0:2::7\" 4",
            "\"2001:db8:0:3::\" 1",
        ];
        assert_eq!(kept, wanted, "what was met again is put together");
    }
}

#[tokio::test]
async fn verdicts_of_another_model_are_kept_or_rejudged_before_all_others() {
    for (old_verdicts, due) in [
        (OldVerdicts::Keep, vec![]),
        (OldVerdicts::RejudgeRelevant, vec!["good.example"]),
        (OldVerdicts::RejudgeAll, vec!["bad.test", "good.example"]),
    ] {
        for fixture in StoreFixture::all().await {
            let hosts = ["good.example", "bad.test"];
            fixture.enter(&hosts, false).await;
            fixture.take(9).await;
            let edges = vec![edge("next.org", 1.0, 1.0)];
            fixture
                .judge("good.example", Verdict::Relevant, edges)
                .await;
            fixture
                .judge("bad.test", Verdict::Irrelevant, Vec::new())
                .await;
            let open = async |model| {
                let opening = TopicOpening {
                    model: ModelFingerprint::from_bits(model),
                    old_verdicts,
                    ..opening(Combined)
                };
                fixture.store.open_topic(opening).await.expect("a topic");
            };
            open(7).await;
            let next = fixture.store.next_due(fixture.topic).await.expect("a read");
            assert_eq!(next.deferred, None);
            open(8).await;
            open(8).await;
            let judged = fixture
                .store
                .judged(fixture.topic, 0, 9)
                .await
                .expect("a read");
            assert_eq!(
                judged.len(),
                2,
                "the old verdicts stand until there are new ones"
            );
            let mut wanted = due.clone();
            wanted.push("next.org");
            assert_eq!(fixture.take(9).await, wanted);
            for (at, host) in due.iter().enumerate() {
                let mut outcome = fixture.outcome(host, Verdict::Relevant, Vec::new());
                outcome.report.model = ModelFingerprint::from_bits(8);
                let recorded = fixture.store.record(vec![outcome]).await.expect("a record");
                assert_eq!(recorded[0].seq(), Some(at as u64 + 3));
            }
            let totals = fixture.store.totals(fixture.topic).await.expect("totals");
            let relevant = 1 + u64::from(due.contains(&"bad.test"));
            assert_eq!((totals.relevant, totals.deferred), (relevant, 0));
            assert_eq!(totals.relevant + totals.irrelevant, 2);
        }
    }
}

// === rechecks ===

/// Time until the next recheck of a relevant site.
async fn next_recheck(fixture: &StoreFixture) -> Option<Duration> {
    let due = fixture.store.next_due(fixture.topic).await.expect("a read");
    let due = due.recheck?.duration_since(clock::now());
    Some(due.unwrap_or_default())
}

/// The commit thread dates its records by the clock of the test that opened the store, whether
/// that was set or has been advanced.
#[tokio::test(start_paused = true)]
async fn records_have_the_date_that_a_test_sets() {
    let _clock = TestClock::starting_at(SystemTime::UNIX_EPOCH + 30_000 * DAY);
    for fixture in StoreFixture::all().await {
        let begin = clock::now();
        fixture
            .enter(&["first.example", "second.example"], false)
            .await;
        fixture.take(9).await;
        fixture
            .judge("first.example", Verdict::Relevant, Vec::new())
            .await;
        let due = fixture.store.next_due(fixture.topic).await.expect("a read");
        let due = due.recheck.expect("a time");
        assert!(
            due > begin + 29 * DAY && due < begin + 31 * DAY,
            "{due:?}, {begin:?}"
        );
        tokio::time::advance(31 * DAY).await;
        // The other is held.
        assert_eq!(fixture.take(9).await, ["first.example"]);
        fixture
            .judge("second.example", Verdict::Relevant, Vec::new())
            .await;
        let due = fixture.store.next_due(fixture.topic).await.expect("a read");
        let due = due.recheck.expect("a time");
        assert!(due > begin + 60 * DAY, "{due:?}, {begin:?}");
    }
}

#[tokio::test]
async fn relevant_sites_are_rechecked_when_due_and_not_before() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["good.example", "bad.test"], false).await;
        fixture.take(9).await;
        for (host, verdict) in [
            ("good.example", Verdict::Relevant),
            ("bad.test", Verdict::Irrelevant),
        ] {
            fixture.judge(host, verdict, Vec::new()).await;
        }
        let now = clock::now();
        let before = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!(before.deferred, 0, "no site was deferred");
        let due = next_recheck(&fixture).await.expect("a time");
        assert!(due > 29 * DAY && due <= RECHECK_AFTER);
        assert_eq!(fixture.take_at(9, now + 29 * DAY).await, [""; 0]);
        assert_eq!(fixture.take_at(9, now + 31 * DAY).await, ["good.example"]);
        assert_eq!(next_recheck(&fixture).await, None, "it is under way");

        // The same verdict again: no new `seq`, but a new time.
        let mut same = fixture.outcome("good.example", Verdict::Relevant, Vec::new());
        same.report.confidence = SiteConfidence::new(0.875).expect("a confidence");
        same.edges = vec![edge("new.org", 0.5, 0.5)];
        let recorded = fixture.store.record(vec![same]).await.expect("a record");
        assert_eq!(recorded[0].seq(), None);
        let judged = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("a read");
        let numbers: Vec<(u64, f64)> = judged
            .iter()
            .map(|judged| (judged.seq, judged.confidence))
            .collect();
        assert_eq!(numbers, [(1, 0.875), (2, 0.75)]);
        let after = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((after.finds, after.relevant, after.irrelevant), (1, 1, 1));
        assert_eq!((after.pages, after.border), (before.pages + 2, 1));
        assert!(next_recheck(&fixture).await.expect("a time") > 29 * DAY);

        // Another verdict.
        let later = now + 62 * DAY;
        assert_eq!(fixture.take_at(9, later).await, ["good.example", "new.org"]);
        let parked = Verdict::Undecided(UndecidedReason::Parked);
        let seq = fixture.judge("good.example", parked, Vec::new()).await;
        assert_eq!(seq, Some(3));
        let judged = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("a read");
        let verdicts: Vec<(u64, Verdict)> = judged
            .iter()
            .map(|judged| (judged.seq, judged.verdict))
            .collect();
        assert_eq!(verdicts, [(2, Verdict::Irrelevant), (3, parked)]);
        let after = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((after.finds, after.relevant, after.undecided), (0, 0, 1));
        assert_eq!(next_recheck(&fixture).await, None);
    }
}

/// A machine without a battery begins in 1970, and some are set to the wrong century.
#[tokio::test]
async fn a_clock_that_jumps_loses_no_site_and_hands_out_none_twice() {
    const HOUR: Duration = Duration::from_hours(1);
    for fixture in StoreFixture::all().await {
        let now = clock::now();
        let (past, future) = (SystemTime::UNIX_EPOCH, now + 36_500 * DAY);
        fixture
            .enter(&["good.example", "shy.test", "new.org"], false)
            .await;
        // The border does not depend on the time.
        let first = fixture.take_at(2, past - DAY).await;
        assert_eq!(first, ["good.example", "shy.test"]);
        let defer_until = async |host: &str, not_before| {
            let deferred = Verdict::Undecided(deferred_until(not_before));
            fixture.judge(host, deferred, Vec::new()).await
        };
        fixture
            .judge("good.example", Verdict::Relevant, Vec::new())
            .await;
        defer_until("shy.test", now + HOUR).await;
        assert_eq!(fixture.take_at(9, past).await, ["new.org"]);
        fixture
            .judge("new.org", Verdict::Irrelevant, Vec::new())
            .await;

        // The clock goes back: no site is due. It goes forward: both are, once.
        assert_eq!(fixture.take_at(9, past).await, [""; 0]);
        assert_eq!(fixture.take_at(9, now).await, [""; 0]);
        assert_eq!(
            fixture.take_at(9, future).await,
            ["shy.test", "good.example"]
        );
        for again in [future, past, now] {
            assert_eq!(fixture.take_at(9, again).await, [""; 0], "handed out");
        }

        // A site deferred by a wrong clock is due by that clock, and by a right one.
        defer_until("shy.test", past + HOUR).await;
        assert_eq!(fixture.take_at(9, past).await, [""; 0]);
        assert_eq!(fixture.take_at(9, past + HOUR).await, ["shy.test"]);
        defer_until("shy.test", past + HOUR).await;
        assert_eq!(fixture.take_at(9, now).await, ["shy.test"]);
        // A time far in the future is kept, and does not overflow.
        defer_until("shy.test", future).await;
        assert_eq!(fixture.take_at(9, future - HOUR).await, [""; 0]);
        assert_eq!(
            fixture.take_at(9, future + CLAIM_TERM / 2).await,
            ["shy.test"]
        );
        fixture
            .judge("shy.test", Verdict::Relevant, Vec::new())
            .await;

        // A recheck that was interrupted in the wrong century is made when it is due.
        let interrupted = Verdict::Undecided(UndecidedReason::Interrupted);
        fixture.judge("good.example", interrupted, Vec::new()).await;
        assert_eq!(fixture.take_at(9, past).await, [""; 0]);
        assert_eq!(fixture.take_at(9, now + 29 * DAY).await, [""; 0]);
        assert_eq!(
            fixture.take_at(9, now + 31 * DAY).await,
            ["good.example", "shy.test"]
        );
        for host in ["good.example", "shy.test"] {
            fixture.judge(host, Verdict::Relevant, Vec::new()).await;
        }
        assert_eq!(fixture.take_at(9, now).await, [""; 0]);
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.relevant, totals.irrelevant), (2, 1));
        assert_eq!((totals.border, totals.taken, totals.deferred), (0, 0, 0));
        let judged = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("a read");
        assert_eq!(judged.len(), 3);
    }
}

#[tokio::test]
async fn rechecks_have_a_share_while_there_are_new_sites() {
    for fixture in StoreFixture::all().await {
        let old = ["a.example", "b.test", "c.org", "d.net"];
        fixture.enter(&old, false).await;
        fixture.enter(&["shy.example"], false).await;
        fixture.take(9).await;
        for host in old {
            fixture.judge(host, Verdict::Relevant, Vec::new()).await;
        }
        let now = clock::now() + 31 * DAY;
        let deferred = Verdict::Undecided(deferred_until(now));
        fixture.judge("shy.example", deferred, Vec::new()).await;
        fixture.enter(&["new.example", "newer.test"], false).await;
        let take = async |most, rechecks, is_border_open| {
            let taking = TakeRequest {
                limit: most,
                rechecks,
                is_border_open,
                now,
            };
            let taken = fixture.take_sites(taking).await;
            let hosts = taken.iter().map(|taken| taken.site().to_string());
            hosts.collect::<Vec<_>>()
        };
        assert_eq!(take(1, 1, true).await, ["shy.example"]);
        assert_eq!(take(2, 1, true).await, ["a.example", "new.example"]);
        assert_eq!(take(1, 0, false).await, ["b.test"], "the border is closed");
        assert_eq!(take(9, 0, true).await, ["c.org", "d.net", "newer.test"]);
    }
}

#[tokio::test]
async fn another_recheck_interval_holds_for_sites_judged_before() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["good.example"], false).await;
        fixture.take(9).await;
        fixture
            .judge("good.example", Verdict::Relevant, Vec::new())
            .await;
        let reopen = async |recheck_after| {
            let opening = TopicOpening {
                recheck_after,
                ..opening(Combined)
            };
            fixture.store.open_topic(opening).await.expect("a topic");
            next_recheck(&fixture).await
        };
        let week = reopen(Some(7 * DAY)).await.expect("a time");
        assert!(week > 6 * DAY && week <= 7 * DAY, "{week:?}");
        assert_eq!(reopen(None).await, None);
        let after = clock::now() + 400 * DAY;
        assert_eq!(fixture.take_at(9, after).await, [""; 0]);
        let year = reopen(Some(365 * DAY)).await.expect("a time");
        assert!(year > 364 * DAY && year <= 365 * DAY, "{year:?}");
        assert_eq!(fixture.take_at(9, after).await, ["good.example"]);
        assert_eq!(fixture.take_at(9, after).await, [""; 0], "once");
    }
}

#[tokio::test]
async fn an_interrupted_or_inconclusive_recheck_leaves_the_verdict() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["good.example"], false).await;
        fixture.take(9).await;
        fixture
            .judge("good.example", Verdict::Relevant, Vec::new())
            .await;
        let before = next_recheck(&fixture).await.expect("a time");
        let later = clock::now() + 31 * DAY;
        assert_eq!(fixture.take_at(9, later).await, ["good.example"]);
        let interrupted = Verdict::Undecided(UndecidedReason::Interrupted);
        fixture.judge("good.example", interrupted, Vec::new()).await;
        assert!(next_recheck(&fixture).await.expect("a time") <= before);
        assert_eq!(fixture.take_at(9, later).await, ["good.example"]);
        let mut kept = fixture.outcome("good.example", interrupted, Vec::new());
        kept.resolution = Resolution::Kept;
        let recorded = fixture.store.record(vec![kept]).await.expect("a record");
        assert_eq!(recorded[0].seq(), None);
        assert!(next_recheck(&fixture).await.expect("a time") > 29 * DAY);
        let judged = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("a read");
        assert_eq!((judged.len(), judged[0].seq), (1, 1));
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.finds, totals.taken, totals.deferred), (1, 0, 0));
    }
}

#[tokio::test]
async fn a_new_model_does_not_wait_for_rechecks_to_be_due() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["good.example"], false).await;
        fixture.take(9).await;
        fixture
            .judge("good.example", Verdict::Relevant, Vec::new())
            .await;
        let rejudging = TopicOpening {
            model: ModelFingerprint::from_bits(8),
            old_verdicts: OldVerdicts::RejudgeRelevant,
            ..opening(Combined)
        };
        fixture.store.open_topic(rejudging).await.expect("a topic");
        assert_eq!(next_recheck(&fixture).await, None, "it is in one queue");
        assert_eq!(fixture.take(9).await, ["good.example"]);
    }
}

#[tokio::test]
async fn a_registrable_domain_has_its_share_of_the_border_and_no_more() {
    for fixture in StoreFixture::all().await {
        let hosts: Vec<String> = (0..10)
            .map(|number| format!("h{number}.farm.test"))
            .collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        assert_eq!(fixture.enter(&hosts, false).await, 3);
        assert_eq!(fixture.enter(&["farm.example"], false).await, 1);
        assert_eq!(
            fixture.enter(&["h9.farm.test"], true).await,
            1,
            "start sites are exempt"
        );
        assert_eq!(fixture.take(99).await.len(), 5);
    }
}

#[tokio::test]
async fn another_ranking_re_sorts_the_border() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["hub.example"], true).await;
        fixture.take(1).await;
        let edges = vec![edge("low.test", 0.1, 0.1), edge("high.org", 0.9, 0.9)];
        fixture.judge("hub.example", Verdict::Relevant, edges).await;
        let again = fixture.store.open_topic(opening(FirstCome)).await;
        assert_eq!(again.expect("a topic"), fixture.topic);
        assert_eq!(fixture.take(9).await, ["low.test", "high.org"]);
    }
}

#[tokio::test]
async fn a_report_without_a_claim_is_stale_and_changes_nothing() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["a.example", "b.test"], false).await;
        fixture.take(1).await;
        let held = fixture.claim("a.example");
        let others = Claim {
            site: "b.test".parse().expect("a host"),
            ..held.clone()
        };
        let unknown = Claim {
            site: "unknown.org".parse().expect("a host"),
            ..held.clone()
        };
        let earlier = Claim {
            number: held.number - 1,
            ..held.clone()
        };
        let other_process = StoreFixture::in_memory().await;
        other_process.enter(&["a.example"], false).await;
        other_process.take(1).await;
        let foreign = Claim {
            owner: other_process.claim("a.example").owner,
            ..held.clone()
        };
        assert_ne!(foreign.owner, held.owner);
        let stale = [others, unknown, earlier, foreign].map(|claim| {
            let edges = vec![edge("new.org", 0.5, 0.5)];
            outcome(claim, Verdict::Relevant, edges)
        });
        let recorded = fixture.store.record(stale.to_vec()).await;
        assert_eq!(recorded.expect("a store"), [const { Recorded::Stale }; 4]);
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.relevant, totals.taken, totals.border), (0, 1, 1));
        let new: SiteId = "new.org".parse().expect("a host");
        let file = fixture
            .store
            .site(fixture.topic, &new)
            .await
            .expect("a read");
        assert_eq!(file, None);
        // A valid report is recorded beside one that is not.
        let good = fixture.outcome("a.example", Verdict::Relevant, Vec::new());
        let again = good.clone();
        let recorded = fixture.store.record(vec![good, again]).await;
        let recorded = recorded.expect("a store");
        assert_eq!(recorded[0].seq(), Some(1));
        assert_eq!(recorded[1], Recorded::Stale, "a claim serves once");
        let judged = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("a read");
        assert_eq!(judged.len(), 1);
    }
}

/// The clock may be set forward, or the process suspended for a day.
#[tokio::test]
async fn a_process_that_lives_keeps_its_claims_however_late_it_renews_them() {
    for fixture in StoreFixture::all().await {
        fixture.enter(&["a.example", "b.test"], false).await;
        let begin = clock::now();
        let late = begin + CLAIM_TERM + DAY;
        assert_eq!(fixture.take_at(2, begin).await.len(), 2);
        fixture.enter(&["c.org"], false).await;
        assert_eq!(
            fixture.take_at(9, late).await,
            ["c.org"],
            "the others are held"
        );
        let first = fixture.claim("a.example");
        let second = fixture.claim("b.test");
        let both = vec![first.clone(), second.clone()];
        let renewed = fixture.store.renew(both.clone()).await;
        assert_eq!(renewed.expect("a store"), both);
        assert_eq!(fixture.take_at(9, late + DAY).await, [""; 0]);
        let seq = fixture
            .judge("a.example", Verdict::Relevant, Vec::new())
            .await;
        assert_eq!(seq, Some(1));
        // One that has ended is neither renewed nor reported on.
        let renewed = fixture.store.renew(both).await;
        assert_eq!(renewed.expect("a store"), [second]);
        let stale = outcome(first, Verdict::Irrelevant, Vec::new());
        let recorded = fixture.store.record(vec![stale]).await;
        assert_eq!(recorded.expect("a store"), [Recorded::Stale]);
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.taken, totals.border), (2, 0));
    }
}

/// A store without expiry must not be opened by a second process, whose sites would wait for ever if
/// the first died.
#[tokio::test]
async fn a_store_where_no_claim_expires_has_one_process() {
    for place in durable_places() {
        let fixture = StoreFixture::over(place.open().await).await;
        fixture.enter(&["a.example"], false).await;
        assert_eq!(fixture.take(9).await, ["a.example"]);
        match (place.open)(&StoreSettings::default()) {
            Err(StoreError::Locked(_)) => {}
            Err(error) => panic!("{error}"),
            Ok(_) => panic!(
                "a shared store: test here that the second process gets the site once the claim has \
                 expired by the clock of the store, and that the first can then neither renew nor report"
            ),
        }
    }
}

// === expiry of evidence ===

#[tokio::test]
async fn edges_to_sites_that_are_not_relevant_are_forgotten_if_so_set() {
    for (edges, wanted) in [(EdgeRetention::All, 2), (EdgeRetention::Relevant, 0)] {
        let settings = StoreSettings {
            edges,
            ..StoreSettings::default()
        };
        for fixture in StoreFixture::all_with(&settings).await {
            fixture.enter(&["one.test", "two.org"], true).await;
            fixture.take(9).await;
            let both = || {
                vec![
                    edge("good.example", 0.9, 0.9),
                    edge("bad.example", 0.8, 0.8),
                ]
            };
            fixture.judge("one.test", Verdict::Relevant, both()).await;
            assert_eq!(fixture.take(9).await, ["good.example", "bad.example"]);
            fixture
                .judge("good.example", Verdict::Relevant, Vec::new())
                .await;
            fixture
                .judge("bad.example", Verdict::Irrelevant, Vec::new())
                .await;
            // This one comes after the verdicts.
            fixture.judge("two.org", Verdict::Relevant, both()).await;
            let edges_to = async |host: &str| {
                let site: SiteId = host.parse().expect("a host");
                let file = fixture
                    .store
                    .site(fixture.topic, &site)
                    .await
                    .expect("a read");
                let file = file.expect("a file");
                assert_eq!(file.standing.edges as usize, file.recommended_by.len());
                file.recommended_by.len()
            };
            assert_eq!(edges_to("good.example").await, 2);
            assert_eq!(edges_to("bad.example").await, wanted);
        }
    }
}

#[tokio::test]
async fn evidence_is_forgotten_with_age_and_the_verdict_stays() {
    for (evidence_age, is_kept) in [(Duration::from_hours(1), true), (Duration::ZERO, false)] {
        let settings = StoreSettings {
            evidence_age,
            ..StoreSettings::default()
        };
        for fixture in StoreFixture::all_with(&settings).await {
            fixture.enter(&["old.test", "new.org"], true).await;
            fixture.take(9).await;
            for host in ["old.test", "new.org"] {
                fixture.judge(host, Verdict::Relevant, Vec::new()).await;
            }
            let site: SiteId = "old.test".parse().expect("a host");
            let file = fixture
                .store
                .site(fixture.topic, &site)
                .await
                .expect("a read");
            let file = file.expect("a file");
            assert_eq!(file.evidence.is_some(), is_kept);
            assert_eq!(file.judged.map(|judged| judged.seq), Some(1));
        }
    }
}

#[tokio::test]
async fn evidence_is_forgotten_with_age_when_there_are_no_more_rechecks() {
    for place in durable_places() {
        let fixture = StoreFixture::over(place.open().await).await;
        fixture.enter(&["old.test", "new.org"], true).await;
        fixture.take(1).await;
        // Expiry skips it: it would be renewed before it is too old.
        fixture
            .judge("old.test", Verdict::Relevant, Vec::new())
            .await;
        drop(fixture);
        let settings = StoreSettings {
            evidence_age: Duration::ZERO,
            ..StoreSettings::default()
        };
        let store = place.open_with(&settings).await;
        let fixture = StoreFixture::over(store).await;
        let never = TopicOpening {
            recheck_after: None,
            ..opening(Combined)
        };
        fixture.store.open_topic(never).await.expect("a topic");
        assert_eq!(fixture.take(9).await, ["new.org"]);
        fixture
            .judge("new.org", Verdict::Relevant, Vec::new())
            .await;
        let site: SiteId = "old.test".parse().expect("a host");
        let file = fixture
            .store
            .site(fixture.topic, &site)
            .await
            .expect("a read");
        assert_eq!(file.expect("a file").evidence, None);
    }
}

// === durable stores ===

#[tokio::test]
async fn everything_is_there_after_closing_and_claimed_sites_are_free_again() {
    for place in durable_places() {
        let fixture = StoreFixture::over(place.open().await).await;
        fixture.enter(&["a.example", "b.test"], true).await;
        assert_eq!(fixture.take(9).await, ["a.example", "b.test"]);
        let edges = vec![edge("c.org", 0.9, 0.8)];
        fixture.judge("a.example", Verdict::Relevant, edges).await;
        let before = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("verdicts");
        drop(fixture);
        let fixture = StoreFixture::over(place.open().await).await;
        let after = fixture
            .store
            .judged(fixture.topic, 0, 9)
            .await
            .expect("verdicts");
        assert_eq!(after, before);
        assert_eq!(fixture.take(9).await, ["b.test", "c.org"]);
    }
}

#[tokio::test]
async fn a_recheck_under_way_when_the_process_died_is_made_after_the_next_start() {
    for place in durable_places() {
        let fixture = StoreFixture::over(place.open().await).await;
        fixture.enter(&["a.example"], false).await;
        fixture.take(9).await;
        fixture
            .judge("a.example", Verdict::Relevant, Vec::new())
            .await;
        let due = fixture.store.next_due(fixture.topic).await.expect("a read");
        let later = clock::now() + 31 * DAY;
        assert_eq!(fixture.take_at(9, later).await, ["a.example"]);
        drop(fixture);
        let fixture = StoreFixture::over(place.open().await).await;
        let again = fixture.store.next_due(fixture.topic).await.expect("a read");
        assert_eq!(again, due);
        assert_eq!(fixture.take(9).await, [""; 0]);
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.taken, totals.deferred, totals.border), (0, 0, 0));
        assert_eq!(fixture.take_at(9, later).await, ["a.example"]);
    }
}

#[tokio::test]
async fn crawl_statistics_count_first_visits_whatever_became_of_them() {
    for fixture in StoreFixture::all().await {
        let sum = async || {
            let progress = fixture
                .store
                .progress(fixture.topic)
                .await
                .expect("progress");
            let [short, long] = progress.paper_windows();
            assert_eq!(short.sum(), long.sum());
            short.sum()
        };
        fixture.enter(&["start.example"], true).await;
        let hosts = ["good.example", "bad.test", "shy.org", "cut.org"];
        fixture.enter(&hosts, false).await;
        fixture.take(9).await;
        let later = clock::now() + Duration::from_hours(1);
        for (host, verdict) in [
            ("start.example", Verdict::Relevant),
            ("good.example", Verdict::Relevant),
            ("bad.test", Verdict::Irrelevant),
            ("shy.org", Verdict::Undecided(deferred_until(later))),
            ("cut.org", Verdict::Undecided(UndecidedReason::Interrupted)),
        ] {
            fixture.judge(host, verdict, Vec::new()).await;
        }
        let first = Tally {
            pages: 10,
            finds: 1,
            relevant: 2,
            irrelevant: 1,
        };
        assert_eq!(sum().await, first);
        let rejudging = TopicOpening {
            model: ModelFingerprint::from_bits(8),
            old_verdicts: OldVerdicts::RejudgeAll,
            ..opening(Combined)
        };
        fixture.store.open_topic(rejudging).await.expect("a topic");
        fixture.take(9).await;
        fixture
            .judge("bad.test", Verdict::Relevant, Vec::new())
            .await;
        assert_eq!(sum().await, first, "a verdict that is renewed is no find");
        let totals = fixture.store.totals(fixture.topic).await.expect("totals");
        assert_eq!((totals.tally().pages, totals.finds), (12, 2));
    }
}

#[tokio::test]
async fn a_crawl_whose_pprs_rose_stays_ended_until_it_gets_a_new_start_site() {
    for place in durable_places() {
        let reopened = async |opening: TopicOpening| {
            let store = place.open().await;
            let topic = store.open_topic(opening).await.expect("a topic");
            StoreFixture::of(store, topic)
        };
        let watched = || TopicOpening {
            watched_pages: 4,
            ..opening(Combined)
        };
        let has_pprs_risen = async |fixture: &StoreFixture| {
            let progress = fixture
                .store
                .progress(fixture.topic)
                .await
                .expect("progress");
            progress.has_pprs_risen(1.0)
        };
        let fixture = reopened(watched()).await;
        let hosts = ["a.example", "b.test", "c.org"];
        fixture.enter(&hosts, false).await;
        fixture.take(9).await;
        fixture
            .judge("a.example", Verdict::Relevant, Vec::new())
            .await;
        for host in ["b.test", "c.org"] {
            assert!(!has_pprs_risen(&fixture).await);
            fixture.judge(host, Verdict::Irrelevant, Vec::new()).await;
        }
        assert!(has_pprs_risen(&fixture).await);
        drop(fixture);
        let fixture = reopened(watched()).await;
        assert!(has_pprs_risen(&fixture).await);
        fixture.enter(&["a.example"], false).await;
        assert!(has_pprs_risen(&fixture).await, "it was known");
        fixture.enter(&["e.example"], true).await;
        assert!(!has_pprs_risen(&fixture).await, "there is a new start site");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state");
    let refused = |path: &Path| {
        let opened = (place_at(path).open)(&StoreSettings::default());
        opened.map(|_| ()).expect_err("a refusal")
    };
    let store = place_at(&path).open().await;
    assert!(matches!(refused(&path), StoreError::Locked(_)));
    drop(store);
    drop(place_at(&path).open().await);
    assert!(matches!(refused(directory.path()), StoreError::Foreign(_)));
    std::fs::write(path.join("sitescout-store"), "sitescout store 2\n").expect("a file");
    assert!(matches!(refused(&path), StoreError::Newer));
    std::fs::write(path.join("sitescout-store"), "something else").expect("a file");
    assert!(matches!(refused(&path), StoreError::Foreign(_)));
    // A process that was killed while it made the store.
    let begun = directory.path().join("begun");
    std::fs::create_dir(&begun).expect("a directory");
    std::fs::write(begun.join("sitescout-store"), "sitescout").expect("a file");
    drop(place_at(&begun).open().await);
    let file = directory.path().join("file");
    std::fs::write(&file, "a file").expect("a file");
    assert!(matches!(refused(&file), StoreError::Unusable { .. }));
}

#[tokio::test]
async fn pauses_and_blocks_are_counted_when_they_change() {
    for fixture in StoreFixture::all().await {
        let steered = async |edit: Edit| {
            fixture.store.edit(edit).await.expect("an edit");
            fixture.store.steering().await.expect("a read")
        };
        let pause = |is_paused| Edit::Pause {
            topic: fixture.topic,
            is_paused,
        };
        let block = |note: &str| Edit::Block {
            site: "a.example".parse().expect("a host"),
            note: note.to_owned(),
        };
        let unblock = || Edit::Unblock {
            site: "a.example".parse().expect("a host"),
        };
        assert_eq!(fixture.store.steering().await.expect("a read"), 0);
        assert_eq!(steered(pause(false)).await, 0, "it was not paused");
        assert_eq!(steered(pause(true)).await, 1);
        assert_eq!(steered(block("x")).await, 2);
        assert_eq!(steered(block("x")).await, 2, "it is blocked already");
        assert_eq!(steered(unblock()).await, 3);
        assert_eq!(steered(unblock()).await, 3, "it is not blocked any more");
    }
}
