//! `sitescout inspect`: shows what the store has about a site, and why.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::config::Settings;
use crate::store::{EvidenceStep, Opinion, SiteDetail};
use crate::verdicts::SiteDetailView;
use crate::web::{self, SiteId};

use super::ExitCode;
use super::sources;
use super::terminal::Sanitized;

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
    /// Directory of the store
    #[arg(long, value_name = "DIR", default_value = "state")]
    state: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let store = sources::open_store(&arguments.state, settings)?;
    let (topic, detail) = sources::runtime()?.block_on(async {
        let topic = sources::topic_of(&*store, arguments.topic.as_deref()).await?;
        let topics = store.topics().await?;
        let name = topics.into_iter().find(|(_, id)| *id == topic);
        let name = name.map(|(name, _)| name).unwrap_or_default();
        anyhow::Ok((name, store.site(topic, &arguments.host).await?))
    })?;
    let Some(detail) = detail else {
        bail!("{} is not known", arguments.host);
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if arguments.json {
        let json = serde_json::to_string(&SiteDetailView::new(&topic, detail))?;
        writeln!(out, "{}", web::sanitized_json(json))?;
    } else {
        print(&detail, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::Success)
}

fn print(detail: &SiteDetail, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}  {}", detail.site, detail.entrance)?;
    match &detail.judged {
        None => writeln!(out, "not visited yet")?,
        Some(judged) => writeln!(
            out,
            "{} with confidence {:.3}, {} pages, verdict {} of {}, stopped: {}, model {}",
            judged.verdict,
            judged.confidence,
            judged.pages,
            judged.seq,
            sources::date(judged.judged_at),
            judged.stop_reason.name(),
            judged.model
        )?,
    }
    if detail.judged.as_ref().is_some_and(|judged| judged.noindex) {
        writeln!(out, "its homepage asks not to be indexed")?;
    }
    if let Some(decision) = &detail.decision {
        let what = match decision.opinion {
            Opinion::Accept => "accepted",
            Opinion::Reject => "rejected",
        };
        let (date, note) = (sources::date(decision.at), Sanitized(&decision.note));
        writeln!(out, "{what} by an editor on {date}: {note}")?;
    }
    if let Some(recheck) = detail.recheck {
        writeln!(out, "to be rechecked: {}", sources::date(recheck))?;
    }
    if let Some(evidence) = &detail.evidence {
        writeln!(out, "\npages:")?;
        for step in &evidence.steps {
            print_step(step, out)?;
        }
    }
    writeln!(
        out,
        "\nrecommended by {} sites of {} domains (global {:.3}, local {:.3}):",
        detail.standing.edges,
        detail.standing.domains,
        detail.standing.global,
        detail.standing.local
    )?;
    for by in &detail.recommended_by {
        writeln!(
            out,
            "    global {:.3}  local {:.3}  {} pages  {}",
            by.global, by.local, by.pages, by.source
        )?;
    }
    if let Some(evidence) = &detail.evidence {
        writeln!(out, "\nrecommends (the first ones):")?;
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
        step.outcome.to_string(),
        step.confidence,
        step.site_confidence,
        Sanitized(&step.url),
        step.kind.name()
    )?;
    for (side, words) in [("for", &step.for_target), ("against", &step.against)] {
        if !words.is_empty() {
            let words = words.iter();
            let words: Vec<String> = words
                .map(|(word, weight)| format!("{} {weight:+.2}", Sanitized(word)))
                .collect();
            writeln!(out, "        {side:<8} {}", words.join(", "))?;
        }
    }
    Ok(())
}
