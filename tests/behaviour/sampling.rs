//! The internal crawler on one site: which pages it reads and skips, and what it reports.

use std::sync::Arc;

use sitescout::config::InternalSettings;
use sitescout::fetch::Fetcher;
use sitescout::internal::{
    BreadthFirstPages, ByVariance, LinkPagesFirst, PageOrdering, PagePriority, VisitPhase,
    WaitingPage,
};
use sitescout::training::{Corpus, CorpusLimits, Labels};
use sitescout::web::{
    EvidenceRule, PageKind, Purpose, SiteReport, SiteVisit, StepOutcome, StopReason,
    UndecidedReason, Verdict,
};

use crate::scripted_web::{ScriptedWeb, baking, model, mute, sailing, visit, visit_by};

const SITE: &str = "http://site.example/";

fn at(path: &str) -> String {
    format!("http://site.example{path}")
}

fn visit_for(purpose: Purpose) -> SiteVisit {
    SiteVisit {
        purpose,
        fallbacks: Vec::new(),
        ..SiteVisit::at(&SITE.parse().expect("an address"))
    }
}

fn judge(web: ScriptedWeb) -> (SiteReport, Vec<String>) {
    let web = Arc::new(web);
    let report = visit(
        &web,
        visit_for(Purpose::Verdict),
        InternalSettings::default(),
    );
    (report, web.asked())
}

fn outcomes(report: &SiteReport) -> Vec<&str> {
    report
        .steps
        .iter()
        .map(|step| step.outcome.name())
        .collect()
}

/// One page can dismiss a site; to find it relevant takes three.
#[test]
fn reading_ends_when_the_site_is_sure_enough() {
    for (page, verdict, read) in [
        (
            sailing as fn(usize, &[&str]) -> String,
            Verdict::Relevant,
            ["/", "/a", "/b"].as_slice(),
        ),
        (baking, Verdict::Irrelevant, &["/"]),
    ] {
        let web = ScriptedWeb::default()
            .page(SITE, &page(0, &["/a", "/b", "/c"]))
            .page(&at("/a"), &page(3, &[]))
            .page(&at("/b"), &page(4, &[]))
            .page(&at("/c"), &page(5, &[]));
        let (report, asked) = judge(web);
        assert_eq!(asked, read, "no page more than needed");
        assert_eq!(report.verdict, verdict);
        assert_eq!(report.stop_reason, StopReason::Confident);
        assert_eq!(report.decided_after, Some(read.len()));
        assert_eq!(report.cost.pages, read.len());
        let certainty = report.confidence.get().max(report.confidence.complement());
        assert!(certainty >= 0.99, "{certainty}");
        assert_eq!(report.model, model().fingerprint());
        assert_eq!(report.steps[0].kind, PageKind::Homepage);
        let inner = report.steps[1..].iter();
        assert!(
            inner
                .map(|step| step.kind)
                .all(|kind| kind == PageKind::Inner)
        );
        let words = &report.steps[0].telling_words;
        let (own, other) = match verdict {
            Verdict::Relevant => (&words.for_target, &words.against),
            _ => (&words.against, &words.for_target),
        };
        assert!(own.len() >= 5 && other.is_empty(), "{words:?}");
    }
}

#[test]
fn a_mute_homepage_decides_nothing_but_leads_on() {
    let web = ScriptedWeb::default()
        .page(SITE, &mute("x", &["/a", "/b"]))
        .page(&at("/a"), &sailing(0, &[]))
        .page(&at("/b"), &sailing(3, &[]));
    let (report, asked) = judge(web);
    assert_eq!(asked, ["/", "/a", "/b"]);
    assert_eq!(outcomes(&report), ["mute", "spoke", "spoke"]);
    assert_eq!(report.verdict, Verdict::Relevant);
    assert!((report.steps[0].confidence.get() - 0.5).abs() < 1e-12);
    assert!((report.steps[0].site_confidence.get() - 0.5).abs() < 1e-12);
}

