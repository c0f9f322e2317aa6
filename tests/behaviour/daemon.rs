//! `sitescout run`: what systemd, Prometheus and an operator see of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sitescout::classify::SiteModel;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::crashes::{serve_many, site_name};
use crate::crawling::{Place, hosts, lines, text, topics};
use crate::exhaustion::serve;
use crate::pathologies::{Fault, Pathologies, Reply};

/// `WatchdogSec` of the unit, but shorter.
const WATCHDOG: Duration = Duration::from_secs(2);

/// A daemon that is silent for so long hangs.
pub(crate) const LONGEST: Duration = Duration::from_mins(2);

/// A running daemon, with its log and its notifications.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    /// Notifications to systemd. They are read all the time, as systemd does.
    notified: Receiver<String>,
    pub(crate) log: Receiver<Value>,
    /// Its log is not read while this is held.
    reading: Arc<Mutex<()>>,
    /// Address of its probes.
    address: String,
}

impl Daemon {
    pub(crate) fn start(place: &Place) -> Self {
        let socket = place.path("notify");
        let _ = fs::remove_file(&socket);
        let listener = UnixDatagram::bind(&socket).expect("a socket");
        let (hear, notified) = mpsc::channel();
        thread::spawn(move || {
            let mut message = [0; 4_096];
            while let Ok(length) = listener.recv(&mut message) {
                if hear.send(text(&message[..length])).is_err() {
                    return;
                }
            }
        });
        let mut command = place.command(&unit_command());
        command
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string())
            // If one thread is stuck there are others, however small the machine is.
            .env("TOKIO_WORKER_THREADS", "4")
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let errors = child.stderr.take().expect("a pipe");
        let (sender, log) = mpsc::channel();
        let reading = Arc::new(Mutex::new(()));
        let allowed = Arc::clone(&reading);
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(line).is_err() {
                    return;
                }
                drop(allowed.lock());
            }
        });
        let mut daemon = Self {
            child,
            notified,
            log,
            reading,
            address: String::new(),
        };
        let served = daemon.logs("metrics and probes are served");
        let address = served["fields"]["address"].as_str().expect("an address");
        address.clone_into(&mut daemon.address);
        daemon
    }

    /// Waits for a line of the log.
    pub(crate) fn logs(&self, message: &str) -> Value {
        let begin = Instant::now();
        loop {
            let left = LONGEST.saturating_sub(begin.elapsed());
            let line = self.log.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("never logged: {message}"));
            let logged = line["fields"]["message"].as_str().unwrap_or_default();
            if logged.contains(message) {
                return line;
            }
        }
    }

    /// Waits for a notification to systemd.
    pub(crate) fn notifies(&self, wanted: &str) -> String {
        let begin = Instant::now();
        loop {
            let left = LONGEST.saturating_sub(begin.elapsed());
            let state = self.notified.recv_timeout(left);
            let state = state.unwrap_or_else(|_| panic!("systemd is never notified of {wanted}"));
            if state.contains(wanted) {
                return state;
            }
        }
    }

    /// Waits for the next verdict on a site of a topic.
    pub(crate) fn judges(&self, topic: &str) -> String {
        loop {
            let judged = self.logs("judged");
            if judged["fields"]["topic"] == topic {
                return judged["fields"]["site"].to_string();
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([&format!("-{name}"), &process])
            .status();
        assert!(sent.expect("a shell").success());
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("a server");
        let request = format!("GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("a status"), answer)
    }

    /// Waits until the metrics contain a line.
    pub(crate) fn shows(&self, metric: &str) {
        let begin = Instant::now();
        loop {
            let (_, metrics) = self.get("/metrics");
            if metrics.lines().any(|line| line == metric) {
                return;
            }
            assert!(begin.elapsed() < LONGEST, "no {metric} in {metrics}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a process") {
                return status;
            }
            if begin.elapsed() > LONGEST {
                let _ = self.child.kill();
                panic!("it does not end");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line of the unit, with the settings of the test.
fn unit_command() -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/sitescout.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let (_, arguments) = start
        .expect("a command")
        .split_once(' ')
        .expect("arguments");
    let ours = arguments.replace("/etc/sitescout/config.toml", "daemon.toml");
    assert_ne!(ours, arguments, "the settings of the unit are elsewhere");
    ours
}

/// A place with two topics, and settings that lead to a web on loopback.
pub(crate) fn place() -> (Runtime, Pathologies, Place) {
    let (runtime, web) = serve();
    let place = Place::new();
    topics(&place, &[("boats", ""), ("few", "wanted = 2")]);
    settings(&place, &web, "", "");
    (runtime, web, place)
}

pub(crate) fn settings(place: &Place, web: &Pathologies, service: &str, more: &str) {
    let settings = format!(
        "[log]\nformat = 'json'\n\
         [fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
         [fetch.politeness]\npause = '0 s'\n\
         [service]\ntopics = ['boats', 'few']\nmodels = 'models'\nlisten = '127.0.0.1:0'\n\
         {service}\n[api]\nlisten = '127.0.0.1:0'\n{more}\n",
        web.http()
    );
    fs::write(place.path("daemon.toml"), settings).expect("settings");
}

/// The settings with other topics.
fn set_topics(place: &Place, topics: &str) {
    let all = fs::read_to_string(place.path("daemon.toml")).expect("settings");
    let other = all.replace("topics = ['boats', 'few']", &format!("topics = [{topics}]"));
    assert_ne!(other, all);
    fs::write(place.path("daemon.toml"), other).expect("settings");
}

/// The metrics of the state of the only topic.
pub(crate) fn topic_states(topic: &str) -> String {
    let (_runtime, _web, place) = place();
    topics(&place, &[(topic, "wanted = 1")]);
    set_topics(&place, &format!("'{topic}'"));
    let daemon = Daemon::start(&place);
    daemon.shows(&format!(
        "sitescout_topic_state{{reason=\"wanted_reached\",state=\"idle\",topic=\"{topic}\"}} 1"
    ));
    let (_, metrics) = daemon.get("/metrics");
    let states = metrics.split_inclusive('\n');
    let states = states.filter(|line| line.contains("sitescout_topic_state"));
    states.collect()
}

const IDLE: [&str; 2] = [
    "sitescout_topic_state{reason=\"border_empty\",state=\"idle\",topic=\"boats\"} 1",
    "sitescout_topic_state{reason=\"wanted_reached\",state=\"idle\",topic=\"few\"} 1",
];

#[test]
fn a_daemon_reports_its_state_and_keeps_what_it_found() {
    let (_runtime, _web, place) = place();
    let daemon = Daemon::start(&place);
    daemon.notifies("READY=1");
    assert_eq!(daemon.get("/readyz").0, 200);
    assert_eq!(daemon.get("/livez").0, 200);
    let judged = daemon.logs("judged");
    assert!(judged["fields"]["site"].is_string(), "{judged}");
    for metric in IDLE {
        daemon.shows(metric);
    }
    daemon.shows("sitescout_topic_state{reason=\"none\",state=\"crawling\",topic=\"boats\"} 0");
    let (_, metrics) = daemon.get("/metrics");
    assert!(!metrics.contains(".example"), "a host among the metrics");
    if let Some(file) = std::env::var_os("SITESCOUT_KEEP_FIGURES") {
        let (_, body) = metrics.split_once("\r\n\r\n").expect("a body");
        fs::write(file, body).expect("room for metrics");
    }
    daemon.notifies("few idle: wanted reached");
    // An idle daemon keeps sending heartbeats to systemd, for longer than its loops sleep.
    let fed = (0..16).map(|_| daemon.notifies("WATCHDOG=1"));
    assert_eq!(fed.count(), 16);
    assert_eq!(daemon.get("/livez").0, 200);
    daemon.signal("TERM");
    daemon.notifies("STOPPING=1");
    assert!(daemon.end().success());
    let found = |topic: &str| {
        let export = format!("export --topic {topic} --format jsonl --state state");
        hosts(&lines(&place.run(&export)))
    };
    let crawl = "crawl boats --json --models models --web warc:coast.warc.gz --state other";
    let mut alone: Vec<String> = lines(&place.run(crawl))
        .into_iter()
        .filter(|line| line["verdict"] == "relevant")
        .map(|line| line["host"].as_str().expect("a host").to_owned())
        .collect();
    alone.sort();
    let mut boats = found("boats");
    boats.sort();
    assert_eq!(boats, alone);
    assert!(found("few").len() < boats.len());
}

#[test]
fn a_daemon_takes_up_new_settings_or_stays_as_it_was() {
    let (_runtime, web, place) = place();
    let daemon = Daemon::start(&place);
    daemon.notifies("READY=1");
    for metric in IDLE {
        daemon.shows(metric);
    }
    fs::write(place.path("daemon.toml"), "[service]\ntopic = 1\n").expect("settings");
    daemon.signal("HUP");
    daemon.notifies("RELOADING=1");
    let logged = daemon.logs("not reloaded");
    assert!(
        logged["fields"]["error"]
            .as_str()
            .expect("why")
            .contains("did you mean `topics`"),
        "{logged}"
    );
    daemon.notifies("READY=1");
    // A missing model does not stop it either.
    settings(&place, &web, "", "");
    let model = place.path("models/few/site-model.bin");
    let bytes = fs::read(&model).expect("a model");
    fs::remove_file(&model).expect("a model");
    daemon.signal("HUP");
    daemon.logs("not reloaded");
    fs::write(&model, bytes).expect("a model");
    // `wanted` is raised, and settings that cannot be reloaded are logged at each reload.
    topics(&place, &[("few", "wanted = 100")]);
    for _ in 0..2 {
        settings(&place, &web, "", "[store]\ncache_bytes = '64 MiB'\n");
        daemon.signal("HUP");
        daemon.logs("[store] has changed");
        daemon.logs("reloaded");
    }
    daemon.judges("few");
    daemon.shows("sitescout_topic_state{reason=\"border_empty\",state=\"idle\",topic=\"few\"} 1");
    // A topic that is removed stops, and starts again when it is added back.
    let boats = "sitescout_topic_state{reason=\"border_empty\",state=\"idle\",topic=\"boats\"} 1";
    let all = fs::read_to_string(place.path("daemon.toml")).expect("settings");
    let one = all.replace("topics = ['boats', 'few']", "topics = ['few']");
    assert_ne!(one, all);
    fs::write(place.path("daemon.toml"), one).expect("settings");
    daemon.signal("HUP");
    daemon.notifies("STATUS=1 topic, ");
    let (_, metrics) = daemon.get("/metrics");
    assert!(
        !metrics
            .contains("sitescout_topic_state{reason=\"none\",state=\"crawling\",topic=\"boats\"}")
    );
    fs::write(place.path("daemon.toml"), all).expect("settings");
    daemon.signal("HUP");
    daemon.notifies("STATUS=2 topics, ");
    daemon.shows(boats);
    daemon.signal("INT");
    assert!(daemon.end().success());
    let found = |topic: &str| {
        let export = format!("export --topic {topic} --format jsonl --state state");
        let mut hosts = hosts(&lines(&place.run(&export)));
        hosts.sort();
        hosts
    };
    assert_eq!(found("few"), found("boats"));
}

/// A notification socket that is never read must not hold up the service.
#[test]
fn a_daemon_ends_although_systemd_does_not_listen() {
    let (_runtime, _web, place) = place();
    let socket = place.path("deaf");
    let _deaf = UnixDatagram::bind(&socket).expect("a socket");
    let mut command = place.command("run --config daemon.toml");
    command
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "40000")
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let errors = child.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
    // Far more is sent until then than the socket buffers.
    assert!(lines.any(|line| line.contains("idle")));
    assert!(lines.any(|line| line.contains("idle")));
    thread::sleep(Duration::from_secs(1));
    let process = child.id().to_string();
    let sent = std::process::Command::new("kill").arg(&process).status();
    assert!(sent.expect("a shell").success());
    // Standard error ends with the process.
    thread::spawn(move || lines.count());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a process") {
            break status;
        }
        if begin.elapsed() > LONGEST {
            let _ = child.kill();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success());
}

/// A site that is due again and again does not wake topics that have reached `wanted`, and wakes
/// others only every few seconds.
#[test]
fn a_daemon_rests_although_a_site_is_due() {
    let (_runtime, web, place) = place();
    // It is busy, with a `Retry-After`.
    web.script("gulls-dinghy.example", |_, _| {
        Reply::status(503).header("retry-after", "1")
    });
    topics(&place, &[("few", "wanted = 1")]);
    let settings = fs::read_to_string(place.path("daemon.toml")).expect("settings");
    let settings = settings.replace("pause = '0 s'", "pause = '0 s'\nlongest_wait = '0 s'");
    fs::write(place.path("daemon.toml"), settings).expect("settings");
    let daemon = Daemon::start(&place);
    daemon.shows(IDLE[1]);
    let mut idle = 0;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        let Ok(line) = daemon.log.recv_timeout(Duration::from_secs(1)) else {
            continue;
        };
        idle += usize::from(line["fields"]["message"] == "idle");
    }
    assert!(idle <= 8, "it wakes all the time: {idle}");
}

#[test]
fn a_daemon_without_room_on_the_disk_pauses_until_there_is() {
    let (_runtime, web, place) = place();
    settings(&place, &web, "low_disk = '1 PiB'", "");
    let daemon = Daemon::start(&place);
    let paused = "sitescout_topic_state{reason=\"low_disk\",state=\"idle\",topic=\"boats\"} 1";
    daemon.shows(paused);
    daemon.notifies("READY=1");
    daemon.notifies("boats idle: low disk");
    assert_eq!(web.connections_accepted(), 0, "no request meanwhile");
    settings(&place, &web, "low_disk = '0'", "");
    daemon.signal("HUP");
    for metric in IDLE {
        daemon.shows(metric);
    }
}

/// A place with two topics on a web that takes a while to crawl.
pub(crate) fn large_place() -> (Runtime, Pathologies, Place) {
    let (runtime, web) = serve_many();
    let place = Place::new();
    topics(&place, &[("boats", ""), ("few", "")]);
    for topic in ["boats", "few"] {
        let text = format!("name = '{topic}'\nstart_sites = ['{}']\n", site_name(0));
        fs::write(place.path("models").join(topic).join("topic.toml"), text).expect("a topic");
    }
    settings(&place, &web, "", "[external]\ncrawlers = 4\n");
    (runtime, web, place)
}

/// The procedure of the operations guide: halt, copy, go on; export the copy, import it elsewhere.
#[test]
fn a_copy_of_a_halted_daemon_is_a_backup() {
    let (_runtime, _web, place) = large_place();
    let daemon = Daemon::start(&place);
    let seen: Vec<String> = (0..12).map(|_| daemon.judges("boats")).collect();
    daemon.signal("STOP");
    let mut copying = std::process::Command::new("cp");
    let copying = copying
        .arg("-a")
        .args(["state", "copy"].map(|name| place.path(name)));
    assert!(copying.status().expect("a shell").success());
    daemon.signal("CONT");
    for command in [
        "export --everything --state copy --out backup.jsonl",
        "import backup.jsonl --state restored",
    ] {
        let output = place.run(command);
        assert!(
            output.status.success(),
            "{command}: {}",
            text(&output.stderr)
        );
    }
    let all = |state: &str| {
        let export = format!("export --topic boats --format jsonl --all --state {state}");
        hosts(&lines(&place.run(&export)))
    };
    let restored = all("restored");
    assert_eq!(restored, all("copy"));
    let lost = seen.iter().map(|site| site.trim_matches('"'));
    let lost: Vec<&str> = lost
        .filter(|site| !restored.iter().any(|host| host == site))
        .collect();
    assert_eq!(lost, [""; 0]);
    daemon.judges("boats");
    daemon.signal("TERM");
    assert!(daemon.end().success());
}

#[test]
fn a_daemon_that_is_killed_goes_on_and_judges_nothing_twice() {
    let (_runtime, _web, place) = large_place();
    let mut seen = Vec::new();
    let note = |line: &Value, seen: &mut Vec<(String, String)>| {
        let fields = &line["fields"];
        if fields["message"] == "judged" {
            seen.push((fields["topic"].to_string(), fields["site"].to_string()));
        }
    };
    for _ in 0..8 {
        let mut daemon = Daemon::start(&place);
        for _ in 0..8 {
            note(&daemon.logs("judged"), &mut seen);
        }
        daemon.child.kill().expect("a process");
        let _ = daemon.child.wait();
        // Lines logged before it died count, too.
        while let Ok(line) = daemon.log.recv_timeout(LONGEST) {
            note(&line, &mut seen);
        }
    }
    let daemon = Daemon::start(&place);
    daemon.judges("boats");
    daemon.signal("TERM");
    while let Ok(line) = daemon.log.recv_timeout(LONGEST) {
        note(&line, &mut seen);
    }
    assert!(daemon.end().success());
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all, "judged twice");
    for topic in ["boats", "few"] {
        let export = format!("export --topic {topic} --format jsonl --all --state state");
        let kept = hosts(&lines(&place.run(&export)));
        let lost = seen.iter().filter(|(own, site)| {
            own.trim_matches('"') == topic
                && !kept.iter().any(|host| host == site.trim_matches('"'))
        });
        assert_eq!(lost.count(), 0, "{topic}");
    }
}

/// `systemctl stop` may come at any time, also while verdicts are written.
#[test]
fn a_daemon_that_is_stopped_again_and_again_keeps_what_it_logged_and_judges_nothing_twice() {
    let (_runtime, web, place) = large_place();
    // Visits are broken off, so that the daemon ends while work is under way.
    settings(
        &place,
        &web,
        "",
        "[external]\ncrawlers = 4\ndrain = '0 s'\n",
    );
    let mut logged: Vec<(String, String, u64)> = Vec::new();
    for round in 0..20_u64 {
        let daemon = Daemon::start(&place);
        let mut note = |line: &Value| {
            let fields = &line["fields"];
            if fields["message"] == "judged" {
                let text = |name: &str| fields[name].as_str().expect("a text").to_owned();
                let number = fields["seq"].as_u64().expect("a number");
                logged.push((text("topic"), text("site"), number));
            }
        };
        for _ in 0..=round % 4 {
            note(&daemon.logs("judged"));
        }
        thread::sleep(Duration::from_millis(round * 7 % 40));
        daemon.signal("TERM");
        while let Ok(line) = daemon.log.recv_timeout(LONGEST) {
            note(&line);
        }
        assert!(daemon.end().success(), "round {round}");
    }
    let mut kept: Vec<(String, String, u64)> = Vec::new();
    for topic in ["boats", "few"] {
        let export = format!("export --topic {topic} --format jsonl --all --state state");
        for line in lines(&place.run(&export)) {
            let host = line["host"].as_str().expect("a host").to_owned();
            kept.push((
                topic.to_owned(),
                host,
                line["seq"].as_u64().expect("a number"),
            ));
        }
    }
    logged.sort();
    kept.sort();
    // After an orderly end, every verdict in the store was logged.
    assert_eq!(logged, kept);
    let mut sites: Vec<(String, String)> = Vec::new();
    sites.extend(
        kept.iter()
            .map(|(topic, site, _)| (topic.clone(), site.clone())),
    );
    sites.dedup();
    assert_eq!(sites.len(), kept.len(), "judged twice");
    let mut numbers: Vec<u64> = kept.iter().map(|(_, _, number)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=kept.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_daemon_judges_by_another_model_after_a_reload() {
    let (_runtime, web, place) = place();
    settings(
        &place,
        &web,
        "",
        "[external]\nold_verdicts = 'rejudge-all'\n",
    );
    let daemon = Daemon::start(&place);
    for metric in IDLE {
        daemon.shows(metric);
    }
    let fingerprint = |model: &Path| {
        let bytes = fs::read(model).expect("a model");
        let model = SiteModel::from_bytes(&bytes).expect("a model");
        model.fingerprint().to_string()
    };
    let own = place.path("models/boats/site-model.bin");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models/law_firm/site-model.bin");
    let (old, new) = (fingerprint(&own), fingerprint(&other));
    assert_ne!(old, new);
    let irrelevant = || {
        let series = "sitescout_sites_judged_total{topic=\"boats\",verdict=\"irrelevant\"}";
        let (_, metrics) = daemon.get("/metrics");
        let line = metrics.lines().find(|line| line.starts_with(series));
        line.map(str::to_owned)
    };
    let before = irrelevant();
    fs::copy(&other, &own).expect("a model");
    daemon.signal("HUP");
    let begin = Instant::now();
    // The irrelevant count changes once the new model is in use; then it becomes idle.
    while irrelevant() == before {
        assert!(begin.elapsed() < LONGEST, "{before:?}");
        thread::sleep(Duration::from_millis(20));
    }
    daemon.shows(IDLE[0]);
    daemon.signal("TERM");
    assert!(daemon.end().success());
    let verdicts = |topic: &str| {
        let export = format!("export --topic {topic} --format jsonl --all --state state");
        let mut lines = lines(&place.run(&export));
        lines.retain(|line| line["verdict"] != "undecided");
        assert!(lines.len() > 2, "{lines:?}");
        lines
    };
    for line in verdicts("boats") {
        assert_eq!(line["model"], new, "{line}");
        assert_eq!(
            line["verdict"], "irrelevant",
            "no site is about the law: {line}"
        );
    }
    for line in verdicts("few") {
        assert_eq!(line["model"], old, "{line}");
    }
}

/// The whole web is slow, and at last it does not answer at all.
#[test]
fn a_daemon_on_a_slow_web_is_alive_and_stops_all_the_same() {
    let (_runtime, web, place) = large_place();
    // The others take an hour to respond: a stop that waited for them would take that long.
    let hour = Duration::from_hours(1);
    for number in 0..8 {
        let links = (1..8).map(|next| format!("<a href='http://{}/'>next</a>", site_name(next)));
        let page: String = links.collect();
        let wait = match number {
            0 => Duration::from_secs(3),
            _ => hour,
        };
        web.script(&site_name(number), move |target, _| match target {
            "/robots.txt" => Reply::status(404),
            _ => Reply::html(page.clone()).after(wait),
        });
    }
    settings(
        &place,
        &web,
        "",
        "[external]\ncrawlers = 4\ndrain = '1 s'\n[fetch.limits]\nfirst_byte = '1 h'\n",
    );
    let daemon = Daemon::start(&place);
    daemon.judges("boats");
    // For longer than one pass of a loop may take.
    let fed = (0..70).map(|_| daemon.notifies("WATCHDOG=1"));
    assert_eq!(fed.count(), 70);
    assert_eq!(daemon.get("/livez").0, 200);
    assert_eq!(daemon.get("/readyz").0, 200);
    daemon.shows("sitescout_topic_state{reason=\"none\",state=\"crawling\",topic=\"boats\"} 1");
    daemon.signal("TERM");
    daemon.notifies("STOPPING=1");
    assert!(daemon.end().success());
    // The sites under way stay in the store and are visited later.
    let totals = place.run("export --everything --state state");
    let dump = text(&totals.stdout);
    for number in 1..8 {
        assert!(dump.contains(&site_name(number)), "{dump}");
    }
    let judged = place.run("export --topic boats --format jsonl --all --state state");
    assert_eq!(hosts(&lines(&judged)), [site_name(0)]);
}

/// Servers that stall, drip, flood and lie, and pages that are hard to read: none of them keeps a
/// daemon from ending.
#[test]
#[allow(clippy::print_stdout, reason = "how long it took is worth knowing")]
fn a_daemon_stops_in_time_whatever_it_is_visiting() {
    let (_runtime, web, place) = large_place();
    let mut starts: Vec<String> = Fault::ALL.iter().map(|fault| fault.host()).collect();
    let words = (0..1_000_000_u32).map(|number| format!("w{number:x}"));
    let words = words.collect::<Vec<_>>().join(" ");
    for number in 0..16 {
        let (host, words) = (format!("words-{number}.example"), words.clone());
        web.script(&host, move |target, _| match target {
            "/robots.txt" => Reply::status(404),
            _ => Reply::html(words.clone()),
        });
        starts.push(host);
    }
    let starts = starts.iter().map(|host| format!("'{host}'"));
    let starts = starts.collect::<Vec<_>>().join(", ");
    let topic = format!("name = 'boats'\nstart_sites = [{starts}]\n");
    fs::write(place.path("models/boats/topic.toml"), topic).expect("a topic");
    settings(
        &place,
        &web,
        "",
        "[external]\ncrawlers = 100\ndrain = '1 s'\n",
    );
    for after in [1, 5] {
        let daemon = Daemon::start(&place);
        daemon.notifies("READY=1");
        // In the middle of everything.
        thread::sleep(Duration::from_secs(after));
        let asked = Instant::now();
        daemon.signal("TERM");
        assert!(daemon.end().success());
        let took = asked.elapsed();
        println!(
            "stopped {:.1} s after it was asked to, drain 1 s",
            took.as_secs_f64()
        );
        assert!(took < 10 * Duration::from_secs(1 + 5), "{took:?}");
    }
}

/// The log is not read, the pipe is full, and the loop that writes a line blocks for ever: the
/// simplest way to make a loop hang from outside.
#[test]
fn a_daemon_whose_loop_is_stuck_does_not_feed_the_watchdog() {
    let (_runtime, _web, place) = large_place();
    // With two topics all threads could be stuck, and none would be left to report it.
    set_topics(&place, "'boats'");
    let daemon = Daemon::start(&place);
    daemon.notifies("WATCHDOG=1");
    let reading = Arc::clone(&daemon.reading);
    let unread = reading.lock().expect("no panic");
    let begin = Instant::now();
    let body = loop {
        let (status, body) = daemon.get("/livez");
        if status != 200 {
            break body;
        }
        assert!(begin.elapsed() < LONGEST, "it is never stuck");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(
        body.contains("503") && body.contains("stuck: topic boats"),
        "{body}"
    );
    // Notifications already sent may still arrive; after that, systemd would time out.
    thread::sleep(WATCHDOG / 2);
    let is_heartbeat = |state: &String| state.contains("WATCHDOG=1");
    let late = daemon.notified.try_iter().filter(is_heartbeat).count();
    assert!(late > 0, "it was fed before");
    thread::sleep(2 * WATCHDOG);
    assert_eq!(daemon.notified.try_iter().filter(is_heartbeat).count(), 0);
    // Once its loop goes on, it is alive again.
    drop(unread);
    let stuck = daemon.logs("the watchdog gets no heartbeat");
    assert_eq!(stuck["fields"]["loops"], "topic boats");
    daemon.notifies("WATCHDOG=1");
    assert_eq!(daemon.get("/livez").0, 200);
    daemon.signal("TERM");
    assert!(daemon.end().success());
}

#[test]
fn nothing_is_touched_before_everything_is_right() {
    let (_runtime, web, place) = place();
    let begin = |settings: &str| {
        fs::write(place.path("wrong.toml"), settings).expect("settings");
        let output = place.run("run --config wrong.toml");
        assert!(!place.path("state").exists(), "{settings}");
        (output.status.code(), text(&output.stderr))
    };
    let lead = format!(
        "[fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n",
        web.http()
    );
    for (settings, why) in [
        (
            "[service]\ntopics = []\n".to_owned(),
            "nothing to crawl for",
        ),
        (
            "[service]\ntopics = ['boats']\nmodels = 'models'\n".to_owned(),
            "without a contact",
        ),
        (
            format!("{lead}[service]\ntopics = ['golf']\nmodels = 'models'\n"),
            "the topic golf cannot be crawled for",
        ),
        (
            format!("{lead}[service]\ntopics = ['few', 'few']\nmodels = 'models'\n"),
            "named twice",
        ),
        (
            format!(
                "{lead}[external]\nstrategy = 'paper'\n\
                 [service]\ntopics = ['few']\nmodels = 'models'\n"
            ),
            "`sitescout train few --page-classifier centroid`",
        ),
        (
            "[service]\nlisten = 'here'\n".to_owned(),
            "an address with a port",
        ),
    ] {
        let (status, stderr) = begin(&settings);
        assert!(stderr.contains(why), "{settings}: {stderr}");
        assert_eq!(status, Some(78), "{stderr}");
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = port.local_addr().expect("an address");
    let (_, stderr) = begin(&format!(
        "{lead}[service]\ntopics = ['few']\nmodels = 'models'\nlisten = '{taken}'\n"
    ));
    assert!(stderr.contains("set `listen` in [service]"), "{stderr}");
    let output = place.run("run --config daemon.toml --check");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!place.path("state").exists());
}
