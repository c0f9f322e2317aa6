//! `sitescout archive`: lists the content and the problems of WARC files.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::config::{DamagePolicy, Settings};
use crate::fetch::{Archive, Fetcher};
use crate::parse::{self, ParseLimits};
use crate::telemetry::grouped;
use crate::web::{FetchedPage, PagePart, PageUrl, ParsedPage, SiteId};

use super::ExitCode;
use super::sources::parse_limits;
use super::terminal::{Sanitized, complain, sanitized_json};

const EXAMPLES: &str = "\
Examples:
  sitescout archive crawl.warc.gz                       hosts, pages, problems
  sitescout archive --pages --host example.org a.warc   every page of one host
  sitescout archive --read --json *.warc.gz             text and links, as JSON Lines
  sitescout archive --page http://example.org/ a.warc   one page as the parser reads it

A damaged archive is listed as far as it can be read, and the exit code is 65.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// WARC files, plain or compressed with gzip or zstd
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// List every capture of a page, not just the hosts
    #[arg(long)]
    pages: bool,
    /// Like --pages, with what the parser reads: title, language, links
    #[arg(long)]
    read: bool,
    /// Only this host
    #[arg(long, value_name = "HOST", value_parser = |text: &str| text.parse::<SiteId>())]
    host: Option<SiteId>,
    /// Show this one page as the parser reads it
    #[arg(long, value_name = "URL", conflicts_with_all = ["pages", "read", "host"])]
    #[arg(value_parser = |text: &str| text.parse::<PageUrl>())]
    page: Option<PageUrl>,
    /// Print JSON Lines: one object for each host, page or problem
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, settings: Settings) -> anyhow::Result<ExitCode> {
    let limits = parse_limits(&settings);
    let mut fetch = settings.fetch;
    fetch.archive.damaged = DamagePolicy::Salvage;
    let archive = Archive::open(&arguments.files, &fetch)?;
    let mut listing = Listing {
        out: BufWriter::new(io::stdout().lock()),
        archive: &archive,
        limits,
        json: arguments.json,
    };
    match &arguments.page {
        Some(url) => listing.page(url)?,
        None if arguments.pages || arguments.read => {
            listing.pages(arguments.host.as_ref(), arguments.read)?;
        }
        None => listing.hosts(arguments.host.as_ref())?,
    }
    if arguments.page.is_none() {
        listing.problems()?;
    }
    listing.out.flush()?;
    let Some((path, damage)) = archive.first_damage() else {
        return Ok(ExitCode::Success);
    };
    if arguments.page.is_some() {
        complain(&format!(
            "sitescout: {} is damaged {damage}",
            path.display()
        ));
    }
    Ok(ExitCode::DamagedData)
}

struct Listing<'a, W: Write> {
    out: W,
    archive: &'a Archive,
    limits: ParseLimits,
    json: bool,
}