#[test]
fn a_skewed_prior_alone_decides_nothing() {
    let web = Arc::new(ScriptedWeb::default().page(SITE, &mute("x", &[])));
    let mut planned = visit_for(Purpose::Verdict);
    planned.prior = sitescout::web::SiteConfidence::new(0.001).expect("a probability");
    let report = visit(&web, planned, InternalSettings::default());
    let reason = UndecidedReason::NothingSpoke;
    assert_eq!(report.verdict, Verdict::Undecided(reason));
    assert_eq!(report.stop_reason, StopReason::Exhausted);
}

#[test]
fn near_duplicates_speak_once() {
    let same = sailing(0, &["/a", "/b"]);
    let web = ScriptedWeb::default()
        .page(SITE, &same)
        .page(&at("/a"), &same)
        .page(&at("/b"), &same);
    let (report, asked) = judge(web);
    assert_eq!(asked, ["/", "/a", "/b"]);
    assert_eq!(
        outcomes(&report),
        ["spoke", "near_duplicate", "near_duplicate"]
    );
    assert_eq!(report.stop_reason, StopReason::Exhausted);
    assert_eq!(
        (report.verdict, report.decided_after),
        (Verdict::Relevant, None)
    );
    let of_one = report.steps[0].site_confidence;
    assert_eq!(report.confidence, of_one, "no more than one page says");
    assert_eq!(report.speaking_pages(), 1);
}

#[test]
fn the_index_is_the_directory_and_is_not_asked_for_again() {
    let web = ScriptedWeb::default()
        .page(
            SITE,
            &sailing(
                0,
                &["/", "/index.html", "http://www.site.example/#top", "/a"],
            ),
        )
        .page(&at("/index.html"), &sailing(0, &[]))
        .page(&at("/a"), &sailing(3, &[]));
    let (_, asked) = judge(web);
    assert_eq!(asked, ["/", "/a"]);
}

#[test]
fn frames_and_refreshes_lead_into_the_site_as_its_homepage() {
    let web = ScriptedWeb::default()
        .page(
            SITE,
            "<a href=/last>x</a><frameset><frame src=/menu><frame src=/welcome></frameset>",
        )
        .page(&at("/menu"), &mute("menu", &[]))
        .page(
            &at("/welcome"),
            "<meta http-equiv=refresh content='0; url=/real'>",
        )
        .page(&at("/real"), &sailing(0, &["/next"]))
        .page(&at("/next"), &sailing(3, &[]))
        .page(&at("/last"), &sailing(4, &[]));
    let (report, asked) = judge(web);
    assert_eq!(asked[..3], ["/", "/menu", "/welcome"]);
    let kinds: Vec<PageKind> = report.steps.iter().take(3).map(|step| step.kind).collect();
    assert_eq!(kinds, [PageKind::Homepage; 3]);
    let real = report.steps.iter().find(|step| step.url.path() == "/real");
    assert_eq!(real.expect("it was read").kind, PageKind::Homepage);
    assert_eq!(report.verdict, Verdict::Relevant);
}

#[test]
fn a_dead_site_is_a_verdict_after_one_request() {
    let (report, asked) = judge(ScriptedWeb::default().page("http://else.example/", "x"));
    assert_eq!(asked, ["/"]);
    let reason = UndecidedReason::Unreachable;
    assert_eq!(report.verdict, Verdict::Undecided(reason));
    assert_eq!(report.stop_reason, StopReason::Unreachable);
    assert_eq!((report.cost.pages, report.cost.unanswered), (0, 1));
    assert!((report.confidence.get() - 0.5).abs() < 1e-12);
}

