//! Training topics and judging sites from the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;
use sitescout::config::TopicDefinition;
use tempfile::TempDir;

use crate::fixture;
use crate::warc::WarcBuilder;

/// A background of eighteen sites that are not in the small archive: with the one that comes with the
/// program, training takes ten times as long.
static FEW_SITES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let subjects = [
        "bread flour oven cake pastry loaf baker dough butter sugar recipe breakfast",
        "organ pipe bellows church concert choir music keyboard builder sound register",
        "tractor plough field harvest engine farm spare parts tyre diesel repair",
    ];
    let mut warc = WarcBuilder::default();
    let mut labels = String::new();
    for (kind, words) in subjects.iter().enumerate() {
        for at in 0..6 {
            let host = format!("few{kind}{at}.example");
            let page = format!("{words} we are open on weekdays and welcome visitors {at}");
            warc = warc
                .page(
                    &format!("http://{host}/"),
                    &format!("{page} <a href=a>more</a>"),
                )
                .page(
                    &format!("http://{host}/a"),
                    &format!("contact {words} {words}"),
                );
            labels.extend([&*host, "\tother\n"]);
        }
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let write = |name, content: &[u8]| {
        fs::write(directory.path().join(name), content).expect("room for a file");
    };
    write("few.warc", &warc.plain());
    write("few.tsv", labels.as_bytes());
    let make = "background make --warc few.warc --labels few.tsv";
    sitescout(directory.path(), make, "").success();
    fs::read(directory.path().join("background.bin")).expect("a background")
});

fn sitescout(directory: &Path, arguments: &str, stdin: &str) -> Assert {
    Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .current_dir(directory)
        .args(arguments.split_whitespace())
        .write_stdin(stdin)
        .assert()
}

/// A directory with the small archive in it, so that no index appears among the fixtures, and with
/// `few.toml`, which names a small background.
pub(crate) struct Coast {
    directory: TempDir,
}

impl Coast {
    pub(crate) fn new() -> Self {
        let coast = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        };
        for name in ["coast.warc.gz", "coast.labels.tsv", "coast.unseen.txt"] {
            fs::copy(fixture(name), coast.path(name)).expect("a fixture");
        }
        coast.write("few.bin", &*FEW_SITES);
        coast.write("few.toml", "[training]\nbackground = 'few.bin'\n");
        coast
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("room for a file");
    }

    pub(crate) fn run(&self, arguments: &str) -> Assert {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &str, stdin: &str) -> Assert {
        sitescout(self.directory.path(), arguments, stdin)
    }

    pub(crate) fn train(&self, arguments: &str) -> Assert {
        self.run(&format!(
            "train sailing --config few.toml --warc coast.warc.gz --labels coast.labels.tsv {arguments}"
        ))
    }
}

/// The models that come with the repository.
fn kept_models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models")
}

/// The model for experiments.
fn kept_model() -> String {
    kept_models().join("sailing").to_string_lossy().into_owned()
}

/// A topic that comes with the repository.
struct KeptTopic {
    definition: TopicDefinition,
    /// The text of its `topic.toml`.
    text: String,
    card: String,
}

fn kept_topics() -> Vec<KeptTopic> {
    let entries = fs::read_dir(kept_models()).expect("the models");
    let mut directories: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    directories.sort();
    let read = |directory: PathBuf| {
        let file = |name| fs::read_to_string(directory.join(name)).expect("a file of a topic");
        let text = file("topic.toml");
        let definition = TopicDefinition::parse(&text);
        let place = directory.display();
        let definition = definition.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(directory.ends_with(&definition.name), "{place}");
        KeptTopic {
            definition,
            text,
            card: file("card.md"),
        }
    };
    directories.into_iter().map(read).collect()
}

pub(crate) fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

pub(crate) fn stderr(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8")
}

pub(crate) fn json_lines(assert: &Assert) -> Vec<Value> {
    let lines = stdout(assert);
    let values = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    values.collect()
}

