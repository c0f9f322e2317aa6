//! Memory that an import takes.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::crawling::{Place, lines, text};
use crate::skips::skipped;

/// A dump of sites that wait in the border, without the line that ends it. The order in which they
/// wait has nothing to do with the order of their names.
fn border_of(sites: u64) -> Vec<String> {
    let store = format!(
        r#"{{"format":4,"record":"store","store":{{"discovered":{sites},"last_seq":0,"topics":1}}}}"#
    );
    let totals = format!(
        r#"{{"border":{sites},"deferred":0,"finds":0,"irrelevant":0,"pages":0,"relevant":0,"taken":0,"undecided":0}}"#
    );
    let topic = format!(
        r#"{{"number":1,"record":"topic","topic":{{"name":"sailing","ordering":"paper","totals":{totals}}}}}"#
    );
    let site = |number: u64| {
        let host = format!("harbour-{number:08}.example");
        let rank = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        format!(
            r#"{{"host":"{host}","record":"site","site":{{"deferrals":0,"discovered":{number},"domains":1,"edges":1,"entrance":"http://{host}/","global":0.5,"is_start":false,"last_rank":[0.5,1],"local":0.5,"phase":{{"border":{{"tie":1,"value":0.{rank}}}}}}},"topic":1}}"#
        )
    };
    let mut lines = vec![store, topic];
    lines.extend((1..=sites).map(site));
    lines
}

/// Peak memory of an import of the given number of sites, in bytes.
fn peak_memory(place: &Place, sites: u64) -> u64 {
    let mut import = place
        .command(&format!("import - --state of-{sites}"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut input = import.stdin.take().expect("a pipe");
    let dump = border_of(sites);
    for line in &dump {
        writeln!(input, "{line}").expect("a reader");
    }
    // What is left in the pipe is next to nothing.
    let status = fs::read_to_string(format!("/proc/{}/status", import.id()));
    let status = status.expect("a process that waits for more");
    writeln!(input, r#"{{"record":"end","records":{}}}"#, dump.len()).expect("a reader");
    drop(input);
    let ended = import.wait_with_output().expect("an end");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.split_whitespace().next());
    let kilobytes: u64 = kilobytes
        .and_then(|number| number.parse().ok())
        .expect("kB");
    kilobytes << 10
}

/// A million sites are to take 500 MB at most. A small dump shows less of that: its pages fill the
/// cache and the allocator first. One that keeps what it should free takes 4 KB for each of these
/// sites, one that frees it 1.2 KB.
#[test]
#[allow(clippy::print_stdout, reason = "prints the measurements")]
fn the_memory_of_an_import_hardly_grows_with_the_dump() {
    if !cfg!(target_os = "linux") {
        return skipped!("only Linux tells the memory of a process in /proc");
    }
    let place = Place::new();
    let (few, many) = (2_000, 22_000);
    let [least, most] = [few, many].map(|sites| peak_memory(&place, sites));
    let per_site = most.saturating_sub(least) / (many - few);
    println!(
        "{} MB for {few} sites, {} MB for {many}: {per_site} bytes for each more",
        least >> 20,
        most >> 20
    );
    assert!(per_site < 2_000, "{per_site} bytes for each site");
    // And it is all there.
    let dump = place.run(&format!("export --everything --state of-{few}"));
    let wanted = border_of(few);
    let wanted = wanted
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let wanted: Vec<Value> = wanted.collect();
    assert_eq!(lines(&dump)[..wanted.len()], wanted[..]);
}
