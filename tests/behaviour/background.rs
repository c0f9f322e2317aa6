//! The background from the command line: made, extended, shown, and learned from.

use std::fs;

use serde_json::Value;

use crate::skips::{self, skipped};
use crate::topics::{Coast, json_lines, stderr, stdout};
use crate::warc::WarcBuilder;

/// The header of a background file before the version: see `src/classify/background_file.rs`.
const MAGIC_BYTES: usize = 16;

/// Labels of the topic alone.
fn of_sailing_alone(coast: &Coast) {
    let labels = fs::read_to_string(coast.path("coast.labels.tsv")).expect("labels");
    let sailing = labels.lines().filter(|line| line.contains("\tsailing\t"));
    coast.write("coast.labels.tsv", sailing.collect::<Vec<_>>().join("\n"));
}

fn shown(coast: &Coast, config: &str) -> Value {
    let shown = json_lines(
        &coast
            .run(&format!("background show --json {config}"))
            .success(),
    );
    let [background] = shown.as_slice() else {
        panic!("one object: {shown:?}");
    };
    background.clone()
}

fn set_background(coast: &Coast, file: &str) {
    coast.write("own.toml", format!("[training]\nbackground = '{file}'\n"));
}

/// Sites with words that all of them have, and one word of its own each.
fn wool_shops(hosts: &[&str]) -> WarcBuilder {
    let mut warc = WarcBuilder::default();
    for (at, host) in hosts.iter().enumerate() {
        let page = format!("wool needle yarn scarf knitting pattern purl cable secretword{at}");
        warc = warc.page(&format!("http://{host}/"), &page);
    }
    warc
}

#[test]
fn a_background_comes_with_the_program() {
    let coast = Coast::new();
    let background = shown(&coast, "");
    assert_eq!(background["format"], 1);
    assert_eq!(background["origin"], "comes with the program");
    let number = |key: &str| background[key].as_u64().unwrap_or_default();
    assert!(
        number("sites") >= 500 && number("groups") >= 450,
        "{background}"
    );
    assert!(
        number("pages") >= 6_000 && number("terms") >= 20_000,
        "{background}"
    );
    let hosts = background["hosts"].as_array().map(Vec::len);
    assert_eq!(hosts, usize::try_from(number("sites")).ok());
    assert!(
        background["languages"]["de"].as_u64() >= Some(400),
        "{background}"
    );

    let text = stdout(&coast.run("background show").success());
    let fingerprint = background["fingerprint"].as_str().unwrap_or_default();
    let last = format!("comes with the program, format 1, fingerprint {fingerprint}\n");
    assert!(text.ends_with(&last) && fingerprint.len() == 16, "{text}");
    let lines = text.lines().count() as u64;
    assert_eq!(lines, number("sites") + 4);
    let learned = &background["learned_over_topics"];
    assert!(learned["slope"].as_f64() > Some(0.0), "{learned}");
    assert!(text.contains("\nlearned over topics: log-odds "), "{text}");
}

/// The command is in `site-models/README.md`.
#[test]
fn what_comes_with_the_program_is_what_the_documented_command_makes() {
    let corpora = match skips::corpora() {
        Ok(corpora) => corpora,
        Err(why) => return skipped!(why),
    };
    if cfg!(debug_assertions) {
        return skipped!("a debug build takes ten minutes");
    }
    let coast = Coast::new();
    coast.write("own.toml", "[fetch.archive]\nkeep_index = false\n");
    let files = |ending: &str| {
        let file = |name| corpora.join(format!("{name}.{ending}"));
        let files = ["sites", "topics2", "background"].map(|name| file(name).display().to_string());
        files.join(" ")
    };
    coast
        .run(&format!(
            "background make --config own.toml --warc {} --labels {} --out background.bin",
            files("warc.gz"),
            files("labels.tsv")
        ))
        .success();
    let made = fs::read(coast.path("background.bin")).expect("a background");
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/site-models/background.bin");
    let is_same = made == fs::read(shipped).expect("a background");
    assert!(is_same, "make it again: site-models/README.md says how");
}

