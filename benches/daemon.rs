//! The daemon over many pages with several topics at once: does its memory stay flat?
//!
//! The program itself: `sitescout run` with its own settings, a web that `sitescout serve-web`
//! serves on loopback, with slow hosts and pages that fail, and models that `sitescout train`
//! made. The only input is what an operator sees: `/metrics`, once a second. The `soak` bench does
//! the same for one crawl in one process; here topics share slots, a store and a fetcher, with
//! all parts of the service running.
//!
//! What is printed, forty times during the run:
//! - `pages`, `judged`, `relevant`, `border`: requests, verdicts, relevant verdicts, sites in the
//!   border, all topics together
//! - `memory`, `files`, `threads`: of the process, from its metrics; there is no metric of tasks
//! - `busy`, `open`: busy internal crawlers, connections
//! - `slowest`: the longest response time of `/metrics` since the previous line
//!
//! Then a reload sets `wanted = 1` for every topic, and the same columns are printed for the idle
//! daemon. At the end it gets SIGTERM.
//!
//! What is checked, or the bench fails:
//! - all topics crawl until the end, and `/livez` responds with 200 every second
//! - when idle, no connection is open, and at most `RESTING_FILES` descriptors are
//! - it exits with 0 on SIGTERM
//!
//! Whether memory is flat is printed and not checked: the store keeps a table of its sites in
//! memory, which grows with every page.
//!
//! ```text
//! cargo bench --bench daemon                                   # 300,000 pages
//! cargo bench --bench daemon -- --pages 20000 --sites 20000    # a minute
//! cargo bench --bench daemon -- --minutes 10                   # as many as fit
//! ```
//!
//! The store is below `target` during the measurement.

#![allow(clippy::print_stdout, reason = "a bench prints its measurements")]
#![allow(
    clippy::cast_precision_loss,
    reason = "rates need no more than 52 bits"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sitescout::lab::generated::GeneratedWeb;
use sitescout::web::SiteId;
use tokio::time::Instant;

const PAGES: u64 = 300_000;
const SITES: u64 = 200_000;
const CRAWLERS: usize = 256;

/// The seed of the web.
const SEED: u64 = 1;

const TOPICS: [&str; 3] = ["sailing", "chess", "beekeeping"];

/// Training sites of each topic, and of others.
const LEARNED: (usize, usize) = (15, 90);

/// Number of lines printed.
const LINES: u32 = 40;

/// The first part of the run, in which caches fill and pools grow.
const WARM_UP: f64 = 0.25;

/// Largest relative difference of means after the warm-up that counts as flat.
const FLAT: f64 = 0.1;

/// Files of the store, sockets of the runtime, the log, probes.
const RESTING_FILES: f64 = 24.0;

/// Idle connections are closed by then, even on a busy machine.
const REST_TIMEOUT: Duration = Duration::from_mins(3);

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

fn main() {
    let options = Options::read();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let place = directory.path();
    learn(place, &options);
    let server = Process::start(
        place,
        &format!(
            "serve-web --sites {} --seed {SEED} --port 0 --latency 2ms --faults 0.005",
            options.sites
        ),
    );
    let web = server.wait_for_line(" sites at ");
    let (_, web) = web.split_once(" sites at ").expect("an address");
    let web = web.split(',').next().expect("an address");
    write_settings(place, web, &options);
    println!(
        "{} topics, {} pages of {} sites, {} crawlers",
        TOPICS.len(),
        options.pages,
        options.sites,
        options.crawlers
    );
    let mut daemon = Process::start(place, "run --config daemon.toml");
    let listening = daemon.wait_for_line("metrics and probes are served");
    let listening: Value = serde_json::from_str(&listening).expect("JSON");
    let address = listening["fields"]["address"].as_str();
    let address = address.expect("an address").to_owned();
    let watched = watch(&address, &options);
    print_flatness(&watched);
    rest(place, &address, &daemon, &options);
    daemon.signal("TERM");
    let status = daemon.child.wait().expect("an end");
    assert!(status.success(), "{status}");
}

struct Options {
    pages: u64,
    sites: u64,
    crawlers: usize,
    most: Duration,
}

/// A process of the program, killed on drop.
struct Process {
    child: Child,
    /// Its lines on standard error, which a thread drains.
    lines: std::sync::mpsc::Receiver<String>,
}

/// The metrics at one moment.
struct Sample {
    wall: Duration,
    figures: BTreeMap<String, f64>,
    /// Response time of `/metrics`.
    delay: Duration,
}

// === impl Options ===

impl Options {
    fn read() -> Self {
        let mut options = Self {
            pages: PAGES,
            sites: SITES,
            crawlers: CRAWLERS,
            most: Duration::MAX,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("a value");
            match argument.as_str() {
                "--pages" => options.pages = value().parse().expect("a number of pages"),
                "--sites" => options.sites = value().parse().expect("a number of sites"),
                "--crawlers" => options.crawlers = value().parse().expect("a number of crawlers"),
                "--minutes" => {
                    let minutes = value().parse().expect("a number of minutes");
                    options.most = Duration::from_mins(minutes);
                }
                // Added by `cargo bench`.
                "--bench" => {}
                other => panic!("unknown argument `{other}`"),
            }
        }
        options
    }
}

