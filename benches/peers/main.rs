//! sitescout beside other crawlers: spider, wget2 and Scrapy, each reading the same web.
//!
//! What is measured, for each program from its start to its exit:
//! - `sitescout`: `crawl` with 100 crawlers, a store on the disk, and a model that `train` has made
//!   before. All hosts are of the topic, and the settings let it read on after the verdict until no
//!   page is left, which it never does otherwise. Pauses are set to zero.
//! - `spider`: its library with default features, in a small program of ours (`spider/`): one
//!   `Website` for each host, all at once, with the number of requests at once that is fastest here
//! - `spider-subscribed`: the same with a subscriber, who gets each page and reads its bytes once
//! - `wget2`: recursive, with 100 threads
//! - `scrapy`: a spider of a few lines (`scrapy_peer.py`) with the settings recommended for broad
//!   crawls and 100 requests at once
//!
//! All obey robots.txt and wait for nothing. The web has 100 hosts of 200 pages, each at a loopback
//! address of its own; `benches/serving/word_web` says what the pages are like. All homepages are
//! given to each program.
//!
//! Pages per second are by wall time, and each page counts once; all other requests (robots.txt,
//! images, pages once more) are `others`. CPU time is that of all threads and children, system time
//! included; memory is the peak of the process; connections are those that the server accepted, and
//! the most that were open at once. Columns `ratio` are sitescout divided by that program. One that
//! has read less than 99 % of the pages, has handed over fewer, or exits with a failure is not compared.
//!
//! The server is a separate process with one thread and all responses in memory. Its cost is shown,
//! because it competes for the CPU with the program being measured.
//!
//! What is not fair about it:
//! - sitescout parses each page, judges its words, and records verdicts and links between hosts.
//!   It sends one request at a time to a host, and connects once in vain, as it tries https first.
//! - spider only looks for links: pages are neither kept nor handed to anybody. It is run leaner than by
//!   default, too: `spider/` says what was tuned. `spider-subscribed` does what programs do that want
//!   the pages, as ours does: it looks at each and keeps none. But it does not parse them.
//! - wget2 writes each page to a file, and only looks for links in it. It also asks for images and
//!   style sheets, of which there are none.
//! - Scrapy is Python, with one thread for all.
//! - Addresses on loopback have no names, no TLS and no distance.
//!
//! ```text
//! cargo bench --bench peers -- --install                  # the others first; wget2 by apt-get, as root
//! cargo bench --bench peers -- --rounds 5
//! cargo bench --bench peers -- --only sitescout wget2
//! ```
//!
//! Without `--install` nothing is installed. If a program is missing, nothing is measured, unless
//! `--only` names others too: these are.

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

mod process;
#[path = "../serving/mod.rs"]
mod serving;
#[path = "../serving/word_web/mod.rs"]
mod word_web;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use process::Spent;
use serving::Server;
use tempfile::TempDir;
use word_web::{Counts, Hosts};

const ROUNDS: usize = 3;

/// Visits or threads at once, where that can be set.
const CRAWLERS: usize = 100;

/// The share of the pages that has to be read.
const ENOUGH: f64 = 0.99;

/// A program that takes longer is stopped.
const LONGEST: Duration = Duration::from_mins(10);

/// What wget2 exits with if a server has answered any request with an error: here those for images and
/// style sheets that there are not.
const WGET2_ERROR_RESPONSES: i32 = 8;

const TOPIC: &str = "made-up";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |wanted: &str| {
        let at = arguments.iter().position(|argument| argument == wanted)?;
        Some(&arguments[at + 1..])
    };
    if after("--serve").is_some() {
        raise_limit_of_files();
        return word_web::serve();
    }
    let rounds = after("--rounds").map_or(ROUNDS, |values| {
        let number = values.first().and_then(|value| value.parse().ok());
        number.expect("a number of rounds")
    });
    let only = after("--only").map(|names| {
        let names = names.iter().take_while(|name| !name.starts_with("--"));
        names.map(|name| Crawler::named(name)).collect()
    });
    let wanted = only.clone().unwrap_or_else(|| Crawler::ALL.to_vec());
    if after("--install").is_some() {
        install(&wanted);
    }
    let (found, missing): (Vec<Crawler>, Vec<Crawler>) = wanted
        .into_iter()
        .partition(|crawler| crawler.is_installed());
    for crawler in &missing {
        println!("{} is not installed", crawler.name());
    }
    if !missing.is_empty() {
        println!("`cargo bench --bench peers -- --install` installs what is missing");
    }
    if found.is_empty() || (only.is_none() && !missing.is_empty()) {
        println!("nothing is measured; `--only` and names measure some of the programs");
        return;
    }
    measure(&found, rounds);
}

