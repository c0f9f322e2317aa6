//! `sitescout topic`: from a few example sites to a topic that can be crawled, and what must not happen on
//! the way: nothing is written by halves, and nothing is fetched twice.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assert_cmd::assert::Assert;
use sitescout::config::TopicDefinition;
use sitescout::fetch::Archive;
use tokio::time::{Instant, sleep};

use crate::pathologies::{Pathologies, Reply};
use crate::recording::{answer, serve_small_archive};
use crate::topics::{Coast, json_lines, stderr, stdout};
use crate::warc::WarcBuilder;
use crate::{fixture, without_index};

const FIVE: &str = "harbour-sailing.example northwind-yachtclub.example learn-to-sail.example \
                    seahorse-sailing.example gulls-dinghy.example";

const FROM_ARCHIVE: &str = "--config few.toml --web warc:coast.warc.gz";

fn new_topic(coast: &Coast, sites: &str) -> Assert {
    coast.run(&format!("topic new sailing {FROM_ARCHIVE} --sites {sites}"))
}

fn definition(coast: &Coast) -> TopicDefinition {
    let text = fs::read_to_string(coast.path("site-models/sailing/topic.toml"));
    TopicDefinition::parse(&text.expect("a definition")).expect("a sound definition")
}

/// The names in a directory.
fn names(directory: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

fn assert_nothing_written(coast: &Coast) {
    assert!(!coast.path("site-models").exists(), "something was written");
}

#[test]
fn five_sites_make_a_topic_that_is_crawled_at_once() {
    let coast = Coast::new();
    let made = new_topic(&coast, FIVE).success();
    let report = stdout(&made);
    for wanted in [
        "site-models/sailing: learned from 5 examples; 0 sites are rejected",
        "  precision ",
        "  recall    ",
        "Wilson score intervals of 95 %",
        "for the topic: sail",
        "no site of the background would pass; the closest are:\n",
        "the example that fits worst:\n",
        "more examples: there are 5, of as many owners",
        "sitescout topic add sailing --config few.toml --web warc:coast.warc.gz --sites HOST",
        "next: sitescout crawl sailing --config few.toml --web warc:coast.warc.gz",
    ] {
        assert!(report.contains(wanted), "{wanted}\n{report}");
    }
    assert!(!stderr(&made).contains("examples only"), "five are normal");
    assert_eq!(
        names(coast.path("site-models")),
        ["sailing"],
        "no draft is left"
    );
    assert_eq!(
        names(coast.path("site-models/sailing")),
        ["card.md", "known-sites.tsv", "site-model.bin", "topic.toml"]
    );
    let five: Vec<&str> = FIVE.split_whitespace().collect();
    assert_eq!(definition(&coast).start_sites, five);
    assert_eq!(definition(&coast).target_sites.concat(), five);
    let card = fs::read_to_string(coast.path("site-models/sailing/card.md")).expect("a card");
    assert!(
        card.contains(&format!("`sitescout topic new sailing --sites {FIVE}`")),
        "{card}"
    );

    let found = coast.run("crawl sailing --config few.toml --web warc:coast.warc.gz --json");
    let relevant = json_lines(&found.success())
        .iter()
        .filter(|site| site["verdict"] == "relevant")
        .count();
    assert!(
        relevant > 5,
        "{relevant} relevant sites, of which five are known"
    );

    // The same sites and the same seed give the model that `train` makes.
    let train =
        "train site-models/sailing/topic.toml --config few.toml --warc coast.warc.gz --out again";
    coast.run(train).success();
    let model =
        |out: &str| fs::read(coast.path(out).join("sailing/site-model.bin")).expect("a model");
    assert!(model("site-models") == model("again"));
}

#[test]
fn three_sites_are_learned_from_with_a_warning_and_one_is_refused() {
    let coast = Coast::new();
    let three = "harbour-sailing.example seahorse-sailing.example gulls-dinghy.example";
    let refused = new_topic(
        &coast,
        "harbour-sailing.example www.harbour-sailing.example",
    );
    let message = stderr(&refused.code(1));
    assert!(
        message.contains("only one site of `sailing` named"),
        "{message}"
    );
    let owner = "a.harbour.example b.harbour.example https://c.harbour.example/boats";
    let message = stderr(&new_topic(&coast, owner).code(1));
    assert!(
        message.contains("all 3 sites of `sailing` named are of one group"),
        "{message}"
    );
    assert!(
        !message.contains("there is no host"),
        "nothing is fetched: {message}"
    );
    assert_nothing_written(&coast);
    let warned = stderr(&new_topic(&coast, three).success());
    assert!(warned.contains("learned from 3 examples only"), "{warned}");
}

#[test]
fn sites_that_cannot_be_examples_are_told_in_words() {
    let coast = Coast::new();
    let pictures = WarcBuilder::default()
        .page("http://pictures.example/", "<img src=a.jpg>")
        .page(
            "http://refresh.example/",
            "<meta http-equiv=refresh content='0; http://gulls-dinghy.example/'>sail",
        );
    coast.write("more.warc", pictures.plain());
    let bad = "for-sale.example lost-marina.example pictures.example refresh.example \
               gulls-old.example";
    let command = |sites: &str| {
        format!("topic new sailing {FROM_ARCHIVE} --web warc:more.warc --sites {bad} {sites}")
    };
    let refused = stderr(&coast.run(&command("harbour-sailing.example")).code(1));
    for wanted in [
        "for-sale.example is parked: its homepage is a placeholder",
        "lost-marina.example cannot be read: there is no host lost-marina.example",
        "pictures.example has no page with words",
        "refresh.example leads to gulls-dinghy.example; name that instead",
        "gulls-old.example leads to gulls-dinghy.example; name that instead",
        "there is only one site of `sailing` that can be used",
    ] {
        assert!(refused.contains(wanted), "{wanted}\n{refused}");
    }
    assert_nothing_written(&coast);
    // Those that can be used are enough.
    let made = coast.run(&command(FIVE)).success();
    assert!(stderr(&made).contains("for-sale.example is parked"));
    let five: Vec<&str> = FIVE.split_whitespace().collect();
    assert_eq!(definition(&coast).start_sites, five);
    assert_eq!(definition(&coast).target_sites.concat(), five);
}

#[test]
fn examples_without_anything_in_common_are_refused() {
    let coast = Coast::new();
    let sites = [
        (
            "one",
            "bread flour oven cake pastry loaf baker dough butter sugar",
        ),
        (
            "two",
            "organ pipe bellows church concert choir music keyboard",
        ),
        (
            "three",
            "tractor plough field harvest engine farm spare parts",
        ),
    ];
    let mut warc = WarcBuilder::default();
    for (host, words) in sites {
        warc = warc.page(&format!("http://{host}.example/"), words);
    }
    coast.write("mixed.warc", warc.plain());
    let command = "topic new mixed --config few.toml --web warc:mixed.warc --sites one.example \
                   two.example three.example";
    let message = stderr(&coast.run(command).code(1));
    assert!(message.contains("have nothing in common"), "{message}");
    assert!(!message.contains("the model is written"), "{message}");
    assert_nothing_written(&coast);
}

#[test]
fn names_and_lists_of_sites_that_cannot_be_used_are_refused() {
    let coast = Coast::new();
    for name in ["../sailing", ".sailing", "all", "other", ""] {
        let command = format!("topic new {FROM_ARCHIVE} --sites a.example --");
        let mut refused = assert_cmd::Command::new(env!("CARGO_BIN_EXE_sitescout"));
        refused
            .current_dir(coast.path(""))
            .args(command.split_whitespace())
            .arg(name);
        let message = stderr(&refused.assert().code(2));
        assert!(
            message.contains("a topic is named by letters"),
            "{name}: {message}"
        );
    }
    let message = stderr(&new_topic(&coast, "a.example ..").code(2));
    assert!(message.contains("`..`"), "{message}");
    coast.write(
        "bad.txt",
        "# ours\nharbour-sailing.example\tx\n\n..\nno host\n",
    );
    coast.write("empty.txt", "# none\n\n");
    for (file, code, wanted) in [
        ("bad.txt", 65, "bad.txt:4: `..`"),
        ("bad.txt", 65, "bad.txt:5: "),
        ("empty.txt", 65, "empty.txt names no site"),
        ("none.txt", 1, "cannot read the sites none.txt"),
    ] {
        let refused = coast.run(&format!("topic new sailing {FROM_ARCHIVE} --from {file}"));
        let message = stderr(&refused.code(code));
        assert!(message.contains(wanted), "{wanted}\n{message}");
    }
    let none = coast
        .run(&format!("topic new sailing {FROM_ARCHIVE}"))
        .code(2);
    assert!(stderr(&none).contains("--sites"));
    let message = stderr(&coast.run("topic show sailing").code(1));
    assert!(
        message.contains("there is no topic `sailing` in site-models"),
        "{message}"
    );
    assert_nothing_written(&coast);

    coast.write(
        "five.txt",
        format!("\u{feff}{}\r\n", FIVE.replace(' ', "\r\n")),
    );
    coast
        .run(&format!("topic new sailing {FROM_ARCHIVE} --from five.txt"))
        .success();
    let model = fs::read(coast.path("site-models/sailing/site-model.bin")).expect("a model");
    let message = stderr(&new_topic(&coast, "bay-regatta.example a.example").code(1));
    assert!(
        message.contains("there is a topic in site-models/sailing already"),
        "{message}"
    );
    let after = fs::read(coast.path("site-models/sailing/site-model.bin")).expect("a model");
    assert!(model == after, "a topic that exists is left as it is");
}

#[test]
fn adding_and_rejecting_sites_says_what_changes() {
    let coast = Coast::new();
    new_topic(&coast, FIVE).success();
    let file = coast.path("site-models/sailing/topic.toml");
    let text = fs::read_to_string(&file).expect("a definition");
    let text = format!("# mine\nwanted = 3\np_threshold = 0.8\n{text}");
    fs::write(&file, text).expect("room for a file");
    coast.write("site-models/sailing/notes.txt", "mine");

    let add = format!("topic add sailing {FROM_ARCHIVE} --sites bay-regatta.example");
    let added = stdout(&coast.run(&add).success());
    for wanted in [
        "what changed, on sites that were held out:\n  precision ",
        "learned from 6 examples; 0 sites are rejected",
    ] {
        assert!(added.contains(wanted), "{wanted}\n{added}");
    }
    assert!(
        definition(&coast)
            .start_sites
            .contains(&"bay-regatta.example".to_owned())
    );
    let again = stdout(&coast.run(&add).success());
    assert_eq!(again, "nothing changes: sailing says so already\n");

    // One of the examples, a site that is not known, and one that only the background has.
    let reject = format!(
        "topic reject sailing {FROM_ARCHIVE} --sites gulls-dinghy.example football-rovers.example \
         few00.example"
    );
    let rejected = coast.run(&reject).success();
    let report = stdout(&rejected);
    assert!(
        report.contains("learned from 5 examples; 3 sites are rejected"),
        "{report}"
    );
    assert!(
        !stderr(&rejected).contains("few00.example"),
        "its counts are known"
    );
    let sites = definition(&coast);
    assert!(
        !sites
            .start_sites
            .contains(&"gulls-dinghy.example".to_owned())
    );
    assert_eq!(
        sites.other_sites.concat(),
        [
            "gulls-dinghy.example",
            "football-rovers.example",
            "few00.example"
        ]
    );
    let text = fs::read_to_string(&file).expect("a definition");
    assert!(
        text.starts_with("# mine\nwanted = 3\np_threshold = 0.8\nname = "),
        "{text}"
    );
    assert_eq!(
        names(coast.path("site-models/sailing")),
        [
            "card.md",
            "known-sites.tsv",
            "notes.txt",
            "site-model.bin",
            "topic.toml"
        ]
    );

    // Sites that cannot be used change nothing.
    let model = fs::read(coast.path("site-models/sailing/site-model.bin")).expect("a model");
    let add = format!("topic add sailing {FROM_ARCHIVE} --sites lost-marina.example");
    let message = stderr(&coast.run(&add).code(1));
    assert!(
        message.contains("none of the sites can be used, so nothing is changed"),
        "{message}"
    );
    let after = fs::read(coast.path("site-models/sailing/site-model.bin")).expect("a model");
    assert!(model == after);
    assert_eq!(definition(&coast), sites);

    let list = stdout(&coast.run("topic list").success());
    assert!(
        list.starts_with("sailing: 5 examples, 3 rejected; precision "),
        "{list}"
    );
    let shown = stdout(&coast.run("topic show sailing").success());
    assert!(shown.contains("the words that decide:"), "{shown}");
    assert!(shown.contains("the example that fits worst:"), "{shown}");
}

/// The background has a site of the topic, and two that share its words with other subjects.
#[test]
fn sites_of_the_background_that_would_pass_are_shown_and_can_be_decided() {
    const TOPIC: &str = "sail boat regatta crew wind keel";
    let coast = Coast::new();
    let mut warc = WarcBuilder::default()
        .page("http://alike.example/", TOPIC)
        .page(
            "http://bread.example/",
            &format!("{TOPIC} {}", "bread flour oven cake ".repeat(9)),
        )
        .page(
            "http://organ.example/",
            &format!("{TOPIC} {}", "organ pipe choir music ".repeat(9)),
        );
    let mut five = String::new();
    for at in 0..5 {
        warc = warc.page(&format!("http://sail{at}.example/"), TOPIC);
        five.extend([" sail", &at.to_string(), ".example"]);
    }
    coast.write("sails.warc", warc.plain());
    coast.write(
        "more.tsv",
        "alike.example\tother\nbread.example\tother\norgan.example\tother\n",
    );
    let add = "background add --config few.toml --warc sails.warc --labels more.tsv --out more.bin";
    coast.run(add).success();
    coast.write("more.toml", "[training]\nbackground = 'more.bin'\n");
    let options = "--config more.toml --web warc:sails.warc --sites";
    let made = coast.run(&format!("topic new sailing {options}{five}"));
    let report = stdout(&made.success());
    for wanted in [
        "these sites of the background would pass: are they of your topic?\n  alike  alike.example\n\n",
        "sitescout topic reject sailing --config more.toml --web warc:sails.warc --sites HOST",
    ] {
        assert!(report.contains(wanted), "{wanted}\n{report}");
    }

    let rejected = coast.run(&format!("topic reject sailing {options} alike.example"));
    let report = stdout(&rejected.success());
    // It is like the examples to the letter, so a classifier that has not seen it still says so.
    let still = "sites like these, which you rejected, would pass:\n";
    assert!(report.contains(still), "{report}");
    assert!(!report.contains("would leave: alike.example"), "{report}");
    let added = coast.run(&format!("topic add sailing {options} alike.example"));
    let report = stdout(&added.success());
    assert!(
        report.contains("learned from 6 examples; 0 sites are rejected"),
        "{report}"
    );
    let known = fs::read_to_string(coast.path("site-models/sailing/known-sites.tsv"));
    let known = known.expect("the known sites");
    assert!(known.contains("\nalike.example\t"), "{known}");
    assert!(!known.contains("left out"), "{known}");
}

/// The small archive, served live.
async fn serve(coast: &Coast) -> Pathologies {
    let web = serve_small_archive().await;
    let settings = format!(
        "[fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
         [fetch.politeness]\npause = '0 s'\n[training]\nbackground = 'few.bin'\n",
        web.http()
    );
    coast.write("live.toml", settings);
    web
}

fn run_beside(coast: &Coast, arguments: &str) -> Assert {
    tokio::task::block_in_place(|| coast.run(arguments))
}

/// The targets requested of a host, without robots.txt.
fn pages(web: &Pathologies, host: &str) -> Vec<String> {
    let mut pages = web.targets(host);
    pages.retain(|target| target != "/robots.txt");
    pages
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_fetched_for_a_topic_is_recorded_and_not_fetched_again() {
    let coast = Coast::new();
    let web = serve(&coast).await;
    let rules = "User-agent: *\nDisallow: /\n";
    web.script("bay-regatta.example", move |target, _| match target {
        "/robots.txt" => Reply::text(rules),
        _ => Reply::text("sail"),
    });
    let made = format!("topic new sailing --config live.toml --sites {FIVE} bay-regatta.example");
    let made = run_beside(&coast, &made).success();
    let message = stderr(&made);
    assert!(
        message.contains("bay-regatta.example cannot be read: robots.txt disallows"),
        "{message}"
    );
    assert_eq!(pages(&web, "bay-regatta.example"), [""; 0]);
    assert_eq!(definition(&coast).target_sites.len(), 5);
    assert_eq!(
        names(coast.path("site-models/sailing")),
        [
            "card.md",
            "known-sites.tsv",
            "site-model.bin",
            "sites-1.warc.gz",
            "topic.toml"
        ]
    );
    let count = |web: &Pathologies| -> usize {
        FIVE.split_whitespace()
            .map(|host| web.requests(host).len())
            .sum()
    };
    let requests = count(&web);
    for host in FIVE.split_whitespace() {
        let mut all = pages(&web, host);
        all.sort();
        let mut once = all.clone();
        once.dedup();
        assert_eq!(all, once, "{host}");
    }
    // The archive that was served gives the same model.
    let model = |models: &str| {
        let path = coast.path(models).join("sailing/site-model.bin");
        fs::read(path).expect("a model")
    };
    let archived = format!("topic new sailing {FROM_ARCHIVE} --models archived --sites {FIVE}");
    run_beside(&coast, &archived).success();
    assert!(model("site-models") == model("archived"));

    let add = "topic add sailing --config live.toml --sites segelclub-moewe.example";
    run_beside(&coast, add).success();
    assert!(!pages(&web, "segelclub-moewe.example").is_empty());
    assert_eq!(
        count(&web),
        requests,
        "known examples are read from the recording"
    );
    // What is recorded, and what the background knows, needs no web at all.
    let reject =
        "topic reject sailing --config few.toml --sites few00.example gulls-dinghy.example";
    run_beside(&coast, reject).success();
    assert_eq!(count(&web), requests);
    assert!(!web.all_hosts().contains(&"few00.example".to_owned()));
    let files = names(coast.path("site-models/sailing"));
    assert!(files.contains(&"sites-2.warc.gz".to_owned()), "{files:?}");
    assert_eq!(
        names(coast.path("site-models")),
        ["sailing"],
        "no draft is left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_fetched_for_a_topic_that_is_refused_is_kept_for_the_next_try() {
    let coast = Coast::new();
    let web = serve(&coast).await;
    web.script("moved.example", |target, _| match target {
        "/robots.txt" => Reply::status(404),
        _ => Reply::redirect("http://gulls-dinghy.example/"),
    });
    web.script("down.example", |_, _| Reply::status(404));
    let command = "topic new sailing --config live.toml --sites";
    let refused = format!("{command} harbour-sailing.example moved.example down.example");
    let message = stderr(&run_beside(&coast, &refused).code(1));
    for wanted in [
        "moved.example leads to gulls-dinghy.example",
        "down.example answers with an error, 404",
        "only one site of `sailing` that can be used",
        "what was fetched is kept",
    ] {
        assert!(message.contains(wanted), "{wanted}\n{message}");
    }
    assert!(
        !coast.path("site-models/sailing").exists(),
        "nothing by halves"
    );
    assert_eq!(
        pages(&web, "gulls-dinghy.example"),
        [""; 0],
        "no other site is read instead"
    );
    let before = web.requests("harbour-sailing.example").len();
    run_beside(&coast, &format!("{command} {FIVE}")).success();
    assert_eq!(web.requests("harbour-sailing.example").len(), before);
    assert_eq!(names(coast.path("site-models")), ["sailing"]);

    // A refused change leaves the topic as it was.
    let files = names(coast.path("site-models/sailing"));
    let sites = definition(&coast);
    let add = "topic add sailing --config live.toml --sites moved.example";
    let message = stderr(&run_beside(&coast, add).code(1));
    assert!(message.contains("so nothing is changed"), "{message}");
    assert_eq!(names(coast.path("site-models/sailing")), files);
    assert_eq!(definition(&coast), sites);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_web_is_refused_without_a_contact_and_leaves_nothing() {
    let coast = Coast::new();
    let refused = coast.run(&format!(
        "topic new sailing --config few.toml --sites {FIVE}"
    ));
    let message = stderr(&refused.code(78));
    assert!(message.contains("`contact` in [fetch]"), "{message}");
    assert!(message.contains("--web warc:FILE"), "{message}");
    assert_nothing_written(&coast);
}

/// A process in the directory, killed in the end if it has not ended.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command in which one site sends its homepage, and then nothing, and waits until everything
/// else is read.
async fn start_and_get_stuck(
    coast: &Coast,
    web: &Pathologies,
    slow: &'static str,
    command: &str,
) -> Running {
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let archive = archive.expect("the small archive");
    web.script(slow, move |target, _| match target {
        "/" | "/robots.txt" => answer(&archive, slow, target),
        _ => Reply::text("late").after(Duration::from_mins(1)),
    });
    let running = Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .current_dir(coast.path(""))
        .args(command.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let running = Running(running.expect("the binary"));
    let recording = coast.path("site-models/.sailing.draft/sites-1.warc.gz");
    let size = || fs::metadata(&recording).map_or(0, |file| file.len());
    let started = Instant::now();
    let (mut size_before, mut steady) = (0, 0);
    while steady < 10 || pages(web, slow).len() < 2 {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "the sites are read"
        );
        sleep(Duration::from_millis(100)).await;
        steady = if size() == size_before { steady + 1 } else { 0 };
        size_before = size();
    }
    running
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_stopped_says_how_to_go_on() {
    use std::io::Read;
    let coast = Coast::new();
    let web = serve(&coast).await;
    let command = format!("topic new sailing --config live.toml --sites {FIVE}");
    let mut running = start_and_get_stuck(&coast, &web, "gulls-dinghy.example", &command).await;
    let id = running.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("a signal").success());
    let status = tokio::task::block_in_place(|| running.0.wait());
    assert_eq!(status.expect("an end").code(), Some(1));
    let mut message = String::new();
    let mut errors = running.0.stderr.take().expect("a pipe");
    errors.read_to_string(&mut message).expect("text");
    for wanted in [
        "fetching 5 sites, up to 25 pages of each",
        "recorded: ",
        "stopped; the same command goes on where this one was",
    ] {
        assert!(message.contains(wanted), "{wanted}\n{message}");
    }
    assert_eq!(names(coast.path("site-models")), [".sailing.draft"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_goes_on_with_the_same_command() {
    let coast = Coast::new();
    let web = serve(&coast).await;
    let slow = "gulls-dinghy.example";
    let command = format!("topic new sailing --config live.toml --sites {FIVE}");
    let mut running = start_and_get_stuck(&coast, &web, slow, &command).await;
    running.0.kill().expect("it runs");
    running.0.wait().expect("an end");
    assert!(
        !coast.path("site-models/sailing").exists(),
        "nothing by halves"
    );
    let list = stdout(&run_beside(&coast, "topic list").success());
    assert_eq!(list, "sailing: not finished; the same command goes on\n");

    let requests = |web: &Pathologies| -> Vec<usize> {
        let others = FIVE.split_whitespace().filter(|host| *host != slow);
        others.map(|host| pages(web, host).len()).collect()
    };
    let before = requests(&web);
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let archive = archive.expect("the small archive");
    web.script(slow, move |target, _| answer(&archive, slow, target));
    let homepages = |web: &Pathologies| {
        pages(web, slow)
            .iter()
            .filter(|target| *target == "/")
            .count()
    };
    assert_eq!(homepages(&web), 1);
    let finished = run_beside(&coast, &command).success();
    let message = stderr(&finished);
    assert!(
        message.contains("5 of 5 sites were recorded before"),
        "{message}"
    );
    assert_eq!(requests(&web), before, "nothing is fetched twice");
    assert_eq!(
        homepages(&web),
        1,
        "nor is a page of a site that was read in part"
    );
    assert_eq!(names(coast.path("site-models")), ["sailing"]);

    // What is learned is what an undisturbed run learns.
    let archived = format!("topic new sailing {FROM_ARCHIVE} --models archived --sites {FIVE}");
    run_beside(&coast, &archived).success();
    let model = |models: &str| {
        let path = coast.path(models).join("sailing/site-model.bin");
        fs::read(path).expect("a model")
    };
    assert!(model("site-models") == model("archived"));
}