#[test]
fn training_gives_a_model_and_a_card_and_the_same_bytes_again() {
    let coast = Coast::new();
    let first = coast.train("").success();
    assert!(
        stdout(&first).starts_with("site-models/sailing/site-model.bin: "),
        "{}",
        stdout(&first)
    );
    let model = fs::read(coast.path("site-models/sailing/site-model.bin")).expect("a model");
    let card = fs::read_to_string(coast.path("site-models/sailing/card.md")).expect("a card");
    for wanted in [
        "# Site model: sailing\n",
        "| sailing | 7 | 7 | ",
        "| other | 12 | 12 | ",
        "| background | 18 | 18 | 36 | ",
        "| background | from few.bin, fingerprint `",
        "give a site the log-odds b + n^−γ Σ (ℓ − b), γ = 0.",
        "in 7 folds",
        "| seed | 1 |",
        "`sitescout train sailing --warc coast.warc.gz --labels coast.labels.tsv --page-classifier linear --seed 1`",
        "- for the topic: `sail`",
    ] {
        assert!(card.contains(wanted), "{wanted}\n{card}");
    }
    coast.train("--out again").success();
    let again = fs::read(coast.path("again/sailing/site-model.bin")).expect("a model");
    assert!(model == again, "same sites, same seed, other bytes");

    // Local paths stay out of the model card, whatever the command line is.
    let whole = coast.path("coast.warc.gz");
    let command = format!(
        "train sailing --config few.toml --warc {} --labels coast.labels.tsv --out paths --seed 2",
        whole.display()
    );
    coast.run(&command).success();
    let other = fs::read(coast.path("paths/sailing/site-model.bin")).expect("a model");
    assert!(model != other, "another seed deals other folds");
    let card = fs::read_to_string(coast.path("paths/sailing/card.md")).expect("a card");
    assert!(
        !card.contains(&*coast.directory.path().to_string_lossy()),
        "{card}"
    );
}

#[test]
fn a_topic_file_says_the_same_as_labels() {
    let coast = Coast::new();
    coast.train("").success();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let definition = root.join("site-models/sailing/topic.toml");
    fs::copy(definition, coast.path("topic.toml")).expect("the topic of the repository");
    coast
        .run("train topic.toml --config few.toml --warc coast.warc.gz --out files")
        .success();
    let by_labels = fs::read(coast.path("site-models/sailing/site-model.bin")).expect("a model");
    let by_file = fs::read(coast.path("files/sailing/site-model.bin")).expect("a model");
    assert!(by_labels == by_file, "the same sites, but another model");
    let card = fs::read_to_string(coast.path("files/sailing/card.md")).expect("a card");
    assert!(
        card.contains("Sailing clubs, sailing schools and regattas."),
        "{card}"
    );

    // A crawl looks for start sites beside the model.
    let written = fs::read_to_string(coast.path("topic.toml")).expect("a topic");
    let beside = fs::read_to_string(coast.path("files/sailing/topic.toml")).expect("a topic");
    assert_eq!(beside, written);

    coast.write("topic.toml", "name = \"sailing\"\nstarts = []\n");
    let wrong = coast.run("train topic.toml --warc coast.warc.gz").code(78);
    let message = stderr(&wrong);
    assert!(message.contains("did you mean `start_sites`?"), "{message}");
}

#[test]
fn a_topic_file_without_training_sites_needs_labels() {
    let coast = Coast::new();
    coast.write(
        "topic.toml",
        "name = \"sailing\"\ndescription = \"Boats.\"\n",
    );
    let train = "train topic.toml --config few.toml --warc coast.warc.gz";
    let message = stderr(&coast.run(train).code(1));
    assert!(message.contains("names no training sites"), "{message}");
    assert!(!coast.path("site-models").exists(), "nothing was written");
    coast
        .run(&format!("{train} --labels coast.labels.tsv"))
        .success();
    let card = fs::read_to_string(coast.path("site-models/sailing/card.md")).expect("a card");
    assert!(card.contains("Boats."), "{card}");
    coast.write("topic.toml", "name = \"rowing\"\n");
    let message = stderr(
        &coast
            .run(&format!("{train} --labels coast.labels.tsv"))
            .code(1),
    );
    assert!(
        message.contains("no site is labelled `rowing`"),
        "{message}"
    );
}