#[test]
fn a_site_that_leads_to_another_is_an_alias_of_it() {
    let redirect = ScriptedWeb::default()
        .answer(SITE, 301, &[("location", "http://www.new.example/x")])
        .page("http://new.example/x", &sailing(0, &[]));
    let refresh = ScriptedWeb::default().page(
        SITE,
        "<meta http-equiv=refresh content='0; url=http://new.example/'>",
    );
    for web in [redirect, refresh] {
        let (report, asked) = judge(web);
        assert_eq!(asked, ["/"], "the other site is not this visit's business");
        let reason = UndecidedReason::Alias;
        assert_eq!(report.verdict, Verdict::Undecided(reason));
        let target = report.alias_of.expect("where it leads");
        assert_eq!(target.site().as_str(), "new.example");
        assert_eq!(report.cost.pages, 1);
    }
}

#[test]
fn redirects_inside_the_site_are_followed_and_count_as_pages() {
    let web = ScriptedWeb::default()
        .answer(SITE, 302, &[("location", "/de/")])
        .answer(&at("/de/"), 302, &[("location", "/de/start")])
        .page(&at("/de/start"), &sailing(0, &["/de/", "/loop"]))
        .answer(&at("/loop"), 302, &[("location", "/loop2")])
        .answer(&at("/loop2"), 302, &[("location", "/loop")]);
    let (report, asked) = judge(web);
    assert_eq!(asked, ["/", "/de/", "/de/start", "/loop", "/loop2"]);
    assert_eq!(report.cost.pages, 5);
    assert_eq!(report.stop_reason, StopReason::Exhausted);
    assert_eq!(report.steps[2].kind, PageKind::Homepage);
    let target = StepOutcome::Redirect(at("/de/").parse().expect("an address"));
    assert_eq!(report.steps[0].outcome, target);
}

#[test]
fn redirects_in_circles_end_at_once() {
    let web = ScriptedWeb::default()
        .answer(SITE, 302, &[("location", "/index.html")])
        .answer(&at("/index.html"), 302, &[("location", "/")]);
    let (report, asked) = judge(web);
    assert_eq!(asked, ["/", "/index.html"]);
    let reason = UndecidedReason::Failing;
    assert_eq!(report.verdict, Verdict::Undecided(reason));
    let (_, asked) = judge(ScriptedWeb::default().answer(SITE, 302, &[("location", "/")]));
    assert_eq!(asked, ["/"]);
}

#[test]
fn a_target_that_is_too_many_redirects_away_may_still_be_read() {
    let web = ScriptedWeb::default()
        .page(SITE, &sailing(0, &["/a", "/b"]))
        .answer(&at("/a"), 302, &[("location", "/b")])
        .page(&at("/b"), &sailing(3, &[]));
    let web = Arc::new(web);
    let settings = InternalSettings {
        max_redirects: 0,
        ..InternalSettings::default()
    };
    visit(&web, visit_for(Purpose::Verdict), settings);
    assert_eq!(web.asked(), ["/", "/a", "/b"]);
}

#[test]
fn frames_do_not_stand_for_the_whole_site() {
    let frames = "<frameset><frame src=/counter><frame src=/sale><frame src=/real></frameset>";
    let sale = "<title>x</title><h1>This domain is for sale</h1><p>Buy this domain.";
    let web = ScriptedWeb::default()
        .page(SITE, frames)
        .answer(
            &at("/counter"),
            302,
            &[("location", "http://counter.example/")],
        )
        .page(&at("/sale"), sale)
        .page(&at("/real"), &sailing(0, &["/a"]))
        .page(&at("/a"), &sailing(3, &[]));
    let (report, _) = judge(web);
    assert_eq!(report.verdict, Verdict::Relevant);
    assert_eq!(report.alias_of, None);
}

#[test]
fn other_spellings_of_the_entrance_are_tried_while_none_answers() {
    let web = Arc::new(ScriptedWeb::default().page("http://else.example/", "x"));
    let fallback = |text: &str| text.parse().expect("an address");
    let planned = SiteVisit {
        fallbacks: vec![
            fallback("https://site.example/"),
            fallback("http://www.site.example/"),
        ],
        ..visit_for(Purpose::Verdict)
    };
    let report = visit(&web, planned, InternalSettings::default());
    assert_eq!(web.asked().len(), 3);
    assert_eq!(report.cost.unanswered, 3);
    assert_eq!(report.stop_reason, StopReason::Unreachable);
}

