//! `sitescout background`: makes, extends and shows the sites that training takes for examples of what
//! a topic is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::classify::CountedSite;
use crate::config::Settings;
use crate::fetch::Archive;
use crate::telemetry::grouped;
use crate::training::{Background, DealtSites, Extension, Labels, learn_prior, pages_by_language};
use crate::web::SiteId;

use super::ExitCode;
use super::sources::{self, Web};
use super::terminal::{Sanitized, complain, sanitized_json, say};

/// How many terms of a site are shown.
const SHOWN_TERMS: usize = 40;

const EXAMPLES: &str = "\
The background holds sites of many kinds, as counts of terms: no text, no order of words, and
no term that occurs in fewer than three groups of sites. One comes with the program, and
`background` in [training] names another. `train` learns from it what a topic is not, unless
labels say otherwise.";

const MAKE_EXAMPLES: &str = "\
Examples:
  sitescout background make --warc a.warc.gz b.warc.gz --labels a.tsv b.tsv --out background.bin

Labels have one line for each host, as for `train`: host, tab, topic, and optionally tab and a
group. Sites of one group (one owner, one designer, the years of one event) count once when it is
decided which terms enough groups share. From topics with more than three groups is learned how
confidence grows with what pages say: topics with few examples begin with that.";

const ADD_EXAMPLES: &str = "\
Examples:
  sitescout background add --warc directory.warc.gz --out own.bin
  sitescout background add --config live.toml --warc more.warc.gz --labels more.tsv

Begins with the background that the settings name, or else with the one that comes with the
program, and writes to --out, or else to the file that the settings name. Another file that
exists is not replaced. Sites that the background has already are left as they are. Without labels, all hosts of the archives are
added, those of one registrable domain as one group.";

const SHOW_EXAMPLES: &str = "\
Examples:
  sitescout background show
  sitescout background show --json | jq .languages
  sitescout background show --config live.toml opera.example";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a background of labelled sites
    Make(Make),
    /// Adds further sites to a background
    Add(Add),
    /// Shows what is in a background
    Show(Show),
}

#[derive(Debug, Args)]
#[command(after_help = MAKE_EXAMPLES)]
struct Make {
    /// WARC files with the sites
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Labels: host, tab, topic, and optionally tab and group
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    labels: Vec<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "background.bin")]
    out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
struct Add {
    /// WARC files with the further sites
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    warc: Vec<PathBuf>,
    /// Which hosts to add, and their groups; by default all hosts of the archives
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// The file to write instead of the one that the settings name
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct Show {
    /// Show the terms of this site alone
    #[arg(value_name = "HOST", value_parser = |text: &str| text.parse::<SiteId>())]
    host: Option<SiteId>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Make(make) => run_make(make, settings)?,
        Action::Add(add) => run_add(add, settings)?,
        Action::Show(show) => run_show(show, settings)?,
    }
    Ok(ExitCode::Success)
}

fn run_make(make: &Make, settings: &Settings) -> anyhow::Result<()> {
    let labels = sources::read_all_labels(&make.labels)?;
    let web = Web::open(&make.warc, &[], None, settings)?;
    let corpus = sources::read_corpus(&web, &labels, settings)?;
    let (background, extension) = Background::default().extended(&corpus.sites, &corpus.lexicon);
    ensure!(
        !background.sites().is_empty(),
        "no site is left: a term is kept if at least three groups of sites have it; name more sites, of \
         more owners"
    );
    report_alone(&extension);
    let sites = DealtSites::new(&corpus.sites, [], corpus.lexicon.len());
    let background = background.with_prior(learn_prior(&corpus, &sites, &settings.training));
    if background.prior().is_none() {
        complain(
            "sitescout: no topic among the labels has more than three groups of sites: confidences of \
             topics with few examples will be rough",
        );
    }
    write(&make.out, &background)
}

