//! `evaluate classifier --open-world`, on sites whose verdicts are certain: topics have no word in
//! common.

use serde_json::{Value, json};

use crate::topics::{Coast, json_lines, stderr, stdout};
use crate::warc::WarcBuilder;

const FISHING: &str = "trout salmon river rod hook angler bait reel fly lake";

const TOPICS: [(&str, &str); 4] = [
    (
        "baking",
        "bread flour oven cake pastry loaf dough butter sugar crust",
    ),
    (
        "chess",
        "pawn rook knight bishop castle mate queen king opening board",
    ),
    ("fishing", FISHING),
    (
        "knitting",
        "wool needle yarn scarf knit stitch pattern purl cable row",
    ),
];

/// Groups of each topic.
const GROUPS: usize = 6;

const OTHER: [(&str, &str); 2] = [
    (
        "farm",
        "tractor plough field harvest engine diesel tyre barn hay silo",
    ),
    (
        "organ",
        "pipe bellows church concert choir hymn keyboard sound stop reed",
    ),
];

const BACKGROUND: [(&str, &str); 2] = [
    (
        "painter",
        "paint brush easel canvas portrait gallery frame studio sketch ink",
    ),
    (
        "dentist",
        "tooth filling clinic brace gum drill nurse jaw enamel floss",
    ),
];

#[derive(Default)]
struct Sites {
    warc: WarcBuilder,
    labels: String,
}

impl Sites {
    /// A site of three pages, each with eight of the words.
    fn add(mut self, name: &str, at: usize, words: &str, topic: &str) -> Self {
        let words: Vec<&str> = words.split(' ').collect();
        let page = |from: usize| {
            let some = (0..8).map(|word| words[(at + from + 3 * word) % words.len()]);
            some.collect::<Vec<_>>().join(" ")
        };
        let host = format!("{name}{at}.example");
        let url = |path: &str| format!("http://{host}/{path}");
        self.warc = self
            .warc
            .page(
                &url(""),
                &format!("{} <a href=a>more</a> <a href=b>else</a>", page(0)),
            )
            .page(&url("a"), &format!("{} welcome to all", page(1)))
            .page(&url("b"), &format!("{} contact us here", page(2)));
        self.labels.extend([&host, "\t", topic, "\n"]);
        self
    }

    fn add_all(mut self, kinds: &[(&str, &str)], sites: usize, topic: Option<&str>) -> Self {
        for (name, words) in kinds {
            for at in 0..sites {
                self = self.add(name, at, words, topic.unwrap_or(name));
            }
        }
        self
    }

    fn write(self, coast: &Coast, name: &str) {
        coast.write(&format!("{name}.warc"), self.warc.plain());
        coast.write(&format!("{name}.tsv"), self.labels);
    }
}

/// Four topics, two kinds of other sites, and two kinds as background. One site that is called other is
/// about fishing, and so are three of the background: of fewer its words would not be known.
fn web() -> Coast {
    let coast = Coast::new();
    Sites::default()
        .add_all(&TOPICS, GROUPS, None)
        .add_all(&OTHER, 4, Some("other"))
        .add("lure", 4, FISHING, "other")
        .write(&coast, "labelled");
    Sites::default()
        .add_all(&BACKGROUND, 10, Some("other"))
        .add_all(&[("angler", FISHING)], 3, Some("other"))
        .write(&coast, "beside");
    coast
}

const EVALUATE: &str =
    "evaluate classifier --open-world --warc labelled.warc beside.warc --labels labelled.tsv";

fn assert_close(found: &Value, wanted: f64) {
    let number = found.as_f64().expect("a number");
    assert!((number - wanted).abs() < 1e-9, "{number} is not {wanted}");
}

