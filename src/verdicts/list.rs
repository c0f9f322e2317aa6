//! The list of a topic as others read it: line by line, or as a file.
//!
//! Invariant: a file appears whole or not at all, and holds only what is durable.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;
use thiserror::Error;
use tokio::task::spawn_blocking;

use crate::config::{HostLists, ListFormat};
use crate::store::{JudgedSite, Opinion, ReadStore, SiteCursor, SiteQuery, StoreError, TopicId};
use crate::web::sanitized_json;

use super::view::{JudgedSiteView, date};

/// So many sites are read at a time.
const PORTION: usize = 1_000;

/// A file is written again so often if its list changes meanwhile.
const ATTEMPTS: usize = 3;

const CSV_HEADER: &str = "seq,host,verdict,confidence,pages,start,judged_at,decision,noindex";

/// Which sites of a topic are wanted, and how they are written.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// The topic.
    pub(crate) topic: TopicId,
    /// What a line looks like.
    pub(crate) format: ListFormat,
    /// What has a sequence number up to this is left out.
    pub(crate) since: u64,
    /// Sites of less confidence are left out, unless an editor accepted them.
    pub(crate) min_confidence: f64,
    /// Every verdict is wanted, not only sites that are on the list.
    pub(crate) has_all_verdicts: bool,
    /// Hosts that the operator lets in, at this moment.
    pub(crate) hosts: HostLists,
}

/// Why a list could not be written.
#[derive(Debug, Error)]
pub(crate) enum ListError {
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be written.
    #[error("cannot write {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// Nobody reads it any more.
    #[error("cannot write the list")]
    Output(#[from] io::Error),
}

/// A line in the making. The number is that of the verdict, or of the change that brought the
/// site onto the list.
struct Line {
    judged: JudgedSite,
    opinion: Option<Opinion>,
    is_listed: bool,
}

/// A line as JSON.
#[derive(Serialize)]
struct ListLine<'s> {
    host: &'s str,
    #[serde(flatten)]
    judged: JudgedSiteView,
    /// `accept` or `reject`.
    decision: Option<&'static str>,
}

// === impl List ===

impl List {
    /// Those on the list of a topic, all of them.
    #[must_use]
    pub(crate) fn of(topic: TopicId, format: ListFormat, hosts: HostLists) -> Self {
        Self {
            topic,
            format,
            since: 0,
            min_confidence: 0.0,
            has_all_verdicts: false,
            hosts,
        }
    }