fn run_add(add: &Add, settings: &Settings) -> anyhow::Result<()> {
    let out = add.out.as_ref().or(settings.background.as_ref());
    let out = out.context(
        "name the file to write with --out, and then as `background` in [training] of the settings, so \
         that `train` uses it",
    )?;
    // These may be the first sites for a file that the settings name already.
    let begun_with = match &settings.background {
        Some(file) if fs::exists(file)? => Some(file),
        _ => None,
    };
    refuse_to_replace(out, begun_with)?;
    let background = match begun_with {
        Some(_) => sources::open_background(settings)?,
        None => Background::shipped()?,
    };
    let archive = Archive::open(&add.warc, &settings.fetch)?;
    let labels = match &add.labels {
        Some(file) => sources::read_labels(file)?,
        None => Labels::by_owner(archive.sites().map(|(site, _)| site.clone())),
    };
    let corpus = sources::read_corpus(&Web::of(archive), &labels, settings)?;
    let (background, extension) = background.extended(&corpus.sites, &corpus.lexicon);
    if extension.added.is_empty() {
        bail!(
            "nothing to add, and nothing is written: of {} hosts {} are in the background already, {} \
             have no term that three groups of sites share, and {} have no page that could be read; name \
             archives with other sites",
            labels.labels.len(),
            extension.known.len(),
            extension.alone.len(),
            corpus.unreachable.len() + corpus.empty.len()
        );
    }
    report_alone(&extension);
    write(out, &background)?;
    say(&format!(
        "added {} sites; {} were there already",
        grouped(extension.added.len() as u64),
        grouped(extension.known.len() as u64)
    ))?;
    if settings.background.as_ref() != Some(out) {
        complain(&format!(
            "sitescout: set `background = {:?}` in [training] of the settings, so that `train` uses it",
            out.display().to_string()
        ));
    }
    Ok(())
}

/// What is in a file that exists is in the new one only if that begins with it.
fn refuse_to_replace(out: &Path, begun_with: Option<&PathBuf>) -> anyhow::Result<()> {
    if !fs::exists(out)? {
        return Ok(());
    }
    let is_out = match begun_with {
        Some(file) => file.canonicalize()? == out.canonicalize()?,
        None => false,
    };
    ensure!(
        is_out,
        "{} exists, and would be replaced by the background {} with the new sites; to add to it, set \
         `background` in [training] of the settings to it, and name them with --config; otherwise \
         remove it, or write to another file",
        out.display(),
        match begun_with {
            Some(file) => file.display().to_string(),
            None => "that comes with the program".to_owned(),
        }
    );
    Ok(())
}

fn report_alone(extension: &Extension) {
    if extension.alone.is_empty() {
        return;
    }
    let hosts: Vec<&str> = extension.alone.iter().map(SiteId::as_str).collect();
    complain(&format!(
        "sitescout: {} left out, because they have no term that three groups of sites share: {}",
        hosts.len(),
        hosts.join(", ")
    ));
}

fn write(path: &Path, background: &Background) -> anyhow::Result<()> {
    let bytes = background.to_bytes();
    sources::write_whole(path, &bytes)?;
    say(&format!(
        "{}: {} bytes, {}",
        path.display(),
        grouped(bytes.len() as u64),
        Summary::of(background)
    ))?;
    Ok(())
}

fn run_show(show: &Show, settings: &Settings) -> anyhow::Result<()> {
    let background = sources::open_background(settings)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if let Some(host) = &show.host {
        let sites = background.sites();
        let found = sites.iter().find(|site| site.site == *host);
        let site = found.with_context(|| {
            format!(
                "there is no {host} in the background; `sitescout background show` lists its hosts"
            )
        })?;
        show_site(&mut out, &background, site, show.json)?;
    } else {
        show_all(&mut out, &background, settings, show.json)?;
    }
    out.flush()?;
    Ok(())
}