#[test]
fn a_visit_goes_no_further_than_its_reach() {
    let web = ScriptedWeb::default()
        .page(SITE, "<meta http-equiv=refresh content='0; url=/start'>")
        .page(&at("/start"), &sailing(0, &["/a"]))
        .page(&at("/a"), &sailing(3, &[]));
    let web = Arc::new(web);
    let planned = SiteVisit {
        reach: PageKind::Homepage,
        ..visit_for(Purpose::Verdict)
    };
    let report = visit(&web, planned, InternalSettings::default());
    assert_eq!(web.asked(), ["/", "/start"]);
    assert_eq!(report.verdict, Verdict::Relevant);
}

#[test]
fn errors_count_as_pages_and_are_no_evidence() {
    let web = ScriptedWeb::default()
        .page(SITE, &sailing(0, &["/missing", "/broken", "/a"]))
        .answer(&at("/broken"), 500, &[])
        .page(&at("/a"), &sailing(3, &[]));
    let (report, _) = judge(web);
    assert_eq!(outcomes(&report), ["spoke", "failed", "failed", "spoke"]);
    assert_eq!((report.cost.pages, report.speaking_pages()), (4, 2));
}

#[test]
fn a_trap_costs_no_more_than_the_budget() {
    let mut web = ScriptedWeb::default().page(SITE, &mute("start", &["/1"]));
    for day in 1..200 {
        let next = format!("/{}", day + 1);
        web = web.page(&at(&format!("/{day}")), &mute(&day.to_string(), &[&next]));
    }
    let (report, asked) = judge(web);
    assert_eq!(asked.len(), InternalSettings::default().page_budget);
    assert_eq!(report.stop_reason, StopReason::BudgetSpent);
    let reason = UndecidedReason::NothingSpoke;
    assert_eq!(report.verdict, Verdict::Undecided(reason));
}

#[test]
fn parked_domains_and_soft_errors_are_no_evidence() {
    let parked = "<title>site.example</title><h1>This domain is for sale</h1>\
        <p>Buy this domain. The domain owner may be offering it: sail boat regatta crew wind.";
    let (report, asked) = judge(ScriptedWeb::default().page(SITE, parked));
    assert_eq!(asked, ["/"]);
    let reason = UndecidedReason::Parked;
    assert_eq!(report.verdict, Verdict::Undecided(reason));
    assert_eq!(outcomes(&report), ["no_page"]);

    let soft = "<title>404 Not Found</title><h1>Not Found</h1>\
        <p>The requested page sail boat regatta crew wind keel was not found.";
    let web = ScriptedWeb::default()
        .page(SITE, &sailing(0, &["/soft"]))
        .page(&at("/soft"), soft);
    let (report, _) = judge(web);
    assert_eq!(outcomes(&report), ["spoke", "no_page"]);
}

#[test]
fn what_robots_are_asked_not_to_follow_is_not_asked_for() {
    let web = ScriptedWeb::default()
        .page(
            SITE,
            &format!("<meta name=robots content=nofollow>{}", sailing(0, &["/a"])),
        )
        .page(&at("/a"), &sailing(3, &[]));
    let (report, asked) = judge(web);
    assert_eq!(asked, ["/"]);
    assert_eq!(report.stop_reason, StopReason::Exhausted);
}