// === impl Process ===

impl Process {
    fn start(place: &Path, arguments: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sitescout"))
            .current_dir(place)
            .args(arguments.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a process");
        let errors = child.stderr.take().expect("it is piped");
        let (sender, lines) = std::sync::mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                // Verdicts are in the metrics.
                if !line.contains("\"judged\"") && sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line with this text.
    fn wait_for_line(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv().expect("it has not ended");
            if line.contains(text) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &process])
            .status();
        assert!(sent.expect("kill is there").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Sample ===

impl Sample {
    fn now(begun: Instant, address: &str) -> Self {
        let start = Instant::now();
        let (status, text) = get(address, "/metrics").expect("metrics");
        assert_eq!(status, 200);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let figures = lines.filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        });
        Self {
            wall: begun.elapsed(),
            figures: figures.collect(),
            delay: start.elapsed(),
        }
    }

    /// Sum of all series of a name whose labels contain `label`.
    fn sum(&self, name: &str, label: &str) -> f64 {
        let figures = self.figures.iter().filter(|(series, _)| {
            let own = series.split('{').next();
            own == Some(name) && series.contains(label)
        });
        figures.map(|(_, value)| value).sum()
    }

    fn pages(&self) -> f64 {
        self.sum("sitescout_pages_fetched_total", "")
    }

    fn memory(&self) -> f64 {
        self.sum("process_resident_memory_bytes", "")
    }

    fn files(&self) -> f64 {
        self.sum("process_open_fds", "")
    }

    fn connections(&self) -> f64 {
        self.sum("sitescout_connections_open", "")
    }

    /// Sites judged by this process, and those in the border.
    fn known(&self) -> f64 {
        self.sum("sitescout_sites_judged_total", "") + self.sum("sitescout_border_sites", "")
    }

    fn crawling(&self) -> f64 {
        self.sum("sitescout_topic_state", "state=\"crawling\"")
    }

    fn print_head() {
        println!(
            "{:>8} {:>5} {:>7} {:>8} {:>7} {:>7} {:>5} {:>7} {:>5} {:>5} {:>6} {:>8}",
            "pages",
            "s",
            "judged",
            "relevant",
            "border",
            "memory",
            "files",
            "threads",
            "busy",
            "open",
            "store",
            "slowest"
        );
        println!("{:>47} {:>32} {:>8}", "MB", "MB", "ms");
    }

    fn print(&self, slowest: Duration) {
        println!(
            "{:>8} {:>5.0} {:>7} {:>8} {:>7} {:>7.0} {:>5} {:>7} {:>5} {:>5} {:>6.0} {:>8.0}",
            self.pages(),
            self.wall.as_secs_f64(),
            self.sum("sitescout_sites_judged_total", ""),
            self.sum("sitescout_sites_judged_total", "verdict=\"relevant\""),
            self.sum("sitescout_border_sites", ""),
            self.memory() / 1e6,
            self.files(),
            self.sum("process_threads", ""),
            self.sum("sitescout_internal_crawlers_busy", ""),
            self.connections(),
            self.sum("sitescout_store_bytes", "") / 1e6,
            slowest.as_secs_f64() * 1e3,
        );
    }
}

/// Status and body.
fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((status.unwrap_or_default(), body.to_owned()))
}

/// Trains the topics with the program.
fn learn(place: &Path, options: &Options) {
    for topic in TOPICS {
        let labels: String = examples(topic, options)
            .iter()
            .flat_map(|(site, about)| [site.as_str(), "\t", about, "\n"])
            .collect();
        fs::write(place.join("labels.tsv"), labels).expect("room");
        let train = format!(
            "train {topic} --web generated:{},{SEED} --labels labels.tsv --out models",
            options.sites
        );
        let mut training = Process::start(place, &train);
        let status = training.child.wait().expect("an end");
        let errors: Vec<String> = training.lines.try_iter().collect();
        assert!(status.success(), "{errors:?}");
        write_topic(place, topic, options, "");
    }
}

fn examples(topic: &str, options: &Options) -> Vec<(SiteId, &'static str)> {
    let web = GeneratedWeb::new(options.sites, SEED);
    let examples = web.examples(topic, LEARNED.0, LEARNED.1);
    examples.expect("enough sites")
}

/// Writes the start sites and goals of a topic.
fn write_topic(place: &Path, topic: &str, options: &Options, goals: &str) {
    let starts = examples(topic, options);
    let starts = starts.iter().filter(|(_, about)| *about == topic);
    let starts: Vec<&str> = starts.map(|(site, _)| site.as_str()).collect();
    let text = format!("name = '{topic}'\nstart_sites = {starts:?}\n{goals}\n");
    let file = place.join("models").join(topic).join("topic.toml");
    fs::write(file, text).expect("room");
}