#[test]
fn a_background_is_made_of_archives_and_shown() {
    let coast = Coast::new();
    let make = "background make --warc coast.warc.gz --labels coast.labels.tsv";
    let said = stdout(&coast.run(make).success());
    assert!(said.starts_with("background.bin: "), "{said}");
    assert!(
        said.contains(" bytes, 19 sites in 19 groups, 71 pages, "),
        "{said}"
    );
    coast.run(&format!("{make} --out again.bin")).success();
    let read = |name: &str| fs::read(coast.path(name)).expect("a background");
    assert!(
        read("background.bin") == read("again.bin"),
        "the same sites, other bytes"
    );

    set_background(&coast, "again.bin");
    let background = shown(&coast, "--config own.toml");
    assert_eq!(background["origin"], "from again.bin");
    assert_eq!(background["sites"], 19);
    let show = "background show --config own.toml";
    let site = stdout(
        &coast
            .run(&format!("{show} www.harbour-sailing.example"))
            .success(),
    );
    assert!(site.starts_with("harbour-sailing.example: "), "{site}");
    assert!(site.lines().any(|line| line.ends_with("  sail")), "{site}");
    let json = json_lines(
        &coast
            .run(&format!("{show} harbour-sailing.example --json"))
            .success(),
    );
    let terms = json[0]["most_frequent"].as_array().expect("terms");
    assert!(
        terms
            .iter()
            .any(|term| term["term"] == "sail" && term["count"].is_f64())
    );
    let unknown = stderr(&coast.run(&format!("{show} nobody.example")).code(1));
    assert!(
        unknown.contains("there is no nobody.example in the background"),
        "{unknown}"
    );
    coast.run(&format!("{show} ..")).code(2);
}

/// A word of one site, or of two, could identify a person. No file has it.
#[test]
fn words_of_few_sites_are_not_kept() {
    let coast = Coast::new();
    let hosts = ["w1.example", "w2.example", "w3.example", "a.w3.example"];
    coast.write("wool.warc", wool_shops(&hosts).plain());
    coast.write(
        "wool.tsv",
        "w1.example\tother\nw2.example\tother\nw3.example\tother\n",
    );
    coast
        .run("background make --warc wool.warc --labels wool.tsv --out wool.bin")
        .success();
    let file = fs::read(coast.path("wool.bin")).expect("a background");
    let has = |word: &[u8]| file.windows(word.len()).any(|part| part == word);
    assert!(has(b"yarn") && !has(b"secretword"));

    coast.write("wool.tsv", "w1.example\tother\nw2.example\tother\n");
    let refused = coast.run("background make --warc wool.warc --labels wool.tsv --out no.bin");
    let message = stderr(&refused.code(1));
    assert!(
        message.contains("a term is kept if at least three groups of sites have it"),
        "{message}"
    );
    assert!(!coast.path("no.bin").exists(), "nothing was written");
}

#[test]
fn further_sites_are_added_to_a_background() {
    let coast = Coast::new();
    let hosts = ["w1.example", "w2.example", "w3.example", "few00.example"];
    let lonely = "zyxxy plugh qwertz asdfgh yxcvbn hjklm uiopq";
    let warc = wool_shops(&hosts).page("http://lonely.example/", lonely);
    coast.write("wool.warc", warc.plain());
    let add = "background add --warc wool.warc";
    let nowhere = stderr(&coast.run(add).code(1));
    assert!(
        nowhere.contains("name the file to write with --out"),
        "{nowhere}"
    );

    let added = coast
        .run(&format!("{add} --config few.toml --out more.bin"))
        .success();
    let said = stdout(&added);
    assert!(said.starts_with("more.bin: "), "{said}");
    assert!(
        said.ends_with("added 3 sites; 1 were there already\n"),
        "{said}"
    );
    let warned = stderr(&added);
    assert!(
        warned.contains(
            "1 left out, because they have no term that three groups of sites share: lonely.example"
        ),
        "{warned}"
    );
    assert!(
        warned.contains("set `background = \"more.bin\"` in [training]"),
        "{warned}"
    );
    set_background(&coast, "more.bin");
    let before = shown(&coast, "--config few.toml");
    let after = shown(&coast, "--config own.toml");
    assert_eq!(
        (&before["sites"], &after["sites"]),
        (&18.into(), &21.into())
    );
    assert!(after["terms"].as_u64() > before["terms"].as_u64());

    // A second time there is nothing new, and the file stays as it is.
    let file = fs::read(coast.path("more.bin")).expect("a background");
    let nothing = stderr(&coast.run(&format!("{add} --config own.toml")).code(1));
    let wanted = "of 5 hosts 4 are in the background already, 1 have no term that three groups of \
                  sites share, and 0 have no page that could be read; name archives with other sites";
    assert!(nothing.contains(wanted), "{nothing}");
    assert!(file == fs::read(coast.path("more.bin")).expect("a background"));
    coast.write("wool.tsv", "gone.example\tother\n");
    let labels = format!("{add} --config own.toml --labels wool.tsv");
    let nothing = stderr(&coast.run(&labels).code(1));
    assert!(
        nothing.contains("and 1 have no page that could be read"),
        "{nothing}"
    );
}