/// Where the other crawlers are installed.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers")
}

fn install(crawlers: &[Crawler]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/install");
    let packages = crawlers.iter().filter_map(|crawler| crawler.package());
    let status = Command::new(script).arg(peers()).args(packages).status();
    assert!(
        status.expect("a script").success(),
        "not all peers are installed"
    );
}

/// Every connection needs a descriptor. The programs started here inherit the limit.
fn raise_limit_of_files() {
    let (_, most) = rlimit::Resource::NOFILE.get().expect("a limit");
    rlimit::Resource::NOFILE
        .set(most, most)
        .expect("as many as are allowed");
}

fn measure(crawlers: &[Crawler], rounds: usize) {
    raise_limit_of_files();
    let bench = Bench::prepare();
    for crawler in crawlers {
        println!(
            "{:<17} {}",
            crawler.name(),
            crawler.version().unwrap_or_default()
        );
    }
    let mut measured: Vec<Vec<Figures>> = crawlers.iter().map(|_| Vec::new()).collect();
    let mut failures = Vec::new();
    for _ in 0..rounds {
        for (crawler, figures) in crawlers.iter().zip(&mut measured) {
            match bench.run(*crawler) {
                Ok(run) => figures.push(run),
                Err(failure) => failures.push(failure),
            }
        }
    }
    let rows: Vec<(Crawler, Figures)> = crawlers
        .iter()
        .zip(&measured)
        // Medians of the rounds without a failure would be those of the lucky ones.
        .filter(|(_, figures)| figures.len() == rounds)
        .map(|(crawler, figures)| (*crawler, Figures::medians(figures)))
        .collect();
    print_table(&rows, rounds);
    for failure in failures {
        println!("{failure}");
    }
}

fn print_table(rows: &[(Crawler, Figures)], rounds: usize) {
    let bytes: u64 = rows.iter().map(|(_, figures)| figures.counts.bytes).sum();
    let served: u64 = rows.iter().map(|(_, figures)| figures.counts.pages).sum();
    println!(
        "\n{} hosts, {} pages, {} bytes a page; medians of {rounds} rounds in turn\n",
        Hosts::Crawled.addresses().count(),
        Hosts::Crawled.pages(),
        bytes / served.max(1),
    );
    println!(
        "{:<17} {:>7} {:>7} {:>8} {:>6} {:>8} {:>6} {:>7} {:>12} {:>5} {:>8}",
        "",
        "pages",
        "others",
        "pages/s",
        "",
        "cpu us/",
        "",
        "memory",
        "connections",
        "open",
        "server"
    );
    println!(
        "{:<17} {:>7} {:>7} {:>8} {:>6} {:>8} {:>6} {:>7} {:>12} {:>5} {:>8}",
        "", "", "", "", "ratio", "page", "ratio", "MB", "", "", "us/page"
    );
    let ours = rows
        .iter()
        .find(|(crawler, figures)| *crawler == Crawler::Sitescout && figures.has_read_enough());
    for (crawler, figures) in rows {
        let [rate, cpu] = match ours {
            Some((_, ours)) if figures.has_read_enough() => [
                format!(
                    "{:.2}",
                    ours.pages_per_second() / figures.pages_per_second()
                ),
                format!("{:.2}", ours.each(ours.cpu) / figures.each(figures.cpu)),
            ],
            _ => ["-", "-"].map(str::to_owned),
        };
        println!(
            "{:<17} {:>7} {:>7} {:>8.0} {rate:>6} {:>8.1} {cpu:>6} {:>7.0} {:>12} {:>5} {:>8.1}",
            crawler.name(),
            figures.counts.distinct,
            figures.counts.others + figures.counts.pages - figures.counts.distinct,
            figures.pages_per_second(),
            figures.each(figures.cpu),
            figures.memory as f64 / 1e6,
            figures.counts.connections,
            figures.counts.most_open,
            figures.each(figures.server_cpu),
        );
    }
    for (crawler, figures) in rows {
        if let Some(received) = figures.received {
            println!("{} has handed over {received} pages", crawler.name());
        }
        if !figures.has_read_enough() {
            println!(
                "{} has read {} of {} pages, and is not compared",
                crawler.name(),
                figures.counts.distinct,
                Hosts::Crawled.pages()
            );
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crawler {
    Sitescout,
    Spider,
    SpiderSubscribed,
    Wget2,
    Scrapy,
}

/// The measurements of a run.
#[derive(Debug, Clone, Copy)]
struct Figures {
    counts: Counts,
    /// Pages that the program says it has handed over, if it does so.
    received: Option<u64>,
    wall: Duration,
    cpu: Duration,
    server_cpu: Duration,
    memory: u64,
}

/// What all runs share.
struct Bench {
    server: Server,
    /// Settings, model and start URLs.
    directory: TempDir,
}

// === impl Crawler ===

impl Crawler {
    const ALL: [Self; 5] = [
        Self::Sitescout,
        Self::Spider,
        Self::SpiderSubscribed,
        Self::Wget2,
        Self::Scrapy,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Sitescout => "sitescout",
            Self::Spider => "spider",
            Self::SpiderSubscribed => "spider-subscribed",
            Self::Wget2 => "wget2",
            Self::Scrapy => "scrapy",
        }
    }

    /// What `install` calls it; none for the program that cargo has built.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Sitescout => None,
            Self::Spider | Self::SpiderSubscribed => Some("spider"),
            Self::Wget2 => Some("wget2"),
            Self::Scrapy => Some("scrapy"),
        }
    }

    fn is_installed(self) -> bool {
        match self {
            // A library has no command that does nothing.
            Self::Spider | Self::SpiderSubscribed => self.program().is_file(),
            Self::Sitescout | Self::Wget2 | Self::Scrapy => self.version().is_some(),
        }
    }

    fn program(self) -> PathBuf {
        match self {
            Self::Sitescout => PathBuf::from(env!("CARGO_BIN_EXE_sitescout")),
            Self::Spider | Self::SpiderSubscribed => peers().join("spider/release/spider-peer"),
            Self::Wget2 => PathBuf::from("wget2"),
            Self::Scrapy => peers().join("scrapy/bin/python"),
        }
    }

    /// None if the program cannot be run.
    fn version(self) -> Option<String> {
        let arguments: &[&str] = match self {
            Self::Spider | Self::SpiderSubscribed => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR"));
                let manifest = root.join("benches/peers/spider/Cargo.toml");
                let manifest = fs::read_to_string(manifest).expect("the program for spider");
                let version = manifest.lines().find(|line| line.starts_with("spider ="));
                return version.map(str::to_owned);
            }
            Self::Sitescout | Self::Wget2 => &["--version"],
            Self::Scrapy => &["-m", "scrapy", "version"],
        };
        let output = Command::new(self.program()).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().map(str::to_owned)
    }

    fn has_succeeded(self, status: ExitStatus) -> bool {
        let is_wget2 = self == Self::Wget2;
        status.success() || is_wget2 && status.code() == Some(WGET2_ERROR_RESPONSES)
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|crawler| crawler.name() == name);
        found.expect("the name of a crawler")
    }
}