fn write_settings(place: &Path, web: &str, options: &Options) {
    let settings = format!(
        "[log]\nformat = 'json'\n\
         [fetch]\nresolve = [{{ host = '*', address = '{web}' }}]\n\
         [fetch.limits]\nfirst_byte = '2 s'\n\
         [fetch.politeness]\npause = '0 s'\naddress_interval = '0 s'\ncome_back = '1 min'\n\
         [external]\ncrawlers = {}\npprs_factor = 1000000.0\n\
         [service]\ntopics = {TOPICS:?}\nmodels = 'models'\nstate = 'state'\n\
         listen = '127.0.0.1:0'\n",
        options.crawlers
    );
    fs::write(place.join("daemon.toml"), settings).expect("room");
}

/// Samples until there are enough pages.
fn watch(address: &str, options: &Options) -> Vec<Sample> {
    let begun = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let (mut printed, mut slowest) = (0_u32, Duration::ZERO);
    Sample::print_head();
    loop {
        let sample = Sample::now(begun, address);
        assert_eq!(get(address, "/livez").expect("a probe").0, 200);
        let (pages, wall) = (sample.pages(), sample.wall);
        slowest = slowest.max(sample.delay);
        let is_enough = pages >= options.pages as f64 || wall >= options.most;
        let of_pages = pages / options.pages as f64;
        let of_time = wall.as_secs_f64() / options.most.as_secs_f64();
        if is_enough || of_pages.max(of_time) * f64::from(LINES) >= f64::from(printed + 1) {
            sample.print(slowest);
            (printed, slowest) = (printed + 1, Duration::ZERO);
        }
        let has_begun = samples.iter().any(|earlier| earlier.pages() > 0.0);
        if has_begun {
            let all = TOPICS.len() as f64;
            assert!(sample.crawling() >= all, "a topic has nothing left to do");
        }
        samples.push(sample);
        if is_enough {
            return samples;
        }
        thread::sleep(SAMPLE_INTERVAL);
    }
}

/// Prints how memory and descriptors developed after the warm-up.
fn print_flatness(samples: &[Sample]) {
    let last = samples.last().expect("samples");
    let is_late = |sample: &&Sample| sample.pages() >= WARM_UP * last.pages();
    let late: Vec<&Sample> = samples.iter().filter(is_late).collect();
    let seconds = last.wall.as_secs_f64();
    println!(
        "\n{:.0} pages in {seconds:.0} s: {:.0} pages/s, {} samples",
        last.pages(),
        last.pages() / seconds,
        samples.len()
    );
    let third = late.len() / 3;
    assert!(third > 0, "too few samples");
    let parts = [&late[..third], &late[third..2 * third], &late[2 * third..]];
    for (name, unit, of) in [
        ("memory", 1e6, Sample::memory as fn(&Sample) -> f64),
        ("files", 1.0, Sample::files),
    ] {
        let means = parts.map(|part| {
            let sum: f64 = part.iter().map(|sample| of(sample)).sum();
            sum / part.len() as f64 / unit
        });
        let growth = means[2] / means[0] - 1.0;
        let verdict = if growth.abs() <= FLAT {
            "flat"
        } else {
            "not flat"
        };
        println!(
            "{name:<7} after the warm-up, means of thirds: {:.0}, {:.0}, {:.0}: {:+.1} %, {verdict}",
            means[0],
            means[1],
            means[2],
            growth * 100.0
        );
    }
    println!(
        "        {:.0} bytes of memory more for each page, {:.0} for each known site of a topic",
        slope(&late, Sample::pages, Sample::memory),
        slope(&late, Sample::known, Sample::memory),
    );
}

/// Slope of `up` over `along`, by least squares.
fn slope(samples: &[&Sample], along: impl Fn(&Sample) -> f64, up: impl Fn(&Sample) -> f64) -> f64 {
    let number = samples.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(|at| of(at)).sum::<f64>() / number;
    let (middle, height) = (mean(&along), mean(&up));
    let covariance = mean(&|at| (along(at) - middle) * (up(at) - height));
    let variance = mean(&|at| (along(at) - middle).powi(2));
    covariance / variance
}

/// Lets all topics reach their goal, and prints what the idle daemon holds.
fn rest(place: &Path, address: &str, daemon: &Process, options: &Options) {
    for topic in TOPICS {
        write_topic(place, topic, options, "wanted = 1");
    }
    daemon.signal("HUP");
    let begun = Instant::now();
    let resting = loop {
        let sample = Sample::now(begun, address);
        let idle = sample.sum("sitescout_topic_state", "reason=\"wanted_reached\"");
        if idle >= TOPICS.len() as f64 && sample.connections() == 0.0 {
            break sample;
        }
        assert!(
            sample.wall < REST_TIMEOUT,
            "the daemon does not become idle"
        );
        thread::sleep(SAMPLE_INTERVAL);
    };
    println!("at rest after {:.0} s:", resting.wall.as_secs_f64());
    resting.print(resting.delay);
    assert!(
        resting.files() <= RESTING_FILES,
        "{} descriptors",
        resting.files()
    );
}