/// Without the settings that name it, what was added to a file would be lost.
#[test]
fn a_file_that_is_not_begun_with_is_not_replaced() {
    let coast = Coast::new();
    let add = "background add --warc";
    let hosts = ["w1.example", "w2.example", "w3.example"];
    coast.write("wool.warc", wool_shops(&hosts).plain());
    coast.write("more.warc", wool_shops(&["w4.example"]).plain());
    coast
        .run(&format!("{add} wool.warc --config few.toml --out own.bin"))
        .success();
    let first = fs::read(coast.path("own.bin")).expect("a background");
    coast.write("gone.toml", "[training]\nbackground = 'gone.bin'\n");
    for (config, begun_with) in [
        ("", "that comes with the program"),
        ("--config gone.toml", "that comes with the program"),
        ("--config few.toml", "few.bin"),
    ] {
        let refused = coast.run(&format!("{add} more.warc {config} --out own.bin"));
        let message = stderr(&refused.code(1));
        let wanted = format!(
            "own.bin exists, and would be replaced by the background {begun_with} with the new sites; to \
             add to it, set `background` in [training]"
        );
        assert!(message.contains(&wanted), "{message}");
        let unchanged = fs::read(coast.path("own.bin")).expect("a background") == first;
        assert!(unchanged, "the file was replaced");
    }

    // With the settings that it asks for, whichever way the file is named.
    set_background(&coast, "own.bin");
    for out in ["", "--out ./own.bin"] {
        let host = format!("w{}.example", 10 + out.len());
        coast.write("more.warc", wool_shops(&[&*host]).plain());
        let added = coast.run(&format!("{add} more.warc --config own.toml {out}"));
        assert!(stdout(&added.success()).ends_with("added 1 sites; 0 were there already\n"));
    }
    assert_eq!(shown(&coast, "--config own.toml")["sites"], 23);
}

#[test]
fn hosts_of_one_owner_are_one_group_whatever_their_labels_say() {
    let coast = Coast::new();
    let hosts = ["w1.example", "w2.example", "w3.example", "w4.example"];
    let mut warc = wool_shops(&hosts);
    let mut labels: String = hosts.map(|host| format!("{host}\tother\n")).concat();
    for host in ["anna.example", "shop.anna.example", "blog.anna.example"] {
        let page = "wool needle yarn scarf knitting pattern annasecret";
        warc = warc.page(&format!("http://{host}/"), page);
        labels.extend([host, "\tother\n"]);
    }
    coast.write("wool.warc", warc.plain());
    coast.write("wool.tsv", &labels);
    let from = "--warc wool.warc --labels wool.tsv";
    coast
        .run(&format!("background make {from} --out made.bin"))
        .success();
    coast
        .run(&format!(
            "background add {from} --config few.toml --out added.bin"
        ))
        .success();
    for name in ["made.bin", "added.bin"] {
        let file = fs::read(coast.path(name)).expect("a background");
        let has = |word: &[u8]| file.windows(word.len()).any(|part| part == word);
        assert!(has(b"yarn") && has(b"anna.example"), "{name}");
        assert!(!has(b"annasecret"), "{name}");
    }
}