#[test]
fn unseen_sites_are_judged() {
    let coast = Coast::new();
    let model = kept_model();
    let list = format!("classify --model {model} --warc coast.warc.gz --hosts coast.unseen.txt");
    let text = coast.run(&list).success();
    let lines = stdout(&text);
    let verdict_of = |host: &str| {
        let line = lines
            .lines()
            .find(|line| line.contains(host))
            .expect("a verdict");
        line.split_whitespace().next().expect("a word").to_owned()
    };
    for host in [
        "skipper-academy",
        "lakeside-sailing",
        "keelboat-crew",
        "old-salt-yachts",
    ] {
        assert_eq!(verdict_of(host), "relevant", "{lines}");
    }
    for host in ["maritime-museum", "chess-knights", "hiking-guides"] {
        assert_eq!(verdict_of(host), "irrelevant", "{lines}");
    }
    for wanted in [
        "tiny-hello.example  (nothing_spoke)",
        "for-sale.example  (parked)",
        "gulls-old.example  (leads to gulls-dinghy.example)",
        "lost-marina.example  (unreachable)",
    ] {
        assert!(lines.contains(wanted), "{lines}");
    }
    assert!(stderr(&text).contains("12 sites: "), "{}", stderr(&text));

    // Verdicts come in the order of the hosts, whichever is done first.
    let unseen = fs::read_to_string(fixture("coast.unseen.txt")).expect("a fixture");
    let unseen: Vec<&str> = unseen
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let json = json_lines(&coast.run(&format!("{list} --json")).success());
    let hosts: Vec<&str> = json
        .iter()
        .filter_map(|site| site["host"].as_str())
        .collect();
    assert_eq!(hosts, unseen);
}

/// One sailing site, judged by all models; and the relevant sites of the small archive for some.
#[test]
fn kept_models_open_and_classify_their_own_examples() {
    let coast = Coast::new();
    let own = |topic: &str| match topic {
        "astronomy" => Some("stargazers.example"),
        "law_firm" => Some("law-office.example"),
        "sailing" => Some("harbour-sailing.example"),
        "school" => Some("primary-school.example"),
        _ => None,
    };
    for topic in kept_topics() {
        let name = &*topic.definition.name;
        let own = own(name);
        let command = format!(
            "classify --model {} --warc coast.warc.gz --json harbour-sailing.example {}",
            kept_models().join(name).display(),
            own.unwrap_or_default()
        );
        for site in json_lines(&coast.run(&command).success()) {
            let is_own = site["host"].as_str() == own;
            assert_eq!(site["verdict"] == "relevant", is_own, "{name}: {site}");
            let fingerprint = site["model"].as_str().expect("a fingerprint");
            assert!(
                topic.card.contains(&format!("`{fingerprint}`")),
                "the card of {name} is about another model than {fingerprint}"
            );
        }
    }
}

/// No request is sent here, so names of real hosts can be wrong; that must be reported.
#[test]
fn start_sites_of_kept_topics_are_usable_and_real_ones_are_called_unverified() {
    let coast = Coast::new();
    let mut names = Vec::new();
    let mut starts = 0;
    for KeptTopic {
        definition, text, ..
    } in kept_topics()
    {
        let name = &definition.name;
        assert!(!definition.description.is_empty(), "{name}");
        assert!(!definition.start_sites.is_empty(), "{name}");
        let is_invented = |site: &String| site.ends_with(".example");
        if definition.start_sites.iter().all(is_invented) {
            continue;
        }
        let marked = text
            .split_once("start_sites")
            .is_some_and(|(above, _)| above.contains("# Unverified: "));
        assert!(marked, "{name} does not say that its hosts are unverified");
        starts += definition.start_sites.len();
        names.push(definition.name);
    }
    // The archive has none of them. Each must be tried all the same, and only once.
    let command = format!(
        "crawl {} --models {} --web warc:coast.warc.gz",
        names.join(" "),
        kept_models().display()
    );
    let crawled = stdout(&coast.run(&command).success());
    let tried = crawled
        .lines()
        .filter(|line| line.ends_with("(unreachable)"));
    assert_eq!((tried.count(), crawled.lines().count()), (starts, starts));
}