/// Three pages about sailing; the last links to more pages of the site, which are about something
/// that the caller chooses, and to two other sites.
fn read_on_for_links(
    page: fn(usize, &[&str]) -> String,
    link_threshold: f64,
) -> (SiteReport, Vec<String>) {
    let on = [
        "/c",
        "/d",
        "/e",
        "/f",
        "/g",
        "http://one.example/",
        "http://two.example/",
    ];
    let web = ScriptedWeb::default()
        .page(SITE, &sailing(0, &["/a", "/b"]))
        .page(&at("/a"), &sailing(3, &[]))
        .page(&at("/b"), &sailing(4, &on))
        .page(&at("/c"), &page(5, &["http://three.example/"]))
        .page(&at("/d"), &page(7, &[]))
        .page(&at("/e"), &page(8, &[]))
        .page(&at("/f"), &page(9, &[]))
        .page(&at("/g"), &page(10, &[]));
    let web = Arc::new(web);
    let settings = InternalSettings {
        link_threshold,
        ..InternalSettings::default()
    };
    let report = visit(&web, visit_for(Purpose::VerdictAndLinks), settings);
    (report, web.asked())
}

fn site_confidences(report: &SiteReport) -> Vec<f64> {
    let steps = report.steps.iter();
    steps.map(|step| step.site_confidence.get()).collect()
}

#[test]
fn pages_that_are_read_for_links_confirm_a_relevant_verdict() {
    let (report, asked) = read_on_for_links(sailing, 7.5);
    assert_eq!(report.verdict, Verdict::Relevant);
    assert_eq!(report.decided_after, Some(3));
    // By hand, with confidences near 1: the pages weigh 1, 1, 2 + 1, 1 + 1 and 1, and
    // 1 + 1 + 3 + 2 = 7 is not enough, 8 is: five of eight are read.
    assert_eq!(asked, ["/", "/a", "/b", "/c", "/d"]);
    assert_eq!(report.stop_reason, StopReason::LinksFound);
    assert_eq!(report.speaking_pages(), 5);
    let confidences = site_confidences(&report);
    assert!(
        confidences.is_sorted_by(|one, next| one < next),
        "{confidences:?}"
    );
    assert!((report.confidence.get() - confidences[4]).abs() < 1e-12);
    let found: Vec<(&str, usize)> = report
        .transversal_links
        .iter()
        .map(|found| (found.link.site.as_str(), found.step))
        .collect();
    assert_eq!(
        found,
        [("one.example", 2), ("two.example", 2), ("three.example", 3)]
    );
    assert!(report.fingerprint.is_some());
}

#[test]
fn pages_that_are_read_for_links_can_withdraw_a_relevant_verdict() {
    let (report, asked) = read_on_for_links(baking, 1000.0);
    let confidences = site_confidences(&report);
    assert!(confidences[2] >= 0.99, "it was relevant: {confidences:?}");
    assert_eq!(asked[..4], ["/", "/a", "/b", "/c"]);
    let later = confidences[2..].iter();
    assert!(later.is_sorted_by(|one, next| one > next));
    assert_eq!(report.verdict, Verdict::Irrelevant, "{confidences:?}");
    // From six pages on it is relevant again, until the eighth.
    assert!(
        confidences[5] > 0.5 && confidences[6] > 0.5,
        "{confidences:?}"
    );
    assert_eq!(report.decided_after, Some(8));
    let last = confidences.last().expect("steps");
    assert!((report.confidence.get() - last).abs() < 1e-12);
}

/// From six speaking pages on there is always a verdict, so one side is followed by the other.
#[test]
fn a_verdict_that_turns_into_its_opposite_is_dated_by_the_turn() {
    let paths = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i", "/j"];
    let mut web = ScriptedWeb::default().page(SITE, &sailing(0, &paths));
    for (path, from) in paths[..3].iter().zip([3, 4, 5]) {
        web = web.page(&at(path), &sailing(from, &[]));
    }
    for (path, from) in paths[3..].iter().zip([0, 3, 4, 5, 7, 8, 9]) {
        web = web.page(&at(path), &baking(from, &[]));
    }
    let web = Arc::new(web);
    let settings = InternalSettings {
        link_threshold: 1000.0,
        ..InternalSettings::default()
    };
    let report = visit(&web, visit_for(Purpose::VerdictAndLinks), settings);
    let confidences = site_confidences(&report);
    assert_eq!(report.speaking_pages(), 11);
    // Sure after three pages, and until the sixth.
    assert!(
        confidences[2..5].iter().all(|own| *own >= 0.99),
        "{confidences:?}"
    );
    let turn = confidences.iter().position(|confidence| *confidence < 0.5);
    assert_eq!(turn, Some(9), "{confidences:?}");
    assert_eq!(report.verdict, Verdict::Irrelevant);
    assert_eq!(report.decided_after, Some(10));
}