    /// Writes it line by line, as it is at the beginning; what changes meanwhile is not in it.
    pub(crate) async fn write(
        &self,
        store: &dyn ReadStore,
        out: &mut (dyn Write + Send),
    ) -> Result<(), ListError> {
        let end = store.heads().await?.last_number;
        if self.format == ListFormat::Csv {
            writeln!(out, "{CSV_HEADER}")?;
        }
        let mut after = self.since;
        loop {
            let (lines, next) = if self.has_all_verdicts {
                self.verdicts(store, after).await?
            } else {
                self.listed(store, after).await?
            };
            let is_present = |line: &&Line| line.judged.seq <= end && self.wants(line);
            for line in lines.iter().filter(is_present) {
                writeln!(out, "{}", line.in_format(self.format))?;
            }
            match next.filter(|next| *next < end) {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }

    /// Writes it to a file. A list that changes while it is written is written again, some times:
    /// who moves to another number meanwhile may have been missed.
    pub(crate) async fn write_to_file(
        &self,
        store: &dyn ReadStore,
        path: &Path,
    ) -> Result<(), ListError> {
        let head = async || {
            let heads = store.heads().await?;
            Ok::<_, StoreError>(heads.lists.get(&self.topic).copied())
        };
        let failed = |error: io::Error| ListError::File(path.to_owned(), error);
        let mut attempt = 1;
        let file = loop {
            let before = head().await?;
            let mut out = BufWriter::new(beside(path).map_err(failed)?);
            match self.write(store, &mut out).await {
                Err(ListError::Output(error)) => return Err(failed(error)),
                written => written?,
            }
            let file = out
                .into_inner()
                .map_err(|error| failed(error.into_error()))?;
            if attempt == ATTEMPTS || head().await? == before {
                break file;
            }
            attempt += 1;
        };
        // To sync a disk takes its time, and the runtime is not to wait for it.
        let target = path.to_owned();
        let put = spawn_blocking(move || put_in_place(file, &target)).await;
        put.unwrap_or_else(|broken| Err(broken.into()))
            .map_err(failed)
    }

    fn wants(&self, line: &Line) -> bool {
        let judged = &line.judged;
        let is_sure = judged.confidence >= self.min_confidence;
        let is_accepted = line.opinion == Some(Opinion::Accept);
        // A blocked host leaves the results at once, whatever was found about it.
        line.is_listed && (is_sure || is_accepted) && self.hosts.permit(judged.site.host())
    }

    /// A portion of the verdicts, and where the next begins.
    async fn verdicts(
        &self,
        store: &dyn ReadStore,
        after: u64,
    ) -> Result<(Vec<Line>, Option<u64>), StoreError> {
        let query = SiteQuery {
            topic: Some(self.topic),
            after: Some(SiteCursor::Number(after)),
            most: PORTION,
            ..SiteQuery::default()
        };
        let portion = store.find(query).await?;
        let lines = portion.sites.into_iter().map(|found| Line {
            judged: found.judged,
            opinion: found.decision.map(|decision| decision.opinion),
            is_listed: true,
        });
        let next = match portion.next {
            Some(SiteCursor::Number(number)) => Some(number),
            _ => None,
        };
        Ok((lines.collect(), next))
    }

    /// A portion of the list, and where the next begins.
    async fn listed(
        &self,
        store: &dyn ReadStore,
        after: u64,
    ) -> Result<(Vec<Line>, Option<u64>), StoreError> {
        let entries = store.feed(self.topic, after, PORTION).await?;
        let next = entries.last().map(|entry| entry.seq);
        let lines = entries.into_iter().map(|entry| Line {
            opinion: entry.decision.map(|decision| decision.opinion),
            is_listed: entry.change.is_listed(),
            judged: JudgedSite {
                seq: entry.seq,
                ..entry.judged
            },
        });
        Ok((lines.collect(), next))
    }
}

// === impl Line ===

impl Line {
    /// Hosts consist of letters, digits, hyphens, dots and colons, so no field of a CSV line
    /// needs quotes. One that begins with a hyphen would be a formula to some programs.
    fn in_format(&self, format: ListFormat) -> String {
        let judged = &self.judged;
        let decision = self.opinion.map(Opinion::name);
        let judged_at = date(judged.judged_at);
        match format {
            ListFormat::Txt => judged.site.to_string(),
            ListFormat::Csv => format!(
                "{},{}{},{},{:.6},{},{},{judged_at},{},{}",
                judged.seq,
                if judged.site.as_str().starts_with('-') {
                    "'"
                } else {
                    ""
                },
                judged.site,
                judged.verdict.name(),
                judged.confidence,
                judged.pages,
                judged.is_start,
                decision.unwrap_or_default(),
                judged.noindex,
            ),
            ListFormat::Jsonl => {
                let line = ListLine {
                    host: judged.site.as_str(),
                    judged: JudgedSiteView::from(judged),
                    decision,
                };
                let json = serde_json::to_string(&line);
                sanitized_json(json.expect("a line can be written as JSON"))
            }
        }
    }
}

/// A file to be written that nobody knows yet, on the disk where it is to be.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))
}

/// Puts a written file where others look for it: whole, on the disk, and readable by whoever may
/// read the directory. Temporary files belong to their owner alone.
pub(crate) fn put_in_place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    set_readable(file.path())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(unix)]
fn set_readable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn set_readable(_: &Path) -> io::Result<()> {
    Ok(())
}
