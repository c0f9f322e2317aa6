//! Platforms: each host below one counts as a domain of its own, for shares of the border and for
//! ranks, also in stores written before the platform was known.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use sitescout::store::{Standing, TopicOpening};
use sitescout::web::{Platforms, Verdict};

use crate::stores::{Combined, StoreFixture, edge, opening, places};
use crate::warc::WarcBuilder;

/// A topic for which these are platforms, too.
fn with(platforms: &[&str]) -> TopicOpening {
    let platforms: Vec<String> = platforms.iter().map(|name| (*name).to_owned()).collect();
    TopicOpening {
        platforms: Arc::new(Platforms::with(&platforms)),
        ..opening(Combined)
    }
}

async fn standing(fixture: &StoreFixture, host: &str) -> Standing {
    let site = host.parse().expect("a host");
    let file = fixture
        .store
        .site(fixture.topic, &site)
        .await
        .expect("a read");
    file.expect("a file").standing
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

/// Ten names below a domain.
fn below(domain: &str) -> Vec<String> {
    (0..10).map(|at| format!("h{at}.{domain}")).collect()
}

async fn enter(fixture: &StoreFixture, hosts: &[String]) -> usize {
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    fixture.enter(&hosts, false).await
}

#[tokio::test]
async fn blogs_of_one_platform_are_domains_of_their_own() {
    for platform in [
        "wordpress.com",
        "substack.com",
        "tumblr.com",
        "neocities.org",
        "weebly.com",
        "livejournal.com",
        "over-blog.com",
    ] {
        for fixture in StoreFixture::all().await {
            check_platform(&fixture, platform).await;
        }
    }
}

/// By hand: three blogs recommend with 0.9 and another site with 0.1; as four domains that is
/// 0.7 on average, as two it would be 0.5.
async fn check_platform(fixture: &StoreFixture, platform: &str) {
    // The front of the platform is a site of its own, by one name.
    let www = format!("www.{platform}");
    assert_eq!(fixture.enter(&[platform, &www], false).await, 1);
    assert_eq!(enter(fixture, &below(platform)).await, 10, "{platform}");
    assert_eq!(enter(fixture, &below("farm.test")).await, 3, "others share");
    let pages = below("alice.substack.com");
    assert_eq!(enter(fixture, &pages).await, 3, "and so do parts of a blog");
    fixture.take(99).await;
    let blogs = below(platform);
    for blog in &blogs[..3] {
        let edges = vec![edge("target.org", 0.9, 0.9)];
        fixture.judge(blog, Verdict::Relevant, edges).await;
    }
    let edges = vec![edge("target.org", 0.1, 0.1)];
    fixture
        .judge("h0.farm.test", Verdict::Irrelevant, edges)
        .await;
    let target = standing(fixture, "target.org").await;
    assert_eq!((target.edges, target.domains), (4, 4), "{platform}");
    assert!(is_near(target.global, 0.7), "{target:?}");
}

/// A store that was written before the platform was known: by hand, two sites of it with 0.9
/// and another one with 0.1 weigh 0.5 as two domains and 0.633 as three.
#[tokio::test]
async fn an_older_store_is_recounted() {
    for fixture in StoreFixture::all().await {
        assert_eq!(enter(&fixture, &below("farm.test")).await, 3);
        fixture
            .enter(&["honest.test", "leads.farm.test"], true)
            .await;
        let rival = vec![edge("rival.org", 0.6, 0.6), edge("target.org", 0.1, 0.1)];
        fixture.take(99).await;
        fixture.judge("honest.test", Verdict::Relevant, rival).await;
        for host in ["h0.farm.test", "h1.farm.test"] {
            let edges = vec![edge("target.org", 0.9, 0.9)];
            fixture.judge(host, Verdict::Relevant, edges).await;
        }
        let before = standing(&fixture, "target.org").await;
        assert_eq!((before.edges, before.domains), (3, 2));
        assert!(is_near(before.global, 0.5));
        let rival = standing(&fixture, "rival.org").await;

        let again = fixture.store.open_topic(with(&["farm.test"])).await;
        assert_eq!(again.expect("a topic"), fixture.topic);
        let after = standing(&fixture, "target.org").await;
        assert_eq!((after.edges, after.domains), (3, 3));
        assert!(is_near(after.global, 1.9 / 3.0), "{after:?}");
        assert_eq!(
            standing(&fixture, "rival.org").await,
            rival,
            "nothing moved"
        );
        // A further site of the platform counts once.
        fixture
            .judge(
                "h2.farm.test",
                Verdict::Relevant,
                vec![edge("target.org", 0.9, 0.9)],
            )
            .await;
        let more = standing(&fixture, "target.org").await;
        assert_eq!((more.edges, more.domains), (4, 4));
        assert!(is_near(more.global, 2.8 / 4.0));
        // Each name has a share of its own now.
        assert_eq!(enter(&fixture, &below("farm.test")).await, 7);
        assert_eq!(enter(&fixture, &below("h0.farm.test")).await, 2);

        // And back: they are one again, and have more than their share.
        let again = fixture.store.open_topic(with(&[])).await;
        assert_eq!(again.expect("a topic"), fixture.topic);
        let back = standing(&fixture, "target.org").await;
        assert_eq!((back.edges, back.domains), (4, 2));
        assert!(is_near(back.global, 0.5), "{back:?}");
        assert_eq!(fixture.enter(&["new.farm.test"], false).await, 0);
        // By the new ranks: 0.6 for the rival, 0.5 for the target.
        let border = fixture.take(2).await;
        assert_eq!(border, ["rival.org", "target.org"]);
    }
}

/// The same out of a dump, whose counts and sums are those of before.
#[tokio::test]
async fn an_older_dump_is_recounted() {
    for fixture in StoreFixture::all().await {
        enter(&fixture, &below("tumblr.com")[..3]).await;
        fixture.take(99).await;
        for (host, weight) in [("h0.tumblr.com", 0.9), ("h1.tumblr.com", 0.5)] {
            let edges = vec![edge("target.org", weight, weight)];
            fixture.judge(host, Verdict::Relevant, edges).await;
        }
        let dump = older_dump(&fixture).await;
        for place in places() {
            let lines = dump.iter().cloned();
            let lines = lines.map(|line| serde_json::from_value(line).expect("a record"));
            let store = place.open().await;
            store.load(lines.collect()).await.expect("a store");
            let old = StoreFixture::over(store).await;
            let target = standing(&old, "target.org").await;
            assert_eq!((target.edges, target.domains), (2, 2));
            assert!(is_near(target.global, 0.7), "{target:?}");
            assert_eq!(enter(&old, &below("tumblr.com")).await, 7);
        }
    }
}

/// The dump of a version that did not know the platform.
async fn older_dump(fixture: &StoreFixture) -> Vec<Value> {
    let mut dump = fixture.store.dump();
    let mut lines: Vec<Value> = Vec::new();
    let mut is_written = false;
    while let Some(line) = dump.recv().await {
        let mut line = serde_json::to_value(line.expect("a record")).expect("JSON");
        match line["record"].as_str() {
            Some("domain")
                if line["domain"]
                    .as_str()
                    .is_some_and(|own| own.ends_with("tumblr.com")) =>
            {
                if is_written {
                    continue;
                }
                is_written = true;
                line["domain"] = json!("tumblr.com");
                line["sites"] = json!(3);
            }
            Some("site") if line["host"] == "target.org" => {
                line["site"]["domains"] = json!(1);
                line["site"]["global"] = json!(0.7);
                line["site"]["local"] = json!(0.7);
            }
            Some("end") => continue,
            _ => {}
        }
        lines.push(line);
    }
    assert!(is_written);
    lines.push(json!({ "record": "end", "records": lines.len() }));
    lines
}

/// The whole program, with and without a platform of the operator's.
#[test]
fn a_crawl_takes_up_every_author_of_a_platform() {
    let club = |name: &str, links: &[String]| {
        let links: Vec<String> = links
            .iter()
            .map(|to| format!("<a href='https://{to}/'>{to}</a> "))
            .collect();
        format!(
            "<title>{name} yacht club</title><p>sailing regatta yacht keel mast boat sail harbour \
             dinghy crew wind club race mooring tiller jib skipper at {name}</p>{}",
            links.concat()
        )
    };
    let domains = ["wordpress.com", "clubs.example", "farm.example"];
    let hosts: Vec<String> = domains.iter().flat_map(|domain| below(domain)).collect();
    let mut archive = WarcBuilder::default().page("https://hub.example/", &club("the hub", &hosts));
    for host in &hosts {
        archive = archive.page(&format!("https://{host}/"), &club(host, &[]));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("web.warc"), archive.plain()).expect("room");
    for (settings, wanted) in [
        ("", [10, 2, 2]),
        ("platforms = ['clubs.example']", [10, 10, 2]),
    ] {
        let settings = format!("[external]\nsites_per_domain = 2\ncrawlers = 1\n{settings}\n");
        fs::write(path("c.toml"), settings).expect("room");
        let models = concat!(env!("CARGO_MANIFEST_DIR"), "/site-models");
        let arguments = format!(
            "crawl sailing --json --config c.toml --models {models} --web warc:web.warc \
             --start hub.example --state {}",
            wanted[1]
        );
        let output = Command::new(env!("CARGO_BIN_EXE_sitescout"))
            .current_dir(directory.path())
            .args(arguments.split_whitespace())
            .output()
            .expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        let mut judged: BTreeMap<&str, usize> = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let host = line["host"].as_str().expect("a host").to_owned();
            if let Some(domain) = domains.iter().find(|domain| host.ends_with(*domain)) {
                *judged.entry(domain).or_default() += 1;
            }
        }
        let judged: Vec<usize> = domains.iter().map(|domain| judged[domain]).collect();
        assert_eq!(judged, wanted, "{stderr}");
    }
    // What is no domain is refused, with its place.
    for wrong in ["'*.example.org'", "'192.0.2.1'", "'org'", "7"] {
        fs::write(
            path("c.toml"),
            format!("[external]\nplatforms = [{wrong}]\n"),
        )
        .expect("room");
        let output = Command::new(env!("CARGO_BIN_EXE_sitescout"))
            .current_dir(directory.path())
            .args(["check-config", "c.toml"])
            .output()
            .expect("an end");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{wrong}: {stderr}");
        assert!(stderr.contains("a list of domains"), "{stderr}");
    }
}