/// What later pages say changes neither verdict nor confidence.
fn assert_frozen(report: &SiteReport, verdict: &Verdict, decided_after: usize) {
    assert_eq!(report.verdict, *verdict);
    assert_eq!(report.decided_after, Some(decided_after));
    assert!(report.speaking_pages() > decided_after);
    let confidences = &site_confidences(report)[decided_after - 1..];
    let kept = confidences
        .iter()
        .all(|confidence| (confidence - report.confidence.get()).abs() < 1e-12);
    assert!(kept, "{confidences:?}");
}

#[test]
fn an_irrelevant_verdict_stays_whatever_is_read_for_links() {
    let web = ScriptedWeb::default()
        .page(SITE, &baking(0, &["/a", "/b", "/c", "/d"]))
        .page(&at("/a"), &sailing(3, &[]))
        .page(&at("/b"), &sailing(4, &[]))
        .page(&at("/c"), &sailing(5, &[]))
        .page(&at("/d"), &sailing(7, &[]));
    let web = Arc::new(web);
    let settings = InternalSettings {
        link_threshold: f64::MAX,
        ..InternalSettings::default()
    };
    let report = visit(&web, visit_for(Purpose::VerdictAndLinks), settings);
    assert_eq!(web.asked(), ["/", "/a", "/b", "/c", "/d"]);
    assert_frozen(&report, &Verdict::Irrelevant, 1);
}

/// Paper 4.3.3: classification ends with the verdict, and 4.3.4 goes on for links alone.
#[test]
fn by_the_product_of_odds_both_verdicts_stay() {
    for (first, later, verdict) in [
        (
            sailing as fn(usize, &[&str]) -> String,
            baking as fn(usize, &[&str]) -> String,
            Verdict::Relevant,
        ),
        (baking, sailing, Verdict::Irrelevant),
    ] {
        let web = ScriptedWeb::default()
            .page(SITE, &first(0, &["/a"]))
            .page(&at("/a"), &first(3, &["/b", "/c", "/d"]))
            .page(&at("/b"), &later(0, &[]))
            .page(&at("/c"), &later(3, &[]))
            .page(&at("/d"), &later(4, &[]));
        let web = Arc::new(web);
        let settings = InternalSettings {
            link_threshold: f64::MAX,
            ..InternalSettings::default()
        };
        let planned = SiteVisit {
            evidence_rule: EvidenceRule::Product,
            ..visit_for(Purpose::VerdictAndLinks)
        };
        let report = visit(&web, planned, settings);
        assert_eq!(web.asked(), ["/", "/a", "/b", "/c", "/d"]);
        assert_frozen(&report, &verdict, 2);
    }
}

#[test]
fn more_is_read_for_links_while_sites_are_scarce() {
    let read = |purpose| {
        let web = ScriptedWeb::default()
            .page(
                SITE,
                &sailing(0, &["/a", "/b", "/c", "http://one.example/"]),
            )
            .page(&at("/a"), &sailing(3, &["http://two.example/"]))
            .page(&at("/b"), &sailing(4, &["http://three.example/"]))
            .page(&at("/c"), &sailing(5, &["http://four.example/"]));
        let web = Arc::new(web);
        let settings = InternalSettings {
            link_threshold: 0.0,
            scarce_link_threshold: 8.0,
            ..InternalSettings::default()
        };
        let report = visit(&web, visit_for(purpose), settings);
        assert_eq!(report.verdict, Verdict::Relevant);
        (report.steps.len(), report.transversal_links.len())
    };
    assert_eq!(read(Purpose::VerdictAndLinks), (3, 3));
    assert_eq!(read(Purpose::VerdictAndManyLinks), (4, 4));
}

