//! `sitescout serve-web`: a generated web over HTTP.

use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;

use crate::lab::generated::{Conditions, GeneratedWeb, Truth, WebServer};

use super::ExitCode;
use super::signals::Signals;
use super::sources;
use super::terminal::complain;

const EXAMPLES: &str = "\
Examples:
  sitescout serve-web --sites 20000 --port 8080
  sitescout serve-web --sites 1000 --latency 50ms --faults 0.02
  sitescout serve-web --sites 1000 --truth > truth.tsv

All hosts are served at one address; the settings that resolve them to it are printed. The
same options give the same web. With --truth nothing is served: every host is listed with its
topic, as labels for `train` and `evaluate`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Number of sites, one in twenty of each topic
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    sites: u64,
    /// Random seed of the web
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Share of links of topical sites that lead to their own topic
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    locality: f64,
    /// Port on the loopback address; 0 takes any free port
    #[arg(long, value_name = "PORT", default_value_t = 8_080)]
    port: u16,
    /// Delay of every response; slow hosts take twenty times as long
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = humantime::parse_duration)]
    latency: Duration,
    /// Share of pages with a fault, such as a server error or a cut body
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    faults: f64,
    /// List hosts and topics instead of serving
    #[arg(long)]
    truth: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    for (name, share) in [
        ("locality", arguments.locality),
        ("faults", arguments.faults),
    ] {
        ensure!(
            (0.0..=1.0).contains(&share),
            "--{name} is a share, from 0 to 1"
        );
    }
    let web = GeneratedWeb::new(arguments.sites, arguments.seed);
    let web = web.with_locality(arguments.locality);
    if arguments.truth {
        list(&web)?;
        return Ok(ExitCode::Success);
    }
    let conditions = Conditions {
        latency: arguments.latency,
        faults: arguments.faults,
    };
    sources::runtime()?.block_on(async {
        let address = SocketAddr::from(([127, 0, 0, 1], arguments.port));
        let server = WebServer::bind(address, web, conditions).await;
        let server = server.with_context(|| format!("cannot listen at {address}"))?;
        let (first, _) = web.site(0);
        complain(&format!(
            "{} sites at {}, the first is {first}; settings for a crawler:\n\
             [fetch]\nresolve = [{{ host = \"*.example\", address = \"{1}\" }}]",
            web.sites(),
            server.address()?
        ));
        let mut signals = Signals::new()?;
        tokio::select! {
            never = server.serve() => match never {},
            () = signals.next() => Ok(ExitCode::Success),
        }
    })
}

/// Every host and its topic.
fn list(web: &GeneratedWeb) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for number in 0..web.sites() {
        match web.site(number) {
            (host, Truth::Topic(topic)) => writeln!(out, "{host}\t{topic}")?,
            (host, Truth::Other) => writeln!(out, "{host}\tother")?,
            (_, Truth::NoSite) => {}
        }
    }
    out.flush()
}