/// By hand: learned from three groups, three sites of the topic are left to be found in each draw, and
/// the one that is called other is found with them. Precision 3/4, recall 1, F 6/7. Those of the background
/// are left out of both draws.
#[test]
fn a_topic_is_learned_from_a_few_groups_and_judged_on_the_others() {
    let coast = web();
    let command = format!(
        "{EVALUATE} --background beside.tsv --topic fishing --examples 3 --draws 2 --blocks 1 --json"
    );
    let evaluated = coast.run(&command).success();
    let lines = json_lines(&evaluated);
    let [topic, mean] = lines.as_slice() else {
        panic!("one topic and the mean: {lines:?}");
    };
    assert_eq!(
        (&topic["topic"], &mean["topic"]),
        (&"fishing".into(), &"mean".into())
    );
    assert_eq!(
        (&topic["examples"], &mean["examples"]),
        (&3.into(), &3.into())
    );
    for (measure, wanted) in [
        ("precision", 0.75),
        ("recall", 1.0),
        ("f_measure", 6.0 / 7.0),
    ] {
        assert_close(&topic[measure], wanted);
        assert_close(&mean[measure]["value"], wanted);
        let end = |name: &str| mean[measure][name].as_f64().expect("a number");
        assert!(end("low") <= wanted && wanted <= end("high"), "{mean}");
    }
    assert!(
        topic["best_f"].as_f64() >= Some(6.0 / 7.0 - 1e-9),
        "{topic}"
    );
    let pages = topic["pages_per_site"].as_f64().expect("a number");
    assert!((1.0..=3.0).contains(&pages), "{topic}");
    let suspects = json!({ "angler0.example": 2, "angler1.example": 2, "angler2.example": 2 });
    assert_eq!(topic["suspects"], suspects);

    let ranges = mean["reliability"].as_array().expect("ranges");
    let sum = |of: fn(&Value) -> Option<f64>| ranges.iter().filter_map(of).sum::<f64>();
    let finds = sum(|range| range["finds"].as_f64());
    let targets = sum(|range| Some(range["finds"].as_f64()? * range["share_of_targets"].as_f64()?));
    assert!(
        (finds - 4.0).abs() < 1e-9 && (targets - 3.0).abs() < 1e-9,
        "{mean}"
    );

    let again = coast.run(&command).success();
    assert_eq!(
        stdout(&again),
        stdout(&evaluated),
        "the same sites and seed"
    );
}

/// Topics without a site that is labelled as something else have no mistakes.
#[test]
fn topics_are_judged_in_their_blocks_with_each_number_of_examples() {
    let coast = web();
    let command =
        format!("{EVALUATE} --background beside.tsv --topic all --examples 3 4 --draws 2");
    let lines = json_lines(&coast.run(&format!("{command} --json")).success());
    let rows: Vec<(u64, &str)> = lines
        .iter()
        .map(|row| {
            (
                row["examples"].as_u64().unwrap_or_default(),
                row["topic"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let names = ["baking", "chess", "fishing", "knitting", "mean"];
    let wanted: Vec<(u64, &str)> = [3, 4]
        .into_iter()
        .flat_map(|examples| names.map(|name| (examples, name)))
        .collect();
    assert_eq!(rows, wanted);
    for row in lines
        .iter()
        .filter(|row| row["topic"] != "mean" && row["topic"] != "fishing")
    {
        for measure in [
            "precision",
            "recall",
            "f_measure",
            "average_precision",
            "best_f",
        ] {
            assert_close(&row[measure], 1.0);
        }
    }
    let text = stdout(&coast.run(&command).success());
    for wanted in [
        "from 3 groups            pages   prec    rec      F     AP  best F\nbaking ",
        "\nfrom 4 groups ",
        "\nmeans over draws, then topics, with 95 % intervals\n",
        "\nf measure ",
        "\nfinds by confidence, from 4 groups: ",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn what_cannot_be_evaluated_in_the_open_world_is_refused() {
    let coast = web();
    for (arguments, code, wanted) in [
        (
            "--topic fishing --blocks 1",
            1,
            "with one block there is nothing that the topics are not: add --background, or more blocks",
        ),
        (
            "--topic fishing --background labelled.tsv",
            1,
            "labelled.tsv: every site is labelled already, so nothing is left for the background",
        ),
        (
            "--topic all --background beside.tsv --examples 6",
            1,
            "no topic has more than 6 groups of sites",
        ),
        (
            "--topic rowing",
            1,
            "no site is labelled `rowing`; there are: baking, chess",
        ),
        (
            "--topic all --folds 3",
            2,
            "'--open-world' cannot be used with '--folds",
        ),
    ] {
        let refused = coast.run(&format!("{EVALUATE} {arguments}"));
        let message = stderr(&refused.code(code));
        assert!(message.contains(wanted), "{message}");
    }
    let closed =
        "evaluate classifier --warc labelled.warc --labels labelled.tsv --topic all --blocks 2";
    assert!(stderr(&coast.run(closed).code(2)).contains("--open-world"));
}