#[test]
fn labels_of_several_files_may_not_contradict_each_other() {
    let coast = Coast::new();
    let hosts = ["w1.example", "w2.example", "w3.example"];
    coast.write("wool.warc", wool_shops(&hosts).plain());
    coast.write("a.tsv", "w1.example\tother\nw2.example\tother\n");
    coast.write("b.tsv", "w3.example\tother\nwww.w2.example\tknitting\n");
    let make = "background make --warc wool.warc --labels a.tsv b.tsv --out wool.bin";
    let message = stderr(&coast.run(make).code(65));
    assert!(
        message.contains(
            "b.tsv line 2: w2.example is `knitting` here and `other` in a.tsv line 2; keep one of them"
        ),
        "{message}"
    );
    assert!(!coast.path("wool.bin").exists(), "nothing was written");
    coast.write("b.tsv", "w3.example\tother\nw2.example\tother\n");
    let merged = coast.run(make).success();
    assert!(
        stderr(&merged).contains("b.tsv line 2: w2.example is labelled in a.tsv line 2 already"),
        "{}",
        stderr(&merged)
    );
}

/// The settings may name the file before it is there.
#[test]
fn the_first_sites_are_added_to_what_comes_with_the_program() {
    let coast = Coast::new();
    coast.write(
        "wool.warc",
        wool_shops(&["w1.example", "w2.example"]).plain(),
    );
    set_background(&coast, "own.bin");
    let add = "background add --warc wool.warc --config own.toml";
    let added = coast.run(add).success();
    assert!(stdout(&added).ends_with("added 2 sites; 0 were there already\n"));
    assert_eq!(stderr(&added), "");
    let sites = |config: &str| shown(&coast, config)["sites"].as_u64().unwrap_or_default();
    assert_eq!(sites("--config own.toml"), sites("") + 2);
}

#[test]
fn sites_of_the_topic_alone_are_enough() {
    let coast = Coast::new();
    of_sailing_alone(&coast);
    let train = "train sailing --warc coast.warc.gz --labels coast.labels.tsv";
    let trained = coast.run(train).success();
    // There are sailing clubs in what comes with the program, and nothing else is to be said.
    let warned = stderr(&trained);
    assert_eq!(warned.lines().count(), 1, "{warned}");
    let suspects =
        "sitescout: left out of the background, because they look like sites of `sailing`: ";
    assert!(warned.starts_with(suspects), "{warned}");
    let said = stdout(&trained);
    assert!(
        said.contains("learned from 7 sites of `sailing`, 0 others and 5"),
        "{said}"
    );
    let card = fs::read_to_string(coast.path("site-models/sailing/card.md")).expect("a card");
    let background = shown(&coast, "");
    let fingerprint = background["fingerprint"].as_str().expect("a fingerprint");
    let origin = format!("| background | comes with the program, fingerprint `{fingerprint}` |");
    assert!(card.contains(&origin), "{card}");
    assert!(
        card.contains(" In the measures below they are not counted.")
            && card.contains("\n| no page spoke | "),
        "{card}"
    );
    assert!(
        card.contains("--labels coast.labels.tsv --page-classifier linear --seed 1`"),
        "{card}"
    );
    let command = "classify --model site-models/sailing --warc coast.warc.gz --json";
    let judged = coast.run(&format!(
        "{command} lakeside-sailing.example chess-knights.example"
    ));
    let judged = json_lines(&judged.success());
    let verdicts: Vec<&Value> = judged.iter().map(|site| &site["verdict"]).collect();
    assert_eq!(verdicts, ["relevant", "irrelevant"]);
}

#[test]
fn a_topic_file_needs_no_other_sites() {
    let coast = Coast::new();
    coast.write(
        "topic.toml",
        "name = \"sailing\"\n[training]\ntarget_sites = [\"harbour-sailing.example\", \
         \"gulls-dinghy.example\", \"bay-regatta.example\"]\n",
    );
    let trained = coast
        .run("train topic.toml --config few.toml --warc coast.warc.gz")
        .success();
    let said = stdout(&trained);
    assert!(
        said.contains("learned from 3 sites of `sailing`, 0 others and 18"),
        "{said}"
    );
    let warned = stderr(&trained);
    assert!(
        warned.contains("`sailing` is learned from 3 examples only"),
        "{warned}"
    );
}