impl<W: Write> Listing<'_, W> {
    fn hosts(&mut self, only: Option<&SiteId>) -> io::Result<()> {
        let sites = self
            .archive
            .sites()
            .filter(|(site, _)| only.is_none_or(|only| *site == only));
        let (mut hosts, mut all_pages) = (0, 0);
        for (site, pages) in sites {
            if self.json {
                self.json_line(&json!({ "host": site.as_str(), "pages": pages }))?;
            } else {
                writeln!(self.out, "{:>9}  {site}", grouped(pages))?;
            }
            hosts += 1;
            all_pages += pages;
        }
        if !self.json {
            writeln!(
                self.out,
                "{} hosts, {} pages, {} records",
                grouped(hosts),
                grouped(all_pages),
                grouped(self.archive.records())
            )?;
            for (scheme, records) in self.archive.other_schemes() {
                let scheme = Sanitized(scheme);
                writeln!(
                    self.out,
                    "{} records with {scheme}: addresses, which are no pages",
                    grouped(records)
                )?;
            }
        }
        Ok(())
    }

    fn pages(&mut self, only: Option<&SiteId>, read: bool) -> anyhow::Result<()> {
        let mut read_pages = HashSet::new();
        for capture in self.archive.captures() {
            let capture = capture?;
            let is_wanted = only.is_none_or(|only| capture.url.site() == *only);
            if !is_wanted || (read && !read_pages.insert(capture.url.key())) {
                continue;
            }
            let status = capture.status.map(|status| status.as_u16());
            if read {
                // What cannot be read is listed among the problems.
                if let Ok(Some(page)) = self.archive.read(&capture.url) {
                    self.parsed_line(&page)?;
                }
            } else if self.json {
                let line = json!({
                    "url": capture.url.as_str(),
                    "record": capture.kind.name(),
                    "status": status,
                    "content_type": capture.content_type,
                    "date": capture.date,
                    "bytes": capture.bytes,
                });
                self.json_line(&line)?;
            } else {
                writeln!(
                    self.out,
                    "{:>3} {:>9} {:<24} {}",
                    status.map_or("-".to_owned(), |status| status.to_string()),
                    capture.bytes,
                    Sanitized(capture.content_type.as_deref().unwrap_or("-")),
                    capture.url
                )?;
            }
        }
        Ok(())
    }

    fn parsed_line(&mut self, page: &FetchedPage) -> io::Result<()> {
        let parsed = parse::parse(page, &self.limits);
        if self.json {
            return self.json_line(&page_json(page, &parsed));
        }
        write!(
            self.out,
            "{} {:<2} {:>4}+{:<4} {}  {}",
            page.status.as_u16(),
            parsed
                .language
                .map_or("-".to_owned(), |language| language.to_string()),
            parsed.intrinsic_links.len(),
            parsed.transversal_links.len(),
            page.url,
            Sanitized(&parsed.title()),
        )?;
        for sign in parsed.signs.names() {
            write!(self.out, " [{sign}]")?;
        }
        writeln!(self.out)
    }

    fn page(&mut self, url: &PageUrl) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let page = runtime.block_on(self.archive.fetch(url))?;
        let parsed = parse::parse(&page, &self.limits);
        if self.json {
            self.json_line(&page_json(&page, &parsed))?;
        } else {
            self.page_as_text(&page, &parsed)?;
        }
        Ok(())
    }

    fn page_as_text(&mut self, page: &FetchedPage, parsed: &ParsedPage) -> io::Result<()> {
        let out = &mut self.out;
        writeln!(out, "page      {}", page.url)?;
        writeln!(
            out,
            "status    {}{}",
            page.status,
            if page.truncated { ", truncated" } else { "" }
        )?;
        if let Some(target) = page.redirect_target() {
            writeln!(out, "leads to  {target}")?;
        }
        writeln!(
            out,
            "content   {}, {}",
            parsed.content.name(),
            parsed.charset
        )?;
        if let Some(language) = parsed.language {
            writeln!(out, "language  {language}")?;
        }
        for (name, part) in [
            ("title", PagePart::Title),
            ("meta", PagePart::Meta),
            ("alt", PagePart::Alt),
        ] {
            let line = parsed.text.line(part);
            if !line.is_empty() {
                writeln!(out, "{name:<9} {}", Sanitized(&line))?;
            }
        }
        if let Some(canonical) = &parsed.canonical {
            writeln!(out, "canonical {canonical}")?;
        }
        for sign in parsed.signs.names() {
            writeln!(out, "sign      {sign}")?;
        }
        writeln!(out)?;
        for line in parsed.text.visible().lines() {
            writeln!(out, "  {}", Sanitized(line))?;
        }
        writeln!(out)?;
        for link in &parsed.intrinsic_links {
            writeln!(out, "-> {}  {}", link.page, Sanitized(&link.anchor))?;
        }
        for link in &parsed.transversal_links {
            writeln!(out, "=> {}  {}", link.page, Sanitized(&link.anchor))?;
        }
        Ok(())
    }

    fn json_line(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.out, "{}", sanitized_json(value))
    }

    fn problems(&mut self) -> io::Result<()> {
        for (path, problem) in self.archive.problems() {
            if self.json {
                let line = json!({
                    "file": path.to_string_lossy(),
                    "offset": problem.offset,
                    "problem": problem.kind.to_string(),
                    "damage": problem.kind.is_damage(),
                });
                self.json_line(&line)?;
            } else {
                let weight = if problem.kind.is_damage() {
                    "damage"
                } else {
                    "remark"
                };
                let path = path.to_string_lossy();
                let text = problem.to_string();
                writeln!(
                    self.out,
                    "{weight}: {}: {}",
                    Sanitized(&path),
                    Sanitized(&text)
                )?;
            }
        }
        match self.archive.more_problems() {
            0 => {}
            more if self.json => self.json_line(&json!({ "more_problems": more }))?,
            more => writeln!(self.out, "and {} more problems", grouped(more))?,
        }
        Ok(())
    }
}

/// Everything the parser found on a page.
fn page_json(page: &FetchedPage, parsed: &ParsedPage) -> Value {
    let part = |part| parsed.text.part(part).collect::<Vec<&str>>();
    let intrinsic = parsed.intrinsic_links.iter().map(|link| {
        json!({
            "page": link.page.as_str(),
            "anchor": link.anchor,
            "kind": link.kind.name(),
            "nofollow": link.nofollow,
        })
    });
    let transversal = parsed.transversal_links.iter().map(|link| {
        json!({
            "site": link.site.as_str(),
            "page": link.page.as_str(),
            "anchor": link.anchor,
            "kind": link.kind.name(),
            "nofollow": link.nofollow,
        })
    });
    json!({
        "url": page.url.as_str(),
        "status": page.status.as_u16(),
        "redirect": page.redirect_target().as_ref().map(PageUrl::as_str),
        "truncated": page.truncated,
        "content": parsed.content.name(),
        "charset": parsed.charset,
        "language": parsed.language.map(|language| language.to_string()),
        "title": parsed.title(),
        "headings": part(PagePart::Heading),
        "anchors": part(PagePart::Anchor),
        "body": part(PagePart::Body),
        "alt": part(PagePart::Alt),
        "meta": part(PagePart::Meta),
        "text": parsed.text.visible(),
        "canonical": parsed.canonical.as_ref().map(PageUrl::as_str),
        "noindex": parsed.robots.noindex,
        "nofollow": parsed.robots.nofollow,
        "fingerprint": parsed.fingerprint.map(|fingerprint| fingerprint.to_string()),
        "signs": parsed.signs.names().collect::<Vec<&str>>(),
        "intrinsic_links": intrinsic.collect::<Vec<Value>>(),
        "transversal_links": transversal.collect::<Vec<Value>>(),
    })
}