#[test]
fn pages_are_read_in_the_order_that_the_crawler_is_given() {
    let asked = |page_ordering: Arc<dyn PageOrdering>| {
        let web = ScriptedWeb::default()
            .page(SITE, &sailing(0, &["/a", "/b", "/c", "/links.html"]))
            .page(&at("/a"), &sailing(3, &[]))
            .page(&at("/b"), &sailing(4, &[]))
            .page(&at("/c"), &sailing(5, &[]))
            .page(&at("/links.html"), &sailing(7, &[]));
        let web = Arc::new(web);
        let planned = visit_for(Purpose::VerdictAndLinks);
        let report = visit_by(&web, planned, InternalSettings::default(), page_ordering);
        assert_eq!(report.decided_after, Some(3));
        web.asked()
    };
    let links_first = ["/", "/a", "/b", "/links.html", "/c"];
    assert_eq!(asked(Arc::new(LinkPagesFirst)), links_first);
    let as_before = ["/", "/a", "/b", "/c", "/links.html"];
    assert_eq!(asked(Arc::new(ByVariance)), as_before);
    assert_eq!(asked(Arc::new(BreadthFirstPages)), as_before);
    assert_eq!(
        asked(Arc::new(LastFirst)),
        ["/", "/links.html", "/c", "/b", "/a"],
        "an order from outside the crate"
    );
}

/// The page found last is read first.
#[derive(Debug)]
struct LastFirst;

impl PageOrdering for LastFirst {
    fn rank(&self, page: &WaitingPage<'_>, _: VisitPhase) -> PagePriority {
        PagePriority {
            is_preferred: false,
            value: f64::from(u32::try_from(page.found).expect("few pages")),
        }
    }
}

#[test]
fn an_irrelevant_site_is_not_read_on_for_links() {
    let web = ScriptedWeb::default()
        .page(SITE, &baking(0, &["/a", "/b"]))
        .page(&at("/a"), &baking(3, &["http://one.example/"]))
        .page(&at("/b"), &baking(4, &[]));
    let web = Arc::new(web);
    let report = visit(
        &web,
        visit_for(Purpose::VerdictAndLinks),
        InternalSettings::default(),
    );
    assert_eq!(web.asked(), ["/"]);
    assert_eq!(report.verdict, Verdict::Irrelevant);
    assert_eq!(report.stop_reason, StopReason::LinksFound);
}

/// Training walks a site breadth first, parts of a page before its links, as the internal
/// crawler would see it.
#[test]
fn training_reads_the_first_pages_breadth_first() {
    let web = ScriptedWeb::default()
        .page(
            SITE,
            "<a href=/a>a</a> <a href=/b>b</a><iframe src=/frame></iframe> start here",
        )
        .page(&at("/frame"), &sailing(0, &["/c"]))
        .page(&at("/a"), &sailing(1, &["/d", "/missing"]))
        .page(&at("/b"), &sailing(2, &[]))
        .page(&at("/c"), &sailing(2, &[]))
        .page(&at("/d"), &sailing(4, &[]));
    let web = Arc::new(web);
    let corpus = read_for_training(&web, 25);
    assert_eq!(
        web.asked(),
        ["/", "/frame", "/a", "/b", "/c", "/d", "/missing"]
    );
    let kinds: Vec<&str> = corpus.sites[0]
        .pages
        .iter()
        .map(|page| page.kind.name())
        .collect();
    // /c repeats /b, and is left out.
    assert_eq!(kinds, ["homepage", "homepage", "inner", "inner", "deep"]);
    assert_eq!(read_for_training(&web, 2).sites[0].pages.len(), 2);
}