#[test]
fn sites_that_editors_accepted_are_enough() {
    let coast = Coast::new();
    let hosts = ["harbour-sailing.example", "gulls-dinghy.example"];
    let accepted = |host: &&str| {
        format!("{{\"topic\":\"sailing\",\"host\":\"{host}\",\"decision\":\"accept\"}}\n")
    };
    let decisions: String = hosts.iter().map(accepted).collect();
    coast.write("decisions.jsonl", &decisions);
    let train =
        "train sailing --config few.toml --warc coast.warc.gz --from-decisions=decisions.jsonl";
    let said = stdout(&coast.run(train).success());
    assert!(
        said.contains("learned from 2 sites of `sailing`, 0 others and 18"),
        "{said}"
    );

    coast.write("decisions.jsonl", decisions.replace("accept", "reject"));
    let none = stderr(&coast.run(&format!("{train} --out none")).code(1));
    assert!(
        none.contains("there is no site of `sailing` labelled; name two at least"),
        "{none}"
    );
    assert!(!coast.path("none").exists(), "nothing was written");
}

#[test]
fn what_is_labelled_is_left_out_of_the_background() {
    let coast = Coast::new();
    of_sailing_alone(&coast);
    coast
        .run("background make --warc coast.warc.gz --labels coast.labels.tsv --out same.bin")
        .success();
    set_background(&coast, "same.bin");
    let train = "train sailing --config own.toml --warc coast.warc.gz --labels coast.labels.tsv";
    let refused = stderr(&coast.run(train).code(1));
    assert!(
        refused.contains("nothing is left to tell `sailing` from"),
        "{refused}"
    );
    assert!(!coast.path("site-models").exists(), "nothing was written");
}

#[test]
fn unusable_backgrounds_are_refused_with_what_to_do() {
    let coast = Coast::new();
    let good = fs::read(coast.path("few.bin")).expect("a background");
    let mut newer = good.clone();
    newer[MAGIC_BYTES] = 9;
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    set_background(&coast, "bad.bin");
    coast.write("wool.warc", wool_shops(&["w1.example"]).plain());
    let commands = [
        "train sailing --config own.toml --warc coast.warc.gz --labels coast.labels.tsv",
        "background show --config own.toml",
        "background add --config own.toml --warc wool.warc",
    ];
    for (bytes, wanted) in [
        (
            newer,
            "the background has format 9, this sitescout reads format 1; make it again",
        ),
        (
            flipped,
            "the background is damaged (its checksum is wrong); restore it",
        ),
        (
            good[..good.len() - 5].to_vec(),
            "the background is damaged (its length is wrong)",
        ),
        (
            good[..18].to_vec(),
            "the background is damaged (it ends in its header)",
        ),
        (
            b"<html>".to_vec(),
            "this is not a background; set `background` in [training] to one, or leave it empty",
        ),
        (Vec::new(), "this is not a background"),
    ] {
        coast.write("bad.bin", &bytes);
        for command in commands {
            let message = stderr(&coast.run(command).code(65));
            assert!(message.contains(wanted), "{message}");
            assert!(message.contains("bad.bin"), "{message}");
        }
        assert_eq!(fs::read(coast.path("bad.bin")).expect("the file"), bytes);
    }
    assert!(!coast.path("site-models").exists(), "nothing was written");

    // What the messages of a damaged file and of another version recommend.
    fs::rename(coast.path("bad.bin"), coast.path("old.bin")).expect("a file");
    coast.run(commands[2]).success();
    coast.run(commands[1]).success();
    coast.write("bad.bin", &good[..18]);
    coast
        .run("background make --warc coast.warc.gz --labels coast.labels.tsv --out bad.bin")
        .success();
    coast.run(commands[1]).success();
    fs::remove_file(coast.path("bad.bin")).expect("a file");
    for command in &commands[..2] {
        let message = stderr(&coast.run(command).code(1));
        assert!(
            message.contains(
                "cannot read the background bad.bin; `sitescout background add` makes it"
            ),
            "{message}"
        );
    }
    assert!(!coast.path("site-models").exists(), "nothing was written");
}
