//! The HTTP API of a running daemon: what readers, editors and operators can rely on, and what
//! no client can do with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::crashes::site_name;
use crate::crawling::{JUDGED, Place, text};
use crate::daemon::{Daemon, LONGEST, large_place, place, settings};
use crate::pathologies::Pathologies;
use crate::skips::skipped;

const TOKEN: &str = "correct-horse-battery-staple-7";

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

#[derive(Clone)]
struct Client {
    address: String,
    token: Option<&'static str>,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            status: status.expect("a status"),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    fn json(&self) -> Value {
        let json = serde_json::from_str(&self.body);
        json.unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn lines(&self) -> Vec<Value> {
        let lines = self.body.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// The error code.
    fn code(&self) -> String {
        let code = self.json()["error"]["code"].clone();
        let message = self.json()["error"]["message"].clone();
        assert!(message.as_str().is_some_and(|message| !message.is_empty()));
        code.as_str().expect("a code").to_owned()
    }
}

impl Client {
    fn of(daemon: &Daemon) -> Self {
        let served = daemon.logs("the API is served");
        let address = served["fields"]["address"].as_str().expect("an address");
        Self {
            address: address.to_owned(),
            token: Some(TOKEN),
        }
    }

    fn request(&self, method: &str, path: &str, more: &str, body: &str) -> String {
        let token = self.token.map_or(String::new(), |token| {
            format!("authorization: Bearer {token}\r\n")
        });
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{token}{more}\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
    }

    fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("a server");
        stream.set_read_timeout(Some(LONGEST)).expect("a time");
        // A refusal may come before everything is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::parse(&text(&answer))
    }

    fn get(&self, path: &str) -> Answer {
        self.send(&self.request("GET", path, "", ""))
    }

    fn write(&self, method: &str, path: &str, body: &Value) -> Answer {
        let kind = "content-type: application/json\r\n";
        self.send(&self.request(method, path, kind, &body.to_string()))
    }

    fn decide(&self, host: &str, decision: &str) -> Answer {
        let path = format!("/v1/topics/boats/sites/{host}/decision");
        self.write("PUT", &path, &json!({ "decision": decision }))
    }

    /// A site that was judged irrelevant.
    fn irrelevant(&self) -> String {
        let sites = self.get("/v1/sites?topic=boats&verdict=irrelevant&limit=1");
        host(&sites.json()["sites"][0])
    }