#[test]
fn training_leaves_a_site_whose_gatekeeper_answers_page_after_page() {
    let gate = "<!DOCTYPE html><title>Just a moment...</title><script>(function(){\
                window._cf_chl_opt={cvId:'3'};var a=document.createElement('script');\
                a.src='/cdn-cgi/challenge-platform/h/g/orchestrate';})()</script>";
    let paths = ["/a", "/b", "/c", "/d", "/e", "/f"];
    let mut web = ScriptedWeb::default().page(SITE, &sailing(0, &paths));
    for path in paths {
        web = web.page(&at(path), gate);
    }
    let web = Arc::new(web);
    let corpus = read_for_training(&web, 25);
    assert_eq!(web.asked(), ["/", "/a", "/b", "/c", "/d"], "four in a row");
    assert_eq!(corpus.sites[0].pages.len(), 1);
}

#[test]
fn training_distinguishes_sites_that_lead_away_from_those_that_cannot_be_reached() {
    let away = [("location", "http://elsewhere.example/")];
    let web = Arc::new(ScriptedWeb::default().answer(SITE, 301, &away));
    let corpus = read_for_training(&web, 25);
    assert_eq!((corpus.empty.len(), corpus.unreachable.len()), (1, 0));
    let web = Arc::new(ScriptedWeb::default());
    let corpus = read_for_training(&web, 25);
    assert_eq!((corpus.empty.len(), corpus.unreachable.len()), (0, 1));
}

#[test]
fn training_passes_over_what_robots_may_not_read() {
    let closed = ["/news/1", "/news/2", "/news/3", "/news/4", "/news/5"];
    let links = [&closed[..], &["/about"]].concat();
    let web = ScriptedWeb::default()
        .page(SITE, &sailing(0, &links))
        .page(&at("/about"), &sailing(3, &[]))
        .closed("/news/");
    let web = Arc::new(web);
    let corpus = read_for_training(&web, 25);
    assert_eq!(web.asked(), ["/", "/about"]);
    assert_eq!(corpus.sites[0].pages.len(), 2);
}

#[test]
fn training_asks_again_only_for_what_could_not_be_read() {
    let whole = || {
        let web = ScriptedWeb::default().page(SITE, &sailing(0, &[]));
        web.page("http://bakery.example/", &baking(0, &[]))
    };
    let labels = "bakery.example\tother\ngone.example\tother\nsite.example\tsailing\n";
    let labels = Labels::parse(labels).expect("labels");
    let first = Arc::new(ScriptedWeb::default().page(SITE, &sailing(0, &[])));
    let second = Arc::new(whole());
    let read = |webs: &[&Arc<ScriptedWeb>]| {
        let fetchers: Vec<Arc<dyn Fetcher>> = webs
            .iter()
            .map(|web| Arc::clone(web) as Arc<dyn Fetcher>)
            .collect();
        let limits = training_limits(25);
        let reading = Corpus::read_in_turn(&fetchers, &labels.labels, limits, |_| {});
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(reading)
    };
    let corpus = read(&[&first, &second]);
    // The unreachable one is tried with all spellings of its homepage, each time.
    let asked = (first.asked().len(), second.asked().len());
    let entrances = second.asked().len() - 1;
    assert_eq!(asked, (1 + 2 * entrances, 1 + entrances));
    let unread: Vec<&str> = corpus
        .unreachable
        .iter()
        .map(|(site, _)| site.as_str())
        .collect();
    assert_eq!(unread, ["gone.example"]);
    // The same sites give the same numbers, however they came.
    let at_once = read(&[&Arc::new(whole())]);
    assert_eq!(corpus.sites, at_once.sites);
}

fn read_for_training(web: &Arc<ScriptedWeb>, pages_per_site: usize) -> Corpus {
    let labels = Labels::parse("site.example\tsailing\n").expect("labels");
    let limits = training_limits(pages_per_site);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let reading = Corpus::read(web.clone(), &labels.labels, limits, |_| {});
    runtime.expect("a runtime").block_on(reading)
}

fn training_limits(pages_per_site: usize) -> CorpusLimits {
    CorpusLimits {
        pages_per_site,
        sites_at_once: 8,
        parse: crate::LIMITS,
    }
}