fn show_all(
    out: &mut impl Write,
    background: &Background,
    settings: &Settings,
    as_json: bool,
) -> anyhow::Result<()> {
    let summary = Summary::of(background);
    let origin = sources::origin_of_background(settings);
    if as_json {
        let hosts = background.sites().iter().map(|site| {
            json!({ "host": site.site.as_str(), "group": site.group, "pages": site.pages.len() })
        });
        let shown = json!({
            "format": Background::FORMAT,
            "origin": origin,
            "fingerprint": background.fingerprint(),
            "sites": summary.sites,
            "groups": summary.groups,
            "pages": summary.pages,
            "terms": summary.terms,
            "languages": as_object(&summary.languages),
            "learned_over_topics": background.prior(),
            "hosts": hosts.collect::<Vec<_>>(),
        });
        writeln!(out, "{}", sanitized_json(&shown))?;
        return Ok(());
    }
    for site in background.sites() {
        writeln!(out, "{:>9}  {}", site.pages.len(), site.site)?;
    }
    let languages = summary.languages.iter();
    let languages = languages.map(|(code, pages)| format!("{code} {}", grouped(*pages as u64)));
    writeln!(out, "{summary}")?;
    writeln!(
        out,
        "languages of pages: {}",
        languages.collect::<Vec<_>>().join(", ")
    )?;
    match background.prior() {
        Some(prior) => writeln!(out, "learned over topics: {prior}")?,
        None => writeln!(out, "learned over topics: nothing, none had sites enough")?,
    }
    writeln!(
        out,
        "{origin}, format {}, fingerprint {}",
        Background::FORMAT,
        background.fingerprint()
    )?;
    Ok(())
}

fn show_site(
    out: &mut impl Write,
    background: &Background,
    site: &CountedSite,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut counts: BTreeMap<u32, f32> = BTreeMap::new();
    for (id, count) in site.pages.iter().flat_map(|page| &page.terms) {
        *counts.entry(*id).or_default() += count;
    }
    let terms = counts.len();
    let mut counts: Vec<(u32, f32)> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.total_cmp(&one.1));
    counts.truncate(SHOWN_TERMS);
    let term = |id: u32| &*background.terms()[id as usize];
    let of_group = background
        .sites()
        .iter()
        .filter(|other| other.group == site.group);
    let of_group: Vec<&str> = of_group.map(|other| other.site.as_str()).collect();
    let languages = pages_by_language(&site.pages);
    if as_json {
        let counts = counts
            .iter()
            .map(|(id, count)| json!({ "term": term(*id), "count": count }));
        let shown = json!({
            "host": site.site.as_str(),
            "group": of_group,
            "pages": site.pages.len(),
            "languages": as_object(&languages),
            "terms": terms,
            "most_frequent": counts.collect::<Vec<_>>(),
        });
        writeln!(out, "{}", sanitized_json(&shown))?;
        return Ok(());
    }
    let languages: Vec<&str> = languages.iter().map(|(code, _)| &**code).collect();
    writeln!(
        out,
        "{}: {} pages in {}, {} terms; the most frequent, weighted by the part of the page:",
        site.site,
        site.pages.len(),
        languages.join(", "),
        grouped(terms as u64)
    )?;
    for (id, count) in counts {
        writeln!(out, "{count:>9}  {}", Sanitized(term(id)))?;
    }
    if of_group.len() > 1 {
        writeln!(out, "one group: {}", of_group.join(", "))?;
    }
    Ok(())
}

/// Languages and their numbers of pages as a JSON object.
fn as_object(languages: &[(String, usize)]) -> Value {
    let languages = languages.iter();
    languages
        .map(|(code, pages)| (code.clone(), json!(pages)))
        .collect()
}

/// The size of a background.
struct Summary {
    sites: usize,
    groups: usize,
    pages: usize,
    terms: usize,
    /// As [`pages_by_language`] counts them.
    languages: Vec<(String, usize)>,
}

impl Summary {
    fn of(background: &Background) -> Self {
        let sites = background.sites();
        let groups: BTreeSet<u32> = sites.iter().map(|site| site.group).collect();
        Self {
            sites: sites.len(),
            groups: groups.len(),
            pages: sites.iter().map(|site| site.pages.len()).sum(),
            terms: background.terms().len(),
            languages: pages_by_language(sites.iter().flat_map(|site| &site.pages)),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [sites, groups, pages, terms] =
            [self.sites, self.groups, self.pages, self.terms].map(|number| grouped(number as u64));
        write!(
            f,
            "{sites} sites in {groups} groups, {pages} pages, {terms} terms"
        )
    }
}