    fn feed(&self, after: u64) -> Vec<Value> {
        let answer = self.get(&format!("/v1/feed?topic=boats&after={after}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.lines()
    }

    /// The state of a topic and why.
    fn state(&self, topic: &str) -> (String, String) {
        let topic = self.get(&format!("/v1/topics/{topic}")).json();
        (topic["state"].to_string(), topic["reason"].to_string())
    }

    fn waits_for(&self, topic: &str, state: &str, reason: &str) {
        let begin = Instant::now();
        let wanted = (format!("{state:?}"), format!("{reason:?}"));
        while self.state(topic) != wanted {
            assert!(begin.elapsed() < LONGEST, "{:?}", self.state(topic));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A daemon with a token file, and a client with the token.
fn started(place: &Place, web: &Pathologies, more: &str) -> (Daemon, Client) {
    fs::write(place.path("token"), format!("{TOKEN}\n")).expect("a token");
    settings(place, web, "", &format!("token_file = 'token'\n{more}"));
    let daemon = Daemon::start(place);
    let client = Client::of(&daemon);
    (daemon, client)
}

/// The same on the small web, after everything is found.
fn at_rest() -> (Runtime, Pathologies, Place, Daemon, Client) {
    let (runtime, web, place) = place();
    let (daemon, client) = started(&place, &web, "");
    client.waits_for("boats", "idle", "border_empty");
    (runtime, web, place, daemon, client)
}

fn host(value: &Value) -> String {
    value["host"].as_str().expect("a host").to_owned()
}

fn exported(place: &Place) -> BTreeSet<String> {
    let output = place.run("export --topic boats --state state");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn topics_and_sites_say_what_they_are_and_why() {
    let (_runtime, _web, _place, _daemon, client) = at_rest();
    let topics = client.get("/v1/topics").json();
    let names: Vec<&Value> = topics["topics"]
        .as_array()
        .expect("topics")
        .iter()
        .map(|topic| &topic["name"])
        .collect();
    assert_eq!(names, ["boats", "few"]);
    let boats = client.get("/v1/topics/boats").json();
    assert_eq!(boats["border"], 0);
    assert_eq!(
        boats["pprs"]["all"].as_f64(),
        Some(boats["pages"].as_f64().expect("pages") / boats["finds"].as_f64().expect("finds"))
    );
    let curve = client.get("/v1/topics/boats/curve").json();
    let points = curve["points"].as_array().expect("points");
    assert!(points.is_sorted_by_key(|point| point["pages"].as_u64()));
    let status = client.get("/v1/status").json();
    assert!(status["fetches"]["2xx"].as_u64().expect("a count") > 10);
    assert_eq!(status["writes"], true);
    let store = status["store"].as_str().expect("a name");
    let feed = client.get(&format!("/v1/feed?topic=boats&after=1&store={store}"));
    assert!(feed.head.contains(&format!("sitescout-store: {store}")));
    // Pages of any size give the same sites in the same order.
    let all = client.get("/v1/sites?topic=boats&limit=1000").json();
    let all = all["sites"].as_array().expect("sites").clone();
    assert!(all.len() > 10, "{}", all.len());
    let (mut found, mut next) = (Vec::new(), Some(String::new()));
    while let Some(cursor) = next {
        let page = client.get(&format!("/v1/sites?topic=boats&limit=4{cursor}"));
        let page = page.json();
        found.extend(page["sites"].as_array().expect("sites").clone());
        next = page["next"].as_str().map(|next| format!("&cursor={next}"));
    }
    assert_eq!(found, all);
    let lines = client.request(
        "GET",
        "/v1/sites?topic=boats&limit=4",
        "accept: application/x-ndjson\r\n",
        "",
    );
    let lines = client.send(&lines);
    assert_eq!(lines.lines(), all[..4]);
    let link = lines
        .head
        .split("link: <")
        .nth(1)
        .and_then(|rest| rest.split('>').next());
    let next = client.get(link.expect("a link")).json();
    assert_eq!(next["sites"][0], all[4]);
    let relevant = client.get("/v1/sites?topic=boats&verdict=relevant&min_confidence=0.9");
    let relevant = relevant.json();
    let relevant = relevant["sites"].as_array().expect("sites");
    let is_sure =
        |site: &&Value| site["verdict"] == "relevant" && site["confidence"].as_f64() >= Some(0.9);
    let sure: Vec<&Value> = all.iter().filter(is_sure).collect();
    assert_eq!(relevant.iter().collect::<Vec<_>>(), sure);
    let by_prefix = client.get("/v1/sites?topic=boats&host=gulls").json();
    assert_eq!(by_prefix["sites"][0]["host"], "gulls-dinghy.example");
    let site = client
        .get("/v1/sites/gulls-dinghy.example?topic=boats")
        .json();
    let detail = &site["topics"][0];
    assert_eq!(detail["verdict"], "relevant");
    let feed = client.feed(0);
    let change = feed.iter().find(|line| line["host"] == detail["host"]);
    for field in JUDGED {
        let listed = &by_prefix["sites"][0];
        assert!(listed.get(field).is_some(), "{field}");
        assert_eq!(detail[field], listed[field], "{field}");
        // In a feed, `seq` is that of the change.
        if field != "seq" {
            assert_eq!(change.expect("a change")[field], listed[field], "{field}");
        }
    }
    assert_eq!(detail["evidence"][0]["kind"], "homepage");
    assert!(
        !detail["evidence"][0]["for"]
            .as_array()
            .expect("words")
            .is_empty()
    );
    assert!(
        !detail["recommended_by"]
            .as_array()
            .expect("edges")
            .is_empty()
    );
    assert_eq!(client.get("/v1/sites/never-heard-of.example").status, 404);
}

#[test]
fn an_editors_decision_reaches_the_feed_and_training() {
    let (_runtime, _web, place, daemon, client) = at_rest();
    let feed = client.feed(0);
    let last = feed.last().expect("a site")["seq"]
        .as_u64()
        .expect("a number");
    let rejected = "gulls-dinghy.example".to_owned();
    assert!(feed.iter().any(|line| host(line) == rejected));
    assert_eq!(client.decide(&rejected, "reject").status, 200);
    let accepted = client.irrelevant();
    let note = json!({ "decision": "accept", "note": "sells boats, too\u{1b}[31m\n=1+1" });
    let path = format!("/v1/topics/boats/sites/{accepted}/decision");
    let decided = client.write("PUT", &path, &note);
    assert_eq!(decided.json()["decision"], "accept", "{decided:?}");
    let news = client.feed(last);
    let changes: Vec<(String, &str, &str)> = news
        .iter()
        .map(|line| {
            let word = |name: &str| line[name].as_str().expect("a word");
            (host(line), word("change"), word("reason"))
        })
        .collect();
    assert_eq!(
        changes,
        [
            (rejected.clone(), "dropped", "rejected"),
            (accepted.clone(), "added", "accepted")
        ]
    );
    // A recheck changes nothing about it.
    for host in [&rejected, &accepted] {
        let recheck = format!("/v1/topics/boats/sites/{host}/recheck");
        assert_eq!(client.write("POST", &recheck, &json!({})).status, 202);
    }
    let begin = Instant::now();
    while client.get("/v1/topics/boats").json()["deferred"] != 0 {
        assert!(begin.elapsed() < LONGEST);
        thread::sleep(Duration::from_millis(20));
    }
    client.waits_for("boats", "idle", "border_empty");
    let site = client
        .get(&format!("/v1/sites/{accepted}?topic=boats"))
        .json();
    assert_eq!(site["topics"][0]["verdict"], "irrelevant");
    assert_eq!(site["topics"][0]["listed"], true);
    // No terminal escape sequence is returned.
    let decisions = client.get("/v1/topics/boats/decisions");
    assert!(!decisions.body.contains('\u{1b}'), "{}", decisions.body);
    assert_eq!(decisions.lines().len(), 2);
    let kept = decisions.lines();
    let kept = kept.iter().find(|line| host(line) == accepted);
    assert_eq!(kept.expect("a decision")["note"], note["note"]);
    fs::write(place.path("decisions.jsonl"), &decisions.body).expect("room");
    let queue = client.get("/v1/topics/boats/queue?limit=1000").json();
    let queue = queue["sites"].as_array().expect("sites");
    assert!(
        queue
            .iter()
            .all(|site| host(site) != rejected && host(site) != accepted)
    );
    assert!(!queue.is_empty());
    daemon.signal("TERM");
    assert!(daemon.end().success());
    let hosts = exported(&place);
    assert!(hosts.contains(&accepted) && !hosts.contains(&rejected));
    let csv = place.run("export --topic boats --state state --format csv");
    let csv = text(&csv.stdout);
    assert!(csv.contains(",accept,false\n"), "{csv}");
    assert!(!csv.contains('='), "a note is no cell: {csv}");
    // Training uses the decisions of editors, from the store and from a file.
    fs::copy(crate::fixture("coast.labels.tsv"), place.path("labels.tsv")).expect("labels");
    for from in [
        "--from-decisions --state state",
        "--from-decisions=decisions.jsonl",
    ] {
        let train = format!("train boats --warc coast.warc.gz --out learned {from}");
        let alone = place.run(&train);
        assert_eq!(alone.status.code(), Some(1));
        let stderr = text(&alone.stderr);
        assert!(
            stderr.contains("there is only one site of `boats` labelled; name two at least"),
            "{stderr}"
        );
        let labels = fs::read_to_string(place.path("labels.tsv")).expect("labels");
        fs::write(
            place.path("labels.tsv"),
            labels.replace("\tsailing\t", "\tboats\t"),
        )
        .expect("labels");
        let trained = place.run(&format!("{train} --labels labels.tsv"));
        assert!(trained.status.success(), "{}", text(&trained.stderr));
        let stderr = text(&trained.stderr);
        assert!(
            stderr.contains("gulls-dinghy.example was labelled `boats`"),
            "{stderr}"
        );
    }
}

#[test]
fn a_paused_topic_stays_paused_after_a_restart() {
    let (_runtime, web, place) = large_place();
    let (mut daemon, client) = started(&place, &web, "[external]\ncrawlers = 4\n");
    daemon.judges("boats");
    let paused = client.write("POST", "/v1/topics/boats/pause", &json!({}));
    assert_eq!(paused.status, 200, "{paused:?}");
    client.waits_for("boats", "idle", "paused");
    daemon.shows("sitescout_topic_state{reason=\"paused\",state=\"idle\",topic=\"boats\"} 1");
    let judged = client.get("/v1/topics/boats").json()["pages"].clone();
    daemon.judges("few");
    daemon.judges("few");
    assert_eq!(client.get("/v1/topics/boats").json()["pages"], judged);
    daemon.child.kill().expect("a process");
    let _ = daemon.child.wait();
    let daemon = Daemon::start(&place);
    let client = Client::of(&daemon);
    client.waits_for("boats", "idle", "paused");
    daemon.judges("few");
    assert_eq!(client.get("/v1/topics/boats").json()["pages"], judged);
    // It still accepts start sites, and its list follows the operator's host lists.
    let starts = json!({ "sites": ["new.example"] });
    let added = client.write("POST", "/v1/topics/boats/starts", &starts);
    assert_eq!(added.status, 200, "{added:?}");
    let listed = host(&client.feed(0)[0]);
    let blocking =
        format!("token_file = 'token'\n[external]\ncrawlers = 4\nblock = ['{listed}']\n");
    settings(&place, &web, "", &blocking);
    daemon.signal("HUP");
    daemon.logs("reloaded");
    let begin = Instant::now();
    let is_dropped = |line: &Value| host(line) == listed && line["reason"] == "blocked";
    while !client.feed(0).iter().any(is_dropped) {
        assert!(begin.elapsed() < LONGEST, "{:?}", client.feed(0));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        client
            .write("POST", "/v1/topics/boats/resume", &json!({}))
            .status,
        200
    );
    daemon.judges("boats");
}

#[test]
fn start_sites_wake_a_topic_and_blocked_hosts_leave_it() {
    let (_runtime, web, _place, daemon, client) = at_rest();
    // No site links there.
    let lonely = "lonely-regatta.example";
    web.script(lonely, |_, _| {
        let page = "<title>Regatta</title><p>sailing regatta yacht keel mast boat sail harbour \
                    dinghy crew wind club race</p>";
        crate::pathologies::Reply::html(page)
    });
    let starts = "/v1/topics/boats/starts";
    let added = client.write(
        "POST",
        starts,
        &json!({ "sites": [lonely, "gulls-dinghy.example"] }),
    );
    assert_eq!(added.json(), json!({ "new": 1, "known": 1 }), "{added:?}");
    loop {
        if daemon.judges("boats").contains(lonely) {
            break;
        }
    }
    let feed = client.feed(0);
    let last = feed.last().expect("a site")["seq"]
        .as_u64()
        .expect("a number");
    let blocked = "bay-regatta.example";
    assert!(feed.iter().any(|line| host(line) == blocked));
    let before = web.requests(blocked).len();
    let block = client.write(
        "PUT",
        &format!("/v1/blocks/{blocked}"),
        &json!({ "note": "spam" }),
    );
    assert_eq!(block.json()["note"], "spam", "{block:?}");
    let news = client.feed(last);
    assert_eq!(
        (host(&news[0]), &news[0]["change"]),
        (blocked.to_owned(), &json!("dropped"))
    );
    let recheck = format!("/v1/topics/boats/sites/{blocked}/recheck");
    assert_eq!(client.write("POST", &recheck, &json!({})).status, 202);
    loop {
        if daemon.judges("boats").contains(blocked) {
            break;
        }
    }
    assert_eq!(web.requests(blocked).len(), before, "it got no request");
    let blocks = client.get("/v1/blocks").json();
    assert_eq!(blocks["blocks"][0]["host"], blocked);
    let path = format!("/v1/blocks/{blocked}");
    assert_eq!(client.write("DELETE", &path, &json!({})).status, 204);
    loop {
        if daemon.judges("boats").contains(blocked) {
            break;
        }
    }
    assert!(web.requests(blocked).len() > before);
    let news = client.feed(last);
    let last = news.last().expect("a change");
    assert_eq!(
        (host(last), &last["change"]),
        (blocked.to_owned(), &json!("added"))
    );
}

/// By edits, by a reload, and across a restart: also when robots.txt redirects there.
#[test]
fn blocks_hold_where_robots_txt_leads() {
    let (_runtime, web, place, daemon, client) = at_rest();
    let blocked = "gulls-dinghy.example";
    for (host, target) in [
        ("relay.example", "http://gulls-dinghy.example/robots.txt"),
        (
            "relay-port.example",
            "http://gulls-dinghy.example:8080/robots.txt",
        ),
        (
            "relay-www.example",
            "https://www.gulls-dinghy.example/robots.txt",
        ),
        (
            "other-relay.example",
            "http://bay-regatta.example/robots.txt",
        ),
    ] {
        web.script(host, move |asked, _| match asked {
            "/robots.txt" => crate::pathologies::Reply::redirect(target),
            _ => crate::pathologies::Reply::html("<title>Regatta</title><p>sail</p>"),
        });
    }
    let path = "/v1/topics/boats/try";
    let block = client.write("PUT", &format!("/v1/blocks/{blocked}"), &json!({}));
    assert_eq!(block.status, 200, "{block:?}");
    let seen = |host: &str| {
        let www = format!("www.{host}");
        web.requests(host).len() + web.requests(&www).len()
    };
    let before = seen(blocked);
    let refused = |client: &Client, hosts: &[&str]| {
        for host in hosts {
            let url = json!({ "url": format!("http://{host}/") });
            assert_eq!(
                client.write("POST", path, &url).code(),
                "conflict",
                "{host}"
            );
        }
    };
    let relays = [
        "relay.example",
        "relay-port.example",
        "relay-www.example",
        blocked,
    ];
    refused(&client, &relays);
    assert_eq!(seen(blocked), before);
    // A reload replaces the lists.
    let other = "bay-regatta.example";
    let (all, before_other) = (
        fs::read_to_string(place.path("daemon.toml")).expect("settings"),
        seen(other),
    );
    let all = format!("{all}[external]\nblock = ['{other}']\n");
    fs::write(place.path("daemon.toml"), all).expect("settings");
    daemon.signal("HUP");
    daemon.logs("reloaded");
    refused(&client, &["other-relay.example", "relay.example"]);
    assert_eq!((seen(blocked), seen(other)), (before, before_other));
    drop(daemon);
    let daemon = Daemon::start(&place);
    let client = Client::of(&daemon);
    refused(&client, &relays);
    refused(&client, &["other-relay.example"]);
    assert_eq!((seen(blocked), seen(other)), (before, before_other));
    let path_of_block = format!("/v1/blocks/{blocked}");
    assert_eq!(
        client.write("DELETE", &path_of_block, &json!({})).status,
        204
    );
    let url = json!({ "url": "http://relay.example/" });
    assert_eq!(client.write("POST", path, &url).status, 200);
    assert!(seen(blocked) > before);
}

#[test]
fn pages_are_tried_against_the_model() {
    let (_runtime, web, _place, _daemon, mut client) = at_rest();
    let path = "/v1/topics/boats/try";
    let url = json!({ "url": "http://gulls-dinghy.example/" });
    let before = web.requests("gulls-dinghy.example").len();
    let fetched = client.write("POST", path, &url).json();
    assert_eq!(web.requests("gulls-dinghy.example").len(), before + 1);
    assert!(fetched["confidence"].as_f64() > Some(0.9), "{fetched}");
    assert!(
        fetched["for"]
            .as_array()
            .is_some_and(|words| words.len() > 2)
    );
    client.token = None;
    // Without the token the daemon sends no request.
    assert_eq!(client.write("POST", path, &url).code(), "unauthorized");
    assert_eq!(web.requests("gulls-dinghy.example").len(), before + 1);
    client.token = Some(TOKEN);
    let block = client.write("PUT", "/v1/blocks/gulls-dinghy.example", &json!({}));
    assert_eq!(block.status, 200);
    assert_eq!(client.write("POST", path, &url).code(), "conflict");
    assert_eq!(web.requests("gulls-dinghy.example").len(), before + 1);
    let missing = json!({ "url": "http://bay-regatta.example/no-such-page" });
    assert_eq!(client.write("POST", path, &missing).code(), "no-page");
    client.token = None;
    let hostile = json!({ "html": "<title><script>alert(1)</script>\u{202e}</title><p>bread" });
    let pasted = client.write("POST", path, &hostile).json();
    assert_eq!(pasted["is_mute"], true);
    let raw = client.write("POST", path, &hostile).body;
    assert!(!raw.contains('\u{202e}'), "{raw}");
    assert_eq!(pasted["confidence"], 0.5);
    for wrong in [
        json!({}),
        json!({ "url": "ftp://a.example/" }),
        json!({ "url": 1 }),
    ] {
        assert_eq!(client.write("POST", path, &wrong).code(), "bad-request");
    }
    // Private addresses stay out of reach even with the token.
    client.token = Some(TOKEN);
    let inside = json!({ "url": format!("http://{}/metrics", client.address) });
    assert_eq!(client.write("POST", path, &inside).code(), "no-page");
}

#[test]
fn wrong_requests_are_refused_with_a_reason_and_the_crawl_goes_on() {
    let (_runtime, web, place) = large_place();
    let limits = "body_bytes = '2 KiB'\n[external]\ncrawlers = 4\n";
    let (daemon, client) = started(&place, &web, limits);
    daemon.judges("boats");
    for (path, code) in [
        ("/v1/nothing", "not-found"),
        ("/v1/topics/golf", "not-found"),
        ("/v1/topics/golf/curve", "not-found"),
        ("/v1/sites?topic=golf", "not-found"),
        ("/v1/feed?topic=golf", "not-found"),
        ("/v1/feed", "bad-request"),
        ("/v1/feed?topic=boats&after=-1", "bad-request"),
        ("/v1/feed?topic=boats&wait=3600", "bad-request"),
        ("/v1/feed?topic=boats&after=999999999", "other-store"),
        ("/v1/feed?topic=boats&store=another", "other-store"),
        ("/v1/sites?cursor=x", "bad-request"),
        ("/v1/sites?cursor=h9.", "bad-request"),
        ("/v1/sites?cursor=h1.a.example", "bad-request"),
        ("/v1/sites?host=a&cursor=n1", "bad-request"),
        ("/v1/sites?limit=0", "bad-request"),
        ("/v1/sites?limit=1001", "bad-request"),
        ("/v1/sites?limit=many", "bad-request"),
        ("/v1/sites?verdict=good", "bad-request"),
        ("/v1/sites?since=yesterday", "bad-request"),
        ("/v1/sites?min_confidence=2", "bad-request"),
        ("/v1/sites?min_confidence=NaN", "bad-request"),
        ("/v1/sites?topik=boats", "bad-request"),
        ("/v1/sites/%00", "bad-request"),
        ("/v1/sites/%ff", "bad-request"),
        ("/v1/sites/a%20b", "bad-request"),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.code(), code, "{path}: {answer:?}");
        assert!(answer.status >= 400, "{path}");
    }
    let decision = format!("/v1/topics/boats/sites/{}/decision", site_name(0));
    let kind = "content-type: application/json\r\n";
    for (more, body, code) in [
        (kind, "{", "bad-request"),
        (kind, "[]", "bad-request"),
        (kind, "{\"decision\":\"maybe\"}", "bad-request"),
        (kind, "{\"decision\":\"accept\",\"x\":1}", "bad-request"),
        ("", "{\"decision\":\"accept\"}", "not-json"),
        (
            kind,
            &format!(
                "{{\"decision\":\"accept\",\"note\":\"{}\"}}",
                "x".repeat(1_000_000)
            ),
            "too-large",
        ),
    ] {
        let answer = client.send(&client.request("PUT", &decision, more, body));
        assert_eq!(answer.code(), code, "{answer:?}");
    }
    let wrong = client.write(
        "PUT",
        "/v1/topics/boats/sites/unheard.example/decision",
        &json!({ "decision": "accept" }),
    );
    assert_eq!(wrong.code(), "not-found");
    let many: Vec<String> = (0..2_000)
        .map(|number| format!("{number}.example"))
        .collect();
    assert_eq!(
        client
            .write("POST", "/v1/topics/boats/starts", &json!({ "sites": many }))
            .code(),
        "too-large"
    );
    for sites in [json!([]), json!(["not a host"]), json!([1])] {
        let answer = client.write(
            "POST",
            "/v1/topics/boats/starts",
            &json!({ "sites": sites }),
        );
        assert_eq!(answer.code(), "bad-request");
    }
    let wrong_method = client.write("POST", "/v1/topics", &json!({}));
    assert_eq!(
        (wrong_method.status, wrong_method.code().as_str()),
        (405, "wrong-method")
    );
    assert!(
        wrong_method.head.contains("allow: get"),
        "{}",
        wrong_method.head
    );
    let feed = client.feed(0);
    assert!(
        feed.iter().all(|line| line["decision"].is_null()),
        "there is no decision"
    );
    daemon.judges("boats");
}

#[test]
fn no_client_writes_without_the_token_and_none_learns_it() {
    let (_runtime, web, place, daemon, mut client) = at_rest();
    let site = "/v1/topics/boats/sites/gulls-dinghy.example";
    let writes = [
        ("POST", "/v1/topics/boats/pause".to_owned()),
        ("POST", "/v1/topics/boats/resume".to_owned()),
        ("POST", "/v1/topics/boats/starts".to_owned()),
        ("PUT", format!("{site}/decision")),
        ("DELETE", format!("{site}/decision")),
        ("POST", format!("{site}/recheck")),
        ("PUT", "/v1/blocks/gulls-dinghy.example".to_owned()),
        ("DELETE", "/v1/blocks/gulls-dinghy.example".to_owned()),
    ];
    let wrong = "correct-horse-battery-staple-8";
    for token in [None, Some(wrong), Some(""), Some("correct-horse")] {
        client.token = token;
        for (method, path) in &writes {
            let answer = client.write(method, path, &json!({ "decision": "reject" }));
            assert_eq!(answer.status, 401, "{method} {path}");
            assert!(answer.head.contains("www-authenticate: bearer"));
            assert!(!answer.body.contains(TOKEN));
        }
    }
    assert!(client.feed(0).iter().all(|line| line["change"] == "added"));
    assert_eq!(client.state("boats").1, "\"border_empty\"");
    daemon.signal("TERM");
    let mut log = String::new();
    while let Ok(line) = daemon.log.recv_timeout(LONGEST) {
        log.push_str(&line.to_string());
    }
    assert!(log.contains("request with a wrong token"), "{log}");
    assert!(!log.contains(TOKEN) && !log.contains(wrong), "{log}");
    drop(daemon);
    // Without a token file every token is refused.
    settings(&place, &web, "", "");
    let daemon = Daemon::start(&place);
    let mut client = Client::of(&daemon);
    assert_eq!(client.get("/v1/status").json()["writes"], false);
    for (method, path) in &writes {
        let answer = client.write(method, path, &json!({}));
        assert_eq!(answer.code(), "forbidden", "{method} {path}");
    }
    client.token = Some("");
    assert_eq!(
        client
            .write("POST", "/v1/topics/boats/pause", &json!({}))
            .status,
        403
    );
}

#[test]
fn a_public_address_needs_a_token_for_everything() {
    let (_runtime, web, place) = place();
    let public = |more: &str| {
        settings(&place, &web, "", more);
        let file = place.path("daemon.toml");
        let text = fs::read_to_string(&file).expect("settings");
        let listen = "[api]\nlisten = '127.0.0.1:0'";
        assert!(text.contains(listen));
        fs::write(&file, text.replace(listen, "[api]\nlisten = '0.0.0.0:0'")).expect("settings");
    };
    public("");
    let refused = place.run("run --config daemon.toml");
    assert_eq!(refused.status.code(), Some(78));
    assert!(
        text(&refused.stderr).contains("token_file"),
        "{}",
        text(&refused.stderr)
    );
    assert!(!place.path("state").exists(), "nothing was touched");
    for (token, why) in [
        ("short", "16 to 512"),
        ("with a space in the middle", "printable ASCII"),
    ] {
        fs::write(place.path("token"), token).expect("a token");
        public("token_file = 'token'\n");
        let refused = place.run("run --config daemon.toml --check");
        assert_eq!(refused.status.code(), Some(78));
        let stderr = text(&refused.stderr);
        assert!(stderr.contains(why) && !stderr.contains(token), "{stderr}");
    }
    fs::write(place.path("token"), TOKEN).expect("a token");
    public("token_file = 'token'\n");
    let daemon = Daemon::start(&place);
    let mut client = Client::of(&daemon);
    client.address = client.address.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(client.get("/v1/topics").status, 200);
    client.token = None;
    for path in [
        "/v1/topics",
        "/v1/sites",
        "/v1/feed?topic=boats",
        "/v1/openapi.json",
        "/metrics",
    ] {
        assert_eq!(client.get(path).status, 401, "{path}");
    }
    assert_eq!(client.get("/").status, 200, "the page itself holds nothing");
}

#[test]
fn responses_carry_security_headers_and_foreign_host_names_are_refused() {
    let (_runtime, _web, _place, _daemon, client) = at_rest();
    for path in ["/", "/dashboard.js", "/v1/topics", "/v1/nothing"] {
        let answer = client.get(path);
        for header in [
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "content-security-policy: default-src 'none'",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
        assert!(!answer.head.contains("access-control-"), "{path}");
    }
    let preflight = "origin: https://evil.example\r\naccess-control-request-method: PUT\r\n";
    let preflight = client.request("OPTIONS", "/v1/topics/boats/pause", preflight, "");
    let preflight = client.send(&preflight);
    assert!(
        !preflight.head.contains("access-control-"),
        "{}",
        preflight.head
    );
    let port = client.address.rsplit(':').next().expect("a port");
    for (name, status) in [
        ("127.0.0.1", 200),
        (&format!("localhost:{port}"), 200),
        ("LOCALHOST", 200),
        ("[::1]", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ] {
        let request =
            format!("GET /v1/topics HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n");
        assert_eq!(client.send(&request).status, status, "{name}");
    }
}

#[test]
fn excess_requests_get_429_with_retry_after() {
    let (_runtime, web, place) = place();
    let (_daemon, client) = started(&place, &web, "requests_per_second = 1\n");
    let answers: Vec<Answer> = (0..30).map(|_| client.get("/v1/topics")).collect();
    let refused = answers.iter().find(|answer| answer.status == 429);
    let refused = refused.expect("a refusal");
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((10..30).contains(&served), "{served}");
}

#[test]
fn slow_clients_hold_up_no_other_client() {
    let (_runtime, web, place) = large_place();
    let (daemon, client) = started(&place, &web, "connections = 80\n[external]\ncrawlers = 4\n");
    let halves: Vec<TcpStream> = (0..60)
        .map(|number| {
            let mut stream = TcpStream::connect(&client.address).expect("a server");
            let half = match number % 3 {
                0 => "",
                1 => "GET /v1/topics HT",
                _ => {
                    "POST /v1/topics/boats/try HTTP/1.1\r\nhost: localhost\r\n\
                      content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
                }
            };
            stream.write_all(half.as_bytes()).expect("half a request");
            stream
        })
        .collect();
    assert_eq!(client.get("/v1/topics").status, 200);
    daemon.judges("boats");
    assert_eq!(client.get("/livez").status, 200);
    drop(halves);
    daemon.judges("boats");
}

/// The state of a directory that follows a feed.
fn follow(client: &Client, after: &mut u64, directory: &mut BTreeMap<String, Value>) -> bool {
    let path = format!("/v1/feed?topic=boats&after={after}&limit=7");
    let Ok(mut stream) = TcpStream::connect(&client.address) else {
        return false;
    };
    let request = client.request("GET", &path, "", "");
    let mut answer = String::new();
    if stream.write_all(request.as_bytes()).is_err() || stream.read_to_string(&mut answer).is_err()
    {
        return false;
    }
    if !answer.contains("\r\n\r\n") {
        return false;
    }
    let answer = Answer::parse(&answer);
    if answer.status != 200 {
        return false;
    }
    let lines = answer.lines();
    for line in &lines {
        *after = line["seq"].as_u64().expect("a number");
        match line["change"].as_str() {
            Some("added" | "changed") => directory.insert(host(line), line.clone()),
            _ => directory.remove(&host(line)),
        };
    }
    !lines.is_empty()
}

#[test]
fn a_directory_that_follows_ends_equal_to_the_store_however_often_the_daemon_is_killed() {
    let (_runtime, web, place) = large_place();
    let (mut after, mut directory) = (0, BTreeMap::<String, Value>::new());
    for round in 0..8 {
        let (mut daemon, client) = started(&place, &web, "[external]\ncrawlers = 4\n");
        for _ in 0..3 + round {
            daemon.judges("boats");
        }
        if let Some(found) = directory.keys().next().cloned() {
            let decision = if round % 2 == 0 { "reject" } else { "accept" };
            assert_eq!(client.decide(&found, decision).status, 200);
        }
        // Not always to the end.
        for _ in 0..=round % 3 {
            follow(&client, &mut after, &mut directory);
        }
        daemon.child.kill().expect("a process");
        let _ = daemon.child.wait();
    }
    let (daemon, client) = started(&place, &web, "[external]\ncrawlers = 4\n");
    daemon.judges("boats");
    client.write("POST", "/v1/topics/boats/pause", &json!({}));
    client.waits_for("boats", "idle", "paused");
    while follow(&client, &mut after, &mut directory) {}
    daemon.signal("TERM");
    assert!(daemon.end().success());
    let followed: BTreeSet<String> = directory.into_keys().collect();
    assert_eq!(followed, exported(&place));
    assert!(followed.len() > 10, "{}", followed.len());
}

#[test]
fn a_thousand_followers_hear_of_a_change_at_once() {
    const FOLLOWERS: usize = 1_000;
    let (runtime, _web, _place, daemon, client) = at_rest();
    rlimit::increase_nofile_limit(4_096).expect("a limit");
    let last = client.feed(0).last().expect("a site")["seq"].as_u64();
    let path = format!(
        "/v1/feed?topic=boats&after={}&wait=60",
        last.expect("a number")
    );
    let waiting = (0..FOLLOWERS).map(|_| {
        let (address, request) = (client.address.clone(), client.request("GET", &path, "", ""));
        runtime.spawn(async move {
            let stream = tokio::net::TcpStream::connect(&address).await;
            let mut stream = stream.expect("a server");
            stream
                .write_all(request.as_bytes())
                .await
                .expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            Answer::parse(&answer)
        })
    });
    let waiting: Vec<_> = waiting.collect();
    // Other requests are served meanwhile.
    let begin = Instant::now();
    if !cfg!(target_os = "linux") {
        skipped!("whether all followers wait is not known, only Linux tells it in /proc");
    }
    let open = || -> usize {
        if !cfg!(target_os = "linux") {
            return FOLLOWERS + 1;
        }
        let descriptors = fs::read_dir(format!("/proc/{}/fd", daemon.child.id()));
        descriptors.expect("a running daemon").count()
    };
    while open() <= FOLLOWERS {
        assert!(begin.elapsed() < LONGEST, "{} open", open());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.get("/v1/topics").status, 200);
    assert!(waiting.iter().all(|follower| !follower.is_finished()));
    let accepted = client.irrelevant();
    assert_eq!(client.decide(&accepted, "accept").status, 200);
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        for follower in waiting {
            answers.push(follower.await.expect("a follower"));
        }
        answers
    });
    for answer in answers {
        assert_eq!(host(&answer.lines()[0]), accepted);
    }
    daemon.signal("TERM");
    assert!(daemon.end().success());
}

#[test]
fn a_follower_does_not_keep_the_daemon_from_ending() {
    let (_runtime, _web, _place, daemon, client) = at_rest();
    let last = client.feed(0).last().expect("a site")["seq"]
        .as_u64()
        .expect("a number");
    let mut stream = TcpStream::connect(&client.address).expect("a server");
    let path = format!("/v1/feed?topic=boats&after={last}&wait=60");
    let request = client.request("GET", &path, "", "");
    stream.write_all(request.as_bytes()).expect("a request");
    assert_eq!(client.get("/livez").status, 200);
    daemon.signal("TERM");
    assert!(daemon.end().success());
}

#[test]
fn the_list_of_a_topic_is_kept_as_a_file() {
    let (_runtime, web, place) = place();
    fs::create_dir(place.path("lists")).expect("a directory");
    fs::write(place.path("token"), TOKEN).expect("a token");
    let lists = "[service.lists]\ndirectory = 'lists'\nformat = 'csv'\ninterval = '100 ms'\n";
    settings(&place, &web, "", &format!("token_file = 'token'\n{lists}"));
    let daemon = Daemon::start(&place);
    let client = Client::of(&daemon);
    client.waits_for("boats", "idle", "border_empty");
    let file = place.path("lists/boats.csv");
    let lines = || -> Vec<String> {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let listed = |host: &str| {
        lines()
            .iter()
            .any(|line| line.contains(&format!(",{host},")))
    };
    let waits = |is_there: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !is_there() {
            assert!(begin.elapsed() < LONGEST, "{:?}", lines());
            thread::sleep(Duration::from_millis(20));
        }
    };
    let wanted = client.feed(0).len() + 1;
    waits(&|| lines().len() == wanted);
    assert!(lines()[0].starts_with("seq,host,"));
    assert!(listed("gulls-dinghy.example"));
    client.decide("gulls-dinghy.example", "reject");
    waits(&|| !listed("gulls-dinghy.example"));
    client.waits_for("few", "idle", "wanted_reached");
    // No partial file is left.
    let files = || {
        fs::read_dir(place.path("lists"))
            .expect("a directory")
            .count()
    };
    waits(&|| files() == 2);
    // A missing directory is logged, and the crawl goes on.
    fs::remove_dir_all(place.path("lists")).expect("a directory");
    client.decide("gulls-dinghy.example", "accept");
    let logged = daemon.logs("cannot write a list");
    assert!(
        logged["fields"]["error"]
            .as_str()
            .expect("why")
            .contains("boats.csv")
    );
    assert_eq!(client.get("/livez").status, 200);
}

#[test]
fn the_description_names_every_address_and_nothing_else() {
    let (_runtime, _web, _place, _daemon, mut client) = at_rest();
    let description = client.get("/v1/openapi.json").json();
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() >= 16);
    for (path, methods) in paths {
        let address = path
            .replace("{topic}", "boats")
            .replace("{host}", "gulls-dinghy.example");
        for (method, operation) in methods.as_object().expect("methods") {
            let answer = client.write(&method.to_ascii_uppercase(), &address, &json!({}));
            assert!(
                ![404, 405].contains(&answer.status),
                "{method} {path}: {answer:?}"
            );
            let needs_token = operation["security"]
                .as_array()
                .is_some_and(|ways| ways.iter().all(|way| way.get("token").is_some()));
            let is_write = method != "get" && !path.ends_with("/try");
            assert_eq!(needs_token, is_write, "{method} {path}");
            if is_write {
                client.token = None;
                let refused = client.write(&method.to_ascii_uppercase(), &address, &json!({}));
                assert_eq!(refused.status, 401, "{method} {path}");
                client.token = Some(TOKEN);
            }
        }
    }
}