/// The model card, which users read before they choose a model.
#[test]
fn the_table_of_kept_models_says_what_their_cards_say() {
    let readme = fs::read_to_string(kept_models().join("README.md")).expect("the README");
    for KeptTopic {
        definition, card, ..
    } in kept_topics()
    {
        let title = "| pages per site | precision |";
        let mut lines = card.lines().skip_while(|line| !line.starts_with(title));
        let measures = lines.nth(2).expect("a row of measures");
        let row = format!("| `{}` |", definition.name);
        let row = readme.lines().find(|line| line.starts_with(&row));
        let row = row.unwrap_or_else(|| panic!("no row about {}", definition.name));
        assert!(row.ends_with(measures), "{row} is not {measures}");
    }
}

#[test]
fn json_and_explanations_say_why() {
    let coast = Coast::new();
    let model = kept_model();
    let command =
        format!("classify --model {model} --warc coast.warc.gz www.keelboat-crew.example");
    let json = json_lines(&coast.run(&format!("{command} --json")).success());
    let [site] = json.as_slice() else {
        panic!("one object for one host: {json:?}");
    };
    assert_eq!(site["host"], "keelboat-crew.example");
    assert_eq!(site["verdict"], "relevant");
    let stop_reason = site["stop_reason"].as_str().expect("a name");
    assert!(site["transversal_links"].is_array());
    let pages = site["pages"].as_array().expect("a list");
    let last = pages.last().expect("a page");
    assert_eq!(pages[0]["url"], "https://www.keelboat-crew.example/");
    assert!(pages.iter().all(|page| page["confidence"].is_f64()));
    assert_eq!(last["site_confidence"], site["confidence"]);

    let text = stdout(&coast.run(&format!("{command} --explain")).success());
    let stopped = format!("    stopped: {stop_reason}");
    for wanted in [
        "relevant ",
        "https://www.keelboat-crew.example/ (homepage)",
        "        for      ",
        "race +0.",
        &stopped,
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

/// A site of two pages cannot be confirmed, which takes three; and six that spoke are always enough.
#[test]
fn reading_ends_with_the_pages_or_when_enough_have_spoken() {
    let words = [
        "regatta", "dinghy", "sail", "race", "crew", "harbour", "yacht", "club", "boat", "mooring",
        "skipper", "wind", "keel", "jetty",
    ];
    let page = |at: usize| {
        let some = (0..9).map(|word| words[(at * 3 + word) % words.len()]);
        some.collect::<Vec<_>>().join(" ")
    };
    let mut warc = WarcBuilder::default();
    for (host, pages) in [("short.example", 2), ("long.example", 9)] {
        let links = (1..pages).map(|at| format!(" <a href=p{at}>{at}</a>"));
        let links = links.collect::<Vec<_>>().concat();
        warc = warc.page(&format!("http://{host}/"), &format!("{}{links}", page(0)));
        for at in 1..pages {
            warc = warc.page(&format!("http://{host}/p{at}"), &page(at));
        }
    }
    let coast = Coast::new();
    coast.write("two.warc", warc.plain());
    let command = format!(
        "classify --model {} --warc two.warc --json short.example long.example",
        kept_model()
    );
    let judged = json_lines(&coast.run(&command).success());
    let [short, long] = judged.as_slice() else {
        panic!("two sites: {judged:?}");
    };
    let pages = |site: &Value| site["pages"].as_array().map_or(0, Vec::len);
    for site in [short, long] {
        assert_eq!(site["verdict"], "relevant", "{site}");
    }
    assert_eq!(
        (&short["stop_reason"], pages(short)),
        (&"exhausted".into(), 2)
    );
    assert_eq!(long["stop_reason"], "confident", "{long}");
    assert!((3..=6).contains(&pages(long)), "{long}");
}

#[test]
fn hosts_come_from_standard_input_and_bad_ones_are_reported() {
    let coast = Coast::new();
    let command = format!(
        "classify --model {} --warc coast.warc.gz --json",
        kept_model()
    );
    let hosts = "# a list\nkeelboat-crew.example\tignored\n\nno host at all\nhttp://\nchess-knights.example\n";
    let judged = coast.run_with(&command, hosts).code(65);
    let verdicts: Vec<Value> = json_lines(&judged)
        .iter()
        .map(|site| site["verdict"].clone())
        .collect();
    assert_eq!(verdicts, ["relevant", "irrelevant"]);
    assert!(stderr(&judged).contains("host 4: "), "{}", stderr(&judged));
    assert!(stderr(&judged).contains("host 5: "), "{}", stderr(&judged));
    let none = coast.run_with(&command, "").success();
    assert_eq!(stdout(&none), "");
    coast.write(
        "hosts.txt",
        b"chess-knights.example\n\xff\xfe.example\nkeelboat-crew.example",
    );
    let judged = coast.run(&format!("{command} --hosts hosts.txt")).code(65);
    assert_eq!(json_lines(&judged).len(), 2);
    assert!(stderr(&judged).contains("host 2: "), "{}", stderr(&judged));
}

/// A program that sends a host and waits for its verdict before it sends the next.
#[test]
fn each_verdict_comes_before_the_next_host_is_asked_for() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    let coast = Coast::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sitescout"))
        .current_dir(coast.directory.path())
        .args([
            "classify",
            "--model",
            &kept_model(),
            "--warc",
            "coast.warc.gz",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary");
    let mut hosts = child.stdin.take().expect("a pipe");
    let mut verdicts = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for host in ["chess-knights.example", "keelboat-crew.example"] {
        writeln!(hosts, "{host}").expect("an open pipe");
        let verdict = verdicts.next().expect("a verdict").expect("text");
        assert!(verdict.contains(host), "{verdict}");
    }
    drop(hosts);
    assert!(child.wait().expect("an end").success());
}

#[test]
fn unusable_models_are_refused_with_what_to_do() {
    let coast = Coast::new();
    let good = fs::read(Path::new(&kept_model()).join("site-model.bin")).expect("a model");
    let mut newer = good.clone();
    newer[16] = 9;
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let cut = good[..good.len() - 5].to_vec();
    for (bytes, wanted) in [
        (
            newer,
            "the model has format 9, this sitescout reads format 2; train it again",
        ),
        (flipped, "the model is damaged (its checksum is wrong)"),
        (cut, "the model is damaged (its length is wrong)"),
        (
            good[..18].to_vec(),
            "the model is damaged (it ends in its header)",
        ),
        (b"<html>".to_vec(), "this is not a site model"),
        (Vec::new(), "this is not a site model"),
    ] {
        fs::create_dir_all(coast.path("m")).expect("a directory");
        coast.write("m/site-model.bin", &bytes);
        let refused = coast
            .run("classify --model m --warc coast.warc.gz a.example")
            .code(65);
        let message = stderr(&refused);
        assert!(message.contains(wanted), "{message}");
        assert!(message.contains("m/site-model.bin"), "{message}");
    }
    let none = coast
        .run("classify --model nowhere --warc coast.warc.gz a.example")
        .code(1);
    assert!(
        stderr(&none)
            .contains("cannot read the model nowhere/site-model.bin; `sitescout train` makes one"),
        "{}",
        stderr(&none)
    );
}

#[test]
fn mistakes_in_labels_are_reported_line_by_line() {
    let coast = Coast::new();
    coast.write(
        "coast.labels.tsv",
        "harbour-sailing.example\tsailing\nwww.harbour-sailing.example\tother\nx\n",
    );
    let refused = coast.train("").code(65);
    let message = stderr(&refused);
    assert!(
        message.contains("line 2: harbour-sailing.example is `other` here and `sailing` in line 1"),
        "{message}"
    );
    assert!(
        message.contains("line 3: expected a host, a tab, a topic"),
        "{message}"
    );
    assert!(!coast.path("site-models").exists(), "nothing was written");
}

#[test]
fn labels_without_sites_are_left_out_and_reported() {
    let coast = Coast::new();
    let mut labels = fs::read_to_string(fixture("coast.labels.tsv")).expect("labels");
    labels.push_str(
        "no-such.example\tsailing\nneither.example\tother\nwww.bakery-krume.example\tother\n",
    );
    coast.write("coast.labels.tsv", labels);
    let trained = coast.train("").success();
    let message = stderr(&trained);
    assert!(
        message.contains(
            "2 left out, because they could not be read: neither.example (there is no host \
             neither.example), no-such.example (there is no host no-such.example)"
        ),
        "{message}"
    );
    assert!(
        message.contains("bakery-krume.example is labelled in line 8 already"),
        "{message}"
    );
    let said = stdout(&trained);
    assert!(
        said.contains("7 sites of `sailing`, 12 others and 18 of the background"),
        "{said}"
    );
}

#[test]
fn topics_that_cannot_be_learned_are_refused() {
    let coast = Coast::new();
    let unknown = coast
        .run("train knitting --warc coast.warc.gz --labels coast.labels.tsv")
        .code(1);
    assert!(
        stderr(&unknown).contains("no site is labelled `knitting`; there are: sailing"),
        "{}",
        stderr(&unknown)
    );
    for (labels, wanted) in [
        (
            "harbour-sailing.example\tsailing\nbakery-krume.example\tother\n",
            "there is only one site of `sailing` labelled; name two at least, better five or more",
        ),
        (
            "harbour-sailing.example\tsailing\tx\ngulls-dinghy.example\tsailing\tx\n",
            "all 2 sites of `sailing` labelled are of one group, which counts as one example; name two",
        ),
        (
            "no-such.example\tsailing\nneither.example\tsailing\nbakery-krume.example\tother\n",
            "there is no site of `sailing` that could be read; name two at least",
        ),
        (
            "no-such.example\tsailing\nharbour-sailing.example\tsailing\n",
            "there is only one site of `sailing` that could be read; name two at least",
        ),
    ] {
        coast.write("coast.labels.tsv", labels);
        let refused = stderr(&coast.train("").code(1));
        assert!(refused.contains(wanted), "{refused}");
    }
    assert!(!coast.path("site-models").exists(), "nothing was written");
}

#[test]
fn a_topic_of_two_sites_is_learned_with_a_warning() {
    let coast = Coast::new();
    let labels = fs::read_to_string(fixture("coast.labels.tsv")).expect("labels");
    let is_left = |line: &&str| {
        let two = ["harbour-sailing.example\t", "bay-regatta.example\t"];
        !line.contains("\tsailing\t") || two.iter().any(|host| line.starts_with(host))
    };
    let two: Vec<&str> = labels.lines().filter(is_left).collect();
    coast.write("coast.labels.tsv", two.join("\n"));
    for classifier in ["linear", "centroid"] {
        let trained = coast
            .train(&format!("--page-classifier {classifier}"))
            .success();
        let wanted = "`sailing` is learned from 2 examples only, sites of one group being one";
        let warned = stderr(&trained);
        assert!(warned.contains(wanted), "{warned}");
        let command = "classify --model site-models/sailing --warc coast.warc.gz --json";
        let hosts = "lakeside-sailing.example\ndentist-weiss.example\nchess-knights.example\n";
        let judged = json_lines(&coast.run_with(command, hosts).success());
        let verdicts: Vec<&Value> = judged.iter().map(|site| &site["verdict"]).collect();
        assert_eq!(
            verdicts,
            ["relevant", "irrelevant", "irrelevant"],
            "{classifier}"
        );
    }
    let one = labels.lines().skip(6).collect::<Vec<_>>().join("\n");
    coast.write("coast.labels.tsv", one);
    let refused = coast
        .run("evaluate classifier --warc coast.warc.gz --labels coast.labels.tsv --topic sailing");
    assert!(
        stderr(&refused.code(1)).contains("`sailing` cannot be evaluated: holding sites out needs"),
    );
}

#[test]
fn empty_sites_and_sites_of_one_page() {
    let mut warc = WarcBuilder::default();
    let mut labels = String::new();
    for at in 0..5 {
        let fish = format!("trout salmon river rod hook angler lake {at} bait reel fly");
        let wool = format!("wool needle yarn scarf knit stitch pattern {at} purl cable row");
        warc = warc
            .page(&format!("http://fish{at}.example/"), &fish)
            .page(&format!("http://wool{at}.example/"), &wool);
        let at = at.to_string();
        labels.extend([
            "fish",
            &at,
            ".example\tfishing\nwool",
            &at,
            ".example\tother\n",
        ]);
    }
    warc = warc
        .page("http://empty.example/", "")
        .page("http://pictures.example/", "<img src=a.jpg>")
        .page(
            "http://angler.example/",
            "salmon river rod hook angler bait trout",
        );
    labels.push_str("empty.example\tfishing\npictures.example\tother\n");
    let coast = Coast::new();
    coast.write("small.warc", warc.plain());
    coast.write("small.tsv", labels);
    let trained = coast
        .run("train fishing --config few.toml --warc small.warc --labels small.tsv")
        .success();
    assert!(
        stderr(&trained).contains(
            "2 left out, because there is no page with words: empty.example, pictures.example"
        ),
        "{}",
        stderr(&trained)
    );
    let command = "classify --model site-models/fishing --warc small.warc --json";
    let judged = coast.run(&format!(
        "{command} angler.example wool1.example empty.example"
    ));
    let judged = json_lines(&judged.success());
    let verdicts: Vec<&Value> = judged.iter().map(|site| &site["verdict"]).collect();
    assert_eq!(verdicts, ["relevant", "irrelevant", "undecided"]);
    assert_eq!(judged[2]["undecided_reason"], "nothing_spoke");
    assert_eq!(judged[0]["pages"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_page_of_fifty_megabytes_is_cut_and_judged() {
    let words = "regatta dinghy sail race crew harbour yacht club boat mooring ";
    let body = words.repeat((50 << 20) / words.len());
    let warc = WarcBuilder::default().page("http://huge.example/", &body);
    let coast = Coast::new();
    coast.write("huge.warc", warc.plain());
    let command = format!(
        "classify --model {} --warc huge.warc --json huge.example",
        kept_model()
    );
    let judged = json_lines(&coast.run(&command).success());
    assert_eq!(judged[0]["verdict"], "relevant", "{judged:?}");
}

#[test]
fn evaluating_repeats_table_two() {
    let coast = Coast::new();
    let command = "evaluate classifier --warc coast.warc.gz --labels coast.labels.tsv --topic all";
    for classifier in ["linear", "centroid"] {
        let json = coast.run(&format!("{command} --json --page-classifier {classifier}"));
        let json = json_lines(&json.success());
        let [topic, mean] = json.as_slice() else {
            panic!("one topic and the mean: {json:?}");
        };
        assert_eq!(
            (&topic["topic"], &mean["topic"]),
            (&"sailing".into(), &"mean".into())
        );
        assert_eq!(
            (&topic["sites"], &topic["target_sites"]),
            (&19.into(), &7.into())
        );
        assert_eq!(topic["folds"], 7, "as many as the topic has groups");
        for row in ["internal", "homepage", "all_pages"] {
            for measure in ["precision", "recall", "f_measure", "pages_per_site"] {
                assert!(topic[row][measure].is_f64(), "{row} {measure}: {topic}");
            }
        }
        assert_eq!(topic["homepage"]["pages_per_site"], 1.0);
        let pages = |row: &str| topic[row]["pages_per_site"].as_f64().unwrap_or_default();
        assert!(pages("internal") < pages("all_pages"), "{topic}");
        assert!(
            topic["all_pages"]["f_measure"].as_f64() > Some(0.7),
            "{topic}"
        );
    }
    let text = stdout(
        &coast
            .run(&format!("{command} --p-threshold 0.8 --mistakes"))
            .success(),
    );
    for wanted in [
        "sailing (7) ",
        "  0.800  internal ",
        "homepage ",
        "calibration of",
        "folds: sailing 7",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    let usage = coast.run(&format!("{command} --p-threshold 1.5")).code(2);
    assert!(stderr(&usage).contains("a threshold is a number from 0.5 to below 1"));
}
