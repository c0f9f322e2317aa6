//! Crawls on a machine that runs out of a resource: little memory, a full disk, a read-only disk, no
//! file descriptors, no name server.
//!
//! Every case uses the limits of the shell (`ulimit`), which work everywhere. Where an ordinary user
//! may mount file systems, a real disk is filled as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sitescout::fetch::Archive;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::crawling::{Place, lines, text};
use crate::name_server::{Answer, Log, NameServer};
use crate::pathologies::{Fault, Pathologies, Reply};
use crate::recording::answer;
use crate::skips::skipped;
use crate::{fixture, without_index};

/// Why a real disk is not filled.
const NO_MOUNTS: &str = "this machine does not let us mount a file system";

/// `EX_IOERR` of sysexits.h.
const DISK: i32 = 74;

/// Far more than anything here takes: a process that needs longer hangs.
pub(crate) const LONGEST: Duration = Duration::from_mins(3);

/// The sites of the small archive on loopback, slow enough to be interrupted.
pub(crate) fn serve() -> (Runtime, Pathologies) {
    let runtime = Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    let archive = Archive::open(&[fixture("coast.warc.gz")], &without_index());
    let archive = archive.expect("the small archive");
    for (site, _) in archive.sites() {
        let (archive, host) = (archive.clone(), site.to_string());
        web.script(site.as_str(), move |target, _| {
            answer(&archive, &host, target).after(Duration::from_millis(5))
        });
    }
    for host in ["lost-marina.example", "pier-nine-chandlery.example"] {
        web.script(host, |_, _| Reply::status(404));
    }
    (runtime, web)
}

/// Runs until the process ends by itself.
fn ended(command: &mut Command) -> Output {
    ended_after(command, |_| {})
}

/// The same, after something is done to the process.
fn ended_after(command: &mut Command, doing: impl FnOnce(u32)) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("a process");
    let process = child.id();
    let (sender, output) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    doing(process);
    let Ok(output) = output.recv_timeout(LONGEST) else {
        let _ = Command::new("kill")
            .args(["-9", &process.to_string()])
            .status();
        panic!("it hangs: {command:?}");
    };
    output.expect("an end")
}

/// The program with these arguments, in the process of a shell that has set limits first.
fn within(place: &Place, limits: &str, arguments: &str) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("{limits} && exec \"$0\" {arguments}");
    shell
        .current_dir(place.path(""))
        .args(["-c", &script, env!("CARGO_BIN_EXE_sitescout")]);
    shell
}

fn limited(place: &Place, limits: &str, arguments: &str) -> Output {
    ended(&mut within(place, limits, arguments))
}

fn unlimited(place: &Place, arguments: &str) -> Output {
    limited(place, "true", arguments)
}

/// Runs a script in which file systems can be mounted, if this machine lets us.
fn with_mounts(place: &Place, script: &str) -> Option<Output> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .current_dir(place.path(""))
            .args(["-rm", "sh", "-ec", script])
            .arg(env!("CARGO_BIN_EXE_sitescout"));
        command
    };
    let trial = "mkdir mounted; mount -t tmpfs none mounted; umount mounted; rmdir mounted";
    let can = unshare(trial).output();
    if !can.is_ok_and(|trial| trial.status.success()) {
        return None;
    }
    let output = ended(&mut unshare(script));
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(output)
}

/// The settings that lead all of `*.example` to a web on loopback.
fn lead_to(web: &Pathologies, place: &Place) {
    let settings = format!(
        "[fetch]\nresolve = [{{ host = '*.example', address = '{}' }}]\n\
         [fetch.politeness]\npause = '0 s'\n",
        web.http()
    );
    fs::write(place.path("live.toml"), settings).expect("settings");
}

/// A crawl that visits one site after the other, always in the same order.
fn crawl(state: &str) -> String {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models");
    format!(
        "crawl sailing --json --config live.toml --crawlers 1 --models '{}' --state {state}",
        models.display()
    )
}

/// The same without a web to be served.
fn crawl_archive(state: &str) -> String {
    crawl(state).replace("--config live.toml", "--web warc:coast.warc.gz")
}

fn export(state: &str) -> String {
    format!("export --topic sailing --format jsonl --all --state {state}")
}