// === impl Figures ===

impl Figures {
    fn pages_per_second(&self) -> f64 {
        self.counts.distinct as f64 / self.wall.as_secs_f64()
    }

    fn each(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.counts.distinct as f64
    }

    fn has_read_enough(&self) -> bool {
        let fewest = self.received.unwrap_or(self.counts.distinct);
        fewest.min(self.counts.distinct) as f64 >= ENOUGH * Hosts::Crawled.pages() as f64
    }

    /// The median of each figure by itself; of pages the fewest, so that no round hides another.
    fn medians(rounds: &[Self]) -> Self {
        let of = |figure: &dyn Fn(&Self) -> u64| {
            let mut values: Vec<u64> = rounds.iter().map(figure).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        let time = |figure: &dyn Fn(&Self) -> Duration| {
            let mut values: Vec<Duration> = rounds.iter().map(figure).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        let fewest = rounds.iter().map(|round| round.counts.distinct).min();
        Self {
            counts: Counts {
                pages: of(&|round| round.counts.pages),
                distinct: fewest.expect("a round"),
                bytes: of(&|round| round.counts.bytes),
                others: of(&|round| round.counts.others),
                connections: of(&|round| round.counts.connections),
                most_open: of(&|round| round.counts.most_open),
            },
            received: rounds.iter().filter_map(|round| round.received).min(),
            wall: time(&|round| round.wall),
            cpu: time(&|round| round.cpu),
            server_cpu: time(&|round| round.server_cpu),
            memory: of(&|round| round.memory),
        }
    }
}

// === impl Bench ===

impl Bench {
    /// Starts the server and trains a model.
    fn prepare() -> Self {
        let targets = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let bench = Self {
            server: Server::start(&["--serve"]),
            directory: tempfile::tempdir_in(targets).expect("a directory"),
        };
        bench.train();
        bench
    }

    /// The hosts of the web with its port, each in this pattern in the place of `{}`.
    fn hosts(&self, hosts: Hosts, pattern: &str) -> Vec<String> {
        let port = self.server.address.port();
        let host = |address| pattern.replace("{}", &format!("{address}:{port}"));
        hosts.addresses().map(host).collect()
    }

    fn homepages(&self) -> Vec<String> {
        self.hosts(Hosts::Crawled, "http://{}/")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn train(&self) {
        let list = |hosts| self.hosts(hosts, "\"{}\"").join(", ");
        let topic = format!(
            "name = \"{TOPIC}\"\nstart_sites = [{}]\n[training]\ntarget_sites = [{}]\n\
             other_sites = [{}]\n",
            list(Hosts::Crawled),
            list(Hosts::ExamplesOfTheTopic),
            list(Hosts::OtherExamples)
        );
        // No site reaches these limits, so a crawl reads on until no page is left.
        let settings = format!(
            "[log]\nlevel = \"error\"\n[fetch]\ncontact = \"https://crawler.example/\"\n\
             allow_addresses = [\"127.0.0.0/8\"]\nports = [{}]\n[fetch.politeness]\n\
             pause = \"0 s\"\naddress_interval = \"0 s\"\n[internal]\npage_budget = 1_000\n\
             link_threshold = 1_000_000.0\nscarce_link_threshold = 1_000_000.0\n[external]\n\
             crawlers = {CRAWLERS}\n",
            self.server.address.port()
        );
        fs::write(self.path("topic.toml"), topic).expect("room on the disk");
        fs::write(self.path("config.toml"), settings).expect("room on the disk");
        fs::write(self.path("homepages"), self.homepages().join("\n")).expect("room on the disk");
        let trained = self
            .sitescout()
            .arg("train")
            .arg(self.path("topic.toml"))
            .arg("--out")
            .arg(self.path("models"))
            .stdout(Stdio::null())
            .status();
        assert!(
            trained.expect("sitescout").success(),
            "no model was learned"
        );
    }

    fn sitescout(&self) -> Command {
        let mut command = Command::new(Crawler::Sitescout.program());
        command.arg("--config").arg(self.path("config.toml"));
        command
    }

    /// The command that reads the web, and writes below `output`, if anything.
    fn command(&self, crawler: Crawler, output: &Path) -> Command {
        let mut command = match crawler {
            Crawler::Sitescout => self.sitescout(),
            _ => Command::new(crawler.program()),
        };
        match crawler {
            Crawler::Sitescout => command
                .args(["crawl", TOPIC, "--json", "--models"])
                .arg(self.path("models"))
                .arg("--state")
                .arg(output.join("state")),
            Crawler::Spider => command.arg("crawl").args(self.homepages()),
            Crawler::SpiderSubscribed => command.arg("subscribe").args(self.homepages()),
            Crawler::Wget2 => command
                .args(["--recursive", "--level=inf", "--quiet"])
                .arg(format!("--max-threads={CRAWLERS}"))
                .arg(with_path("--input-file=", &self.path("homepages")))
                .arg(with_path("--directory-prefix=", output)),
            Crawler::Scrapy => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
                command
                    .arg(script.join("scrapy_peer.py"))
                    .args(self.homepages())
            }
        };
        command
    }

    /// Figures, or what has failed.
    fn run(&self, crawler: Crawler) -> Result<Figures, String> {
        let targets = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let output = tempfile::tempdir_in(targets).expect("a directory");
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| output.path().join(name));
        let server = self.server.process().parse().expect("a process id");
        // What was counted before, in training or by a program that was stopped.
        Counts::take(self.server.address);
        let before = process::cpu_time(server);
        let mut command = self.command(crawler, output.path());
        command.stdout(File::create(&stdout).expect("room on the disk"));
        command.stderr(File::create(&stderr).expect("room on the disk"));
        let Spent {
            status,
            wall,
            cpu,
            memory,
        } = process::run(&mut command, LONGEST);
        let server_cpu = process::cpu_time(server).saturating_sub(before);
        let counts = Counts::take(self.server.address);
        let read =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned();
        if !crawler.has_succeeded(status) {
            let name = crawler.name();
            return Err(format!("{name} has failed, {status}: {}", read(&stderr)));
        }
        let stdout = read(&stdout);
        if crawler == Crawler::Sitescout {
            let verdicts = stdout.lines().count();
            assert_eq!(verdicts, Hosts::Crawled.addresses().count(), "verdicts");
        }
        let received = (crawler == Crawler::SpiderSubscribed).then(|| {
            let pages = stdout
                .split(' ')
                .next()
                .and_then(|pages| pages.parse().ok());
            pages.expect("spider-peer prints a number of pages; `--install` builds this version")
        });
        Ok(Figures {
            counts,
            received,
            wall,
            cpu,
            server_cpu,
            memory,
        })
    }
}

/// An option with a path for its value.
fn with_path(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}
