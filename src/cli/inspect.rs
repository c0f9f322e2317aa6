//! `sitescout inspect`: what is known about a site, and why?

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};

use crate::config::Settings;
use crate::store::{EvidenceStep, Opinion, ReadStore, SiteFile};
use crate::web::{SiteId, UndecidedReason};

use super::ExitCode;
use super::sources;
use super::terminal::{Harmless, harmless_json};

const EXAMPLES: &str = "\
Examples:
  sitescout inspect harbour.example
  sitescout inspect harbour.example --topic sailing --state /var/lib/sitescout --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The site
    #[arg(value_name = "HOST")]
    host: SiteId,
    /// The topic; may be left out if there is only one
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Where everything found is kept
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let store = sources::open_store(&arguments.state, settings)?;
    let file = sources::runtime()?.block_on(async {
        let topic = sources::topic_of(&store, arguments.topic.as_deref()).await?;
        anyhow::Ok(store.site(topic, &arguments.host).await?)
    })?;
    let Some(file) = file else {
        bail!("{} was never heard of", arguments.host);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match arguments.json {
        true => writeln!(out, "{}", harmless_json(&as_json(&file)))?,
        false => print(&file, &mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::Success)
}

fn print(file: &SiteFile, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}  {}", file.site, file.entrance)?;
    match &file.judged {
        None => writeln!(out, "not visited yet")?,
        Some(judged) => writeln!(
            out,
            "{} with confidence {:.3}, {} pages, verdict {} of {}, stopped: {}, model {}",
            judged.verdict,
            judged.confidence,
            judged.pages,
            judged.seq,
            sources::date(judged.judged_at),
            judged.stop_reason,
            judged.model
        )?,
    }
    if file.judged.as_ref().is_some_and(|judged| judged.noindex) {
        writeln!(out, "its homepage asks not to be indexed")?;
    }
    if let Some(decision) = &file.decision {
        let what = match decision.opinion {
            Opinion::Accept => "accepted",
            Opinion::Reject => "rejected",
        };
        let (date, note) = (sources::date(decision.at), Harmless(&decision.note));
        writeln!(out, "{what} by an editor on {date}: {note}")?;
    }
    if let Some(recheck) = file.recheck {
        writeln!(out, "to be looked at again: {}", sources::date(recheck))?;
    }
    if let Some(evidence) = &file.evidence {
        writeln!(out, "\npages:")?;
        for step in &evidence.steps {
            print_step(step, out)?;
        }
    }
    writeln!(
        out,
        "\nrecommended by {} sites of {} domains (global {:.3}, local {:.3}):",
        file.standing.edges, file.standing.domains, file.standing.global, file.standing.local
    )?;
    for by in &file.recommended_by {
        writeln!(
            out,
            "    global {:.3}  local {:.3}  {} pages  {}",
            by.global, by.local, by.pages, by.source
        )?;
    }
    if let Some(evidence) = &file.evidence {
        writeln!(out, "\nrecommends (the first of them, if they are many):")?;
        for (host, local) in &evidence.recommends {
            writeln!(out, "    local {local:.3}  {host}")?;
        }
    }
    Ok(())
}

fn print_step(step: &EvidenceStep, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "    {:<14} page {:.3}  site {:.3}  {} ({})",
        Harmless(&step.outcome),
        step.confidence,
        step.site_confidence,
        Harmless(&step.url),
        step.kind
    )?;
    for (side, words) in [("for", &step.for_target), ("against", &step.against)] {
        if !words.is_empty() {
            let words = words.iter();
            let words: Vec<String> = words
                .map(|(word, weight)| format!("{} {weight:+.2}", Harmless(word)))
                .collect();
            writeln!(out, "        {side:<8} {}", words.join(", "))?;
        }
    }
    Ok(())
}

fn as_json(file: &SiteFile) -> Value {
    let judged = file.judged.as_ref().map(|judged| {
        json!({
            "seq": judged.seq,
            "verdict": judged.verdict.name(),
            "undecided_reason": judged.verdict.undecided_reason().map(UndecidedReason::name),
            "confidence": judged.confidence,
            "pages": judged.pages,
            "rank": judged.rank,
            "start": judged.is_start,
            "judged_at": sources::date(judged.judged_at),
            "stop_reason": judged.stop_reason,
            "model": judged.model.to_string(),
            "alias_of": judged.alias_of.as_ref().map(|page| page.site().to_string()),
            "address": judged.address,
            "noindex": judged.noindex,
        })
    });
    let pages = file.evidence.iter().flat_map(|evidence| &evidence.steps);
    let pages = pages.map(|step| {
        json!({
            "url": step.url,
            "kind": step.kind,
            "outcome": step.outcome,
            "confidence": step.confidence,
            "site_confidence": step.site_confidence,
            "for": step.for_target,
            "against": step.against,
        })
    });
    let recommended_by = file.recommended_by.iter().map(|by| {
        json!({
            "host": by.source.as_str(),
            "global": by.global,
            "local": by.local,
            "pages": by.pages,
        })
    });
    let recommends = file
        .evidence
        .iter()
        .flat_map(|evidence| &evidence.recommends);
    json!({
        "host": file.site.as_str(),
        "entrance": file.entrance.as_str(),
        "judged": judged,
        "decision": file.decision.as_ref().map(|decision| json!({
            "decision": decision.opinion.name(),
            "note": decision.note,
            "at": sources::date(decision.at),
        })),
        "listed": file.is_listed,
        "recheck": file.recheck.map(sources::date),
        "pages": pages.collect::<Vec<_>>(),
        "edges": file.standing.edges,
        "domains": file.standing.domains,
        "global": file.standing.global,
        "local": file.standing.local,
        "recommended_by": recommended_by.collect::<Vec<_>>(),
        "recommends": recommends
            .map(|(host, local)| json!({ "host": host, "local": local }))
            .collect::<Vec<_>>(),
    })
}