/// JSON Lines, whatever the exit code was.
fn shown(output: &str) -> Vec<Value> {
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn assert_disk_error(code: Option<i32>, stderr: &str, wanted: &[&str]) {
    assert_eq!(code, Some(DISK), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    for wanted in wanted {
        assert!(stderr.contains(wanted), "{stderr}");
    }
}

/// What was shown before the disk was full is kept, and going on gives the rest.
fn assert_nothing_lost(whole: &[Value], before: &[Value], kept: &[Value], after: &[Value]) {
    let judged = |line: &Value| {
        let fields = ["seq", "host", "verdict", "confidence", "pages"];
        fields.map(|field| line[field].clone())
    };
    let kept: Vec<_> = kept.iter().map(judged).collect();
    for verdict in before {
        assert!(kept.contains(&judged(verdict)), "{verdict} was shown");
    }
    let both: Vec<_> = before.iter().chain(after).map(judged).collect();
    let whole: Vec<_> = whole.iter().map(judged).collect();
    assert_eq!(both, whole, "all of them, each once, in the same order");
}

// === little memory ===

/// Bodies of some fifty bytes whose windows take gigabytes together.
#[test]
fn windows_of_many_hosts_need_little_memory() {
    const HOSTS: usize = 64;
    let runtime = Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    let place = Place::new();
    lead_to(&web, &place);
    let settings = fs::read_to_string(place.path("live.toml")).expect("settings");
    // Decoders are what is limited here, and not pages.
    let settings = settings.replace("[fetch]\n", "[fetch]\nbody_bytes = '256 KiB'\n");
    fs::write(place.path("live.toml"), settings).expect("settings");
    let faults = [Fault::LargeWindow, Fault::BrotliBomb, Fault::ZstdBomb];
    let hosts = faults.iter().flat_map(|fault| {
        (0..HOSTS).map(|host| format!("http://{}.host{host}.example/\n", fault.name()))
    });
    fs::write(place.path("hosts.txt"), hosts.collect::<String>()).expect("hosts");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("site-models/sailing");
    let classify = format!(
        "classify --json --config live.toml --model '{}' --hosts hosts.txt",
        model.display()
    );
    let judged = limited(&place, "ulimit -v 1400000", &classify);
    let stderr = text(&judged.stderr);
    assert!(judged.status.success(), "{:?}: {stderr}", judged.status);
    assert!(
        !stderr.contains("memory") && !stderr.contains("internal error"),
        "{stderr}"
    );
    assert_eq!(lines(&judged).len(), faults.len() * HOSTS);
}

// === no room ===

#[test]
fn a_file_that_may_not_grow_ends_the_crawl_and_loses_nothing() {
    let (_runtime, web) = serve();
    let place = Place::new();
    lead_to(&web, &place);
    let whole = lines(&unlimited(&place, &crawl("whole")));
    let blocks = size_of_log(&place, "whole") / 512;
    let mut ends = BTreeSet::new();
    for share in 1..=9 {
        let state = format!("at-{share}");
        // A process that does not ignore the signal is killed by it, like by any other.
        // How large the log becomes depends on which commands share a commit, by some 15 %.
        let limit = format!("trap '' XFSZ && ulimit -f {}", blocks * share / 12);
        let stopped = limited(&place, &limit, &crawl(&state));
        let stderr = text(&stopped.stderr);
        let wanted = ["the disk is full", &state, "make room"];
        assert_disk_error(stopped.status.code(), &stderr, &wanted);
        let before = shown(&text(&stopped.stdout));
        ends.insert(before.len());
        // A retry without more room does no harm.
        let again = limited(&place, &limit, &crawl(&state));
        assert_disk_error(again.status.code(), &text(&again.stderr), &wanted);
        assert_eq!(text(&again.stdout), "");
        let kept = lines(&unlimited(&place, &export(&state)));
        let after = lines(&unlimited(&place, &crawl(&state)));
        assert_nothing_lost(&whole, &before, &kept, &after);
    }
    assert!(ends.len() > 4, "stopped at different moments: {ends:?}");
}

#[test]
fn a_full_disk_ends_the_crawl_and_loses_nothing() {
    let (_runtime, web) = serve();
    let place = Place::new();
    lead_to(&web, &place);
    let whole = lines(&unlimited(&place, &crawl("whole")));
    let kilobytes = size_of_log(&place, "whole") >> 10;
    let mut ends = BTreeSet::new();
    for share in 1..=4 {
        let script = format!(
            "mkdir -p small; mount -t tmpfs -o size={}k none small\n\
             code=0; \"$0\" {crawl} > before 2> errors || code=$?; echo $code > code\n\
             code=0; \"$0\" {crawl} > again 2> errors-again || code=$?; echo $code >> code\n\
             mount -o remount,size=64m small\n\
             \"$0\" {export} > kept\n\
             \"$0\" {crawl} > after",
            kilobytes * share / 6 + 8,
            crawl = crawl("small/state"),
            export = export("small/state"),
        );
        if with_mounts(&place, &script).is_none() {
            return skipped!(NO_MOUNTS);
        }
        let read = |name: &str| fs::read_to_string(place.path(name)).expect("a file");
        let codes: Vec<Option<i32>> = read("code").lines().map(|code| code.parse().ok()).collect();
        let wanted = ["the disk is full", "small/state", "make room"];
        assert_disk_error(codes[0], &read("errors"), &wanted);
        assert_disk_error(codes[1], &read("errors-again"), &wanted);
        let [before, again, kept, after] =
            ["before", "again", "kept", "after"].map(|name| shown(&read(name)));
        ends.insert(before.len());
        assert!(again.is_empty(), "{again:?}");
        assert_nothing_lost(&whole, &before, &kept, &after);
    }
    assert!(ends.len() > 2, "stopped at different moments: {ends:?}");
}

#[test]
fn an_import_that_fills_the_disk_says_what_is_left_of_it() {
    let place = Place::new();
    lines(&unlimited(&place, &crawl_archive("whole")));
    let dump = unlimited(&place, "export --everything --state whole");
    fs::write(place.path("dump.jsonl"), dump.stdout).expect("a dump");
    let limit = "trap '' XFSZ && ulimit -f 20";
    let stopped = limited(&place, limit, "import dump.jsonl --state copy");
    let wanted = ["copy holds a part only", "the disk is full"];
    assert_disk_error(stopped.status.code(), &text(&stopped.stderr), &wanted);
}

#[test]
fn verdicts_that_cannot_be_printed_are_kept_and_the_failure_is_reported() {
    if !Path::new("/dev/full").exists() {
        return skipped!("there is no /dev/full");
    }
    let place = Place::new();
    let printing = format!("{} > /dev/full", crawl_archive("state"));
    let stopped = unlimited(&place, &printing);
    let wanted = ["not all verdicts could be printed", "export"];
    assert_disk_error(stopped.status.code(), &text(&stopped.stderr), &wanted);
    let kept = lines(&unlimited(&place, &export("state")));
    assert!(!kept.is_empty());
}

/// Bytes that the store of a crawl has written.
fn size_of_log(place: &Place, state: &str) -> u64 {
    let log = place.path(state).join("sled/db");
    fs::metadata(log).expect("a store").len()
}

// === no writing ===

#[test]
fn a_state_directory_that_cannot_be_made_is_reported() {
    let place = Place::new();
    fs::write(place.path("file"), "").expect("a file");
    for command in [
        crawl_archive("file/state"),
        export("file/state"),
        "inspect harbour-sailing.example --state file/state".to_owned(),
    ] {
        let refused = unlimited(&place, &command);
        let wanted = ["cannot use the store in file/state: Not a directory"];
        assert_disk_error(refused.status.code(), &text(&refused.stderr), &wanted);
        assert_eq!(text(&refused.stdout), "");
    }
}

#[test]
fn a_read_only_store_is_reported_and_left_as_it_is() {
    let place = Place::new();
    let part = format!("{} --wanted 2", crawl_archive("disk/state"));
    fs::create_dir(place.path("disk")).expect("a directory");
    lines(&unlimited(&place, &part));
    let list = text(&unlimited(&place, &export("disk/state")).stdout);
    let commands = [
        crawl_archive("disk/state"),
        crawl_archive("disk/new"),
        export("disk/state"),
        "inspect harbour-sailing.example --state disk/state".to_owned(),
    ];
    let run = |number: usize| {
        let command = &commands[number];
        format!("code=0; \"$0\" {command} 2> errors-{number} || code=$?; echo $code >> codes\n")
    };
    let runs: String = (0..commands.len()).map(run).collect();
    let script = format!("mount --bind disk disk; mount -o remount,bind,ro disk\n{runs}");
    let Some(output) = with_mounts(&place, &script) else {
        return skipped!(NO_MOUNTS);
    };
    assert_eq!(text(&output.stdout), "");
    let read = |name: &str| fs::read_to_string(place.path(name)).expect("a file");
    let codes = read("codes");
    for (number, code) in codes.lines().enumerate() {
        let wanted = [
            "disk/",
            "is not writable",
            "use a copy in another directory",
        ];
        assert_disk_error(
            code.parse().ok(),
            &read(&format!("errors-{number}")),
            &wanted,
        );
    }
    assert_eq!(codes.lines().count(), commands.len());
    assert_eq!(text(&unlimited(&place, &export("disk/state")).stdout), list);
}

// === no descriptors ===

/// Number of sites.
const SITES: usize = 40;

/// Sites with a few pages each, served slowly enough to be visited all at once.
fn many_sites() -> (Runtime, Pathologies) {
    let runtime = Runtime::new().expect("a runtime");
    let web = runtime.block_on(Pathologies::start());
    for number in 0..SITES {
        let host = host(number);
        web.script(&host.clone(), move |target, _| match target {
            "/robots.txt" => Reply::status(404),
            _ => Reply::html(format!(
                "<title>{host}</title><p>Page {target} of {host}: learn to sail a dinghy or a yacht, \
                 race in the regatta of our sailing club, and meet the crew in the harbour. \
                 <a href='/a'>a</a> <a href='/b'>b</a> <a href='/c'>c</a>"
            ))
            .after(Duration::from_millis(50)),
        });
    }
    (runtime, web)
}

fn host(number: usize) -> String {
    format!("site-{number}.example")
}

/// Visits all of them at once.
fn crawl_all(port: u16, state: &str) -> String {
    let starts = (0..SITES).map(|number| format!(" http://{}:{port}/", host(number)));
    let crawl = crawl(state).replace("--crawlers 1", "--crawlers 64");
    format!("{crawl} --start{}", starts.collect::<String>())
}

/// What was judged, in the order of hosts.
fn judged(lines: &[Value]) -> BTreeMap<String, [String; 3]> {
    let judged = lines.iter().map(|line| {
        let fields = ["verdict", "confidence", "pages"];
        (
            line["host"].to_string(),
            fields.map(|field| line[field].to_string()),
        )
    });
    judged.collect()
}

/// With enough descriptors every site is read.
fn assert_all_read(lines: &[Value]) {
    let is_read = |line: &&Value| {
        let is_ours = line["host"]
            .as_str()
            .is_some_and(|host| host.starts_with("site-"));
        is_ours && line["pages"].as_u64() > Some(0)
    };
    assert_eq!(lines.iter().filter(is_read).count(), SITES, "{lines:?}");
}

/// The requests to each site since the last count.
fn requests(web: &Pathologies, before: &mut BTreeMap<String, usize>) -> Vec<(String, Vec<String>)> {
    let requests = (0..SITES).map(|number| {
        let host = host(number);
        let targets = web.targets(&host);
        let new = before
            .insert(host.clone(), targets.len())
            .unwrap_or_default();
        (host, targets[new..].to_vec())
    });
    requests.collect()
}

#[test]
fn with_few_descriptors_a_crawl_finds_the_same() {
    let (_runtime, web) = many_sites();
    let place = Place::new();
    lead_to(&web, &place);
    let mut seen = BTreeMap::new();
    let plenty = lines(&unlimited(&place, &crawl_all(80, "plenty")));
    let asked = requests(&web, &mut seen);
    assert_all_read(&plenty);
    for few in [64, 40, 24] {
        let limit = format!("ulimit -n {few}");
        let slower = limited(&place, &limit, &crawl_all(80, &format!("few-{few}")));
        let stderr = text(&slower.stderr);
        assert!(stderr.contains("raise the limit of open files"), "{stderr}");
        assert_eq!(judged(&lines(&slower)), judged(&plenty));
        assert_eq!(requests(&web, &mut seen), asked, "not one request more");
    }
}

#[cfg(not(target_os = "linux"))]
#[test]
fn descriptors_that_run_out_on_the_way_are_waited_for() {
    skipped!("only Linux changes the limits of another process");
}

/// Looks names up, too, and takes descriptors away from a process that had enough at first.
#[cfg(target_os = "linux")]
#[test]
fn descriptors_that_run_out_on_the_way_are_waited_for() {
    let (runtime, web) = many_sites();
    let place = Place::new();
    let log = Log::default();
    let loopback = std::net::Ipv4Addr::LOCALHOST.into();
    // No name is resolved before the descriptors are taken away, however late that is.
    let is_held = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&is_held);
    let names = runtime.block_on(NameServer::start(&log, move |_| {
        let begun = Instant::now();
        while held.load(Ordering::Relaxed) && begun.elapsed() < LONGEST {
            thread::sleep(Duration::from_millis(1));
        }
        Answer::Addresses(vec![loopback], 3_600)
    }));
    let port = web.http().port();
    let settings = format!(
        "[fetch]\ncontact = 'https://crawler.example/'\ndns_servers = ['{}']\nports = [{port}]\n\
         allow_addresses = ['127.0.0.0/8']\n\
         [fetch.politeness]\npause = '0 s'\naddress_interval = '0 s'\n",
        names.address()
    );
    fs::write(place.path("live.toml"), settings).expect("settings");
    let mut seen = BTreeMap::new();
    let plenty = lines(&unlimited(&place, &crawl_all(port, "plenty")));
    let asked = requests(&web, &mut seen);
    assert_all_read(&plenty);
    let questions = log.lines().len();

    is_held.store(true, Ordering::Relaxed);
    let taking = move |process: u32| {
        let begun = Instant::now();
        while log.lines().len() == questions && begun.elapsed() < LONGEST {
            thread::sleep(Duration::from_millis(1));
        }
        // A few more than a crawl needs for itself.
        let few = Some((20, 20));
        let process = process.try_into().expect("the number of a process");
        let taken = rlimit::prlimit(process, rlimit::Resource::NOFILE, few, None);
        taken.expect("a process of ours");
        is_held.store(false, Ordering::Relaxed);
    };
    let mut crawl = within(&place, "true", &crawl_all(port, "few"));
    let slower = ended_after(&mut crawl, taking);
    let stderr = text(&slower.stderr);
    assert!(stderr.contains("too many files are open"), "{stderr}");
    assert_eq!(judged(&lines(&slower)), judged(&plenty));
    assert_eq!(requests(&web, &mut seen), asked, "not one request more");
}

// === no name server ===

/// A name server that fails until the crawl logs that no site can be reached: by then all sites would
/// be taken for dead.
#[test]
fn sites_unreachable_by_a_local_failure_are_visited_later() {
    let (runtime, web) = many_sites();
    let place = Place::new();
    let loopback = std::net::Ipv4Addr::LOCALHOST.into();
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let names = runtime.block_on(NameServer::start(&Log::default(), move |_| {
        if up.load(Ordering::Relaxed) {
            Answer::Addresses(vec![loopback], 3_600)
        } else {
            Answer::Failure
        }
    }));
    let port = web.http().port();
    let settings = format!(
        "[fetch]\ncontact = 'https://crawler.example/'\ndns_servers = ['{}']\nports = [{port}]\n\
         allow_addresses = ['127.0.0.0/8']\n\
         [fetch.politeness]\npause = '0 s'\naddress_interval = '0 s'\ncome_back = '5 s'\n",
        names.address()
    );
    fs::write(place.path("live.toml"), settings).expect("settings");
    let crawl = crawl_all(port, "state").replace("--crawlers 64", "--crawlers 4");
    let mut command = within(&place, "true", &crawl);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let stderr = thread::spawn(move || {
        let lines = errors.lines().map_while(Result::ok);
        let lines = lines.inspect(|line| {
            if line.contains("no site can be reached") {
                is_up.store(true, Ordering::Relaxed);
            }
        });
        lines.collect::<Vec<String>>().join("\n")
    });
    let output = child.wait_with_output().expect("an end");
    let stderr = stderr.join().expect("no panic");
    assert!(stderr.contains("no site can be reached"), "{stderr}");
    assert!(stderr.contains("the local failure is over"), "{stderr}");
    assert!(output.status.success(), "{stderr}");
    let judged = shown(&text(&output.stdout));
    let is_site = |line: &&Value| line["host"].to_string().contains("site-");
    assert_eq!(judged.iter().filter(is_site).count(), SITES, "{judged:?}");
    let lost = judged
        .iter()
        .filter(is_site)
        .filter(|line| line["pages"] == 0);
    assert_eq!(lost.count(), 0, "no site is lost: {judged:?}");
}
