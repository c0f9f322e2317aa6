//! Exports the list of a topic, line by line or as a file.
//!
//! Invariant: a file is replaced atomically, and has only durable verdicts.

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

/// Sites read from the store at a time.
const BATCH: usize = 1_000;

/// How often a file is written at most if its list changes meanwhile.
const MAX_ATTEMPTS: usize = 3;

const CSV_HEADER: &str = "seq,host,verdict,confidence,pages,start,judged_at,decision,noindex";

/// Which sites of a topic are wanted, and how they are written.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(crate) topic: TopicId,
    pub(crate) format: ListFormat,
    /// Sequence numbers up to this are left out.
    pub(crate) since: u64,
    /// Sites of less confidence are left out, unless an editor accepted them.
    pub(crate) min_confidence: f64,
    /// Export every verdict, not only the sites on the list.
    pub(crate) has_all_verdicts: bool,
    /// Blocked and allowed hosts of the current settings.
    pub(crate) hosts: HostLists,
}

/// Why a list could not be written.
#[derive(Debug, Error)]
pub(crate) enum ListError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot write {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The output is closed.
    #[error("cannot write the list")]
    Output(#[from] io::Error),
}

/// A line before formatting. `judged.seq` is the number of the verdict, or of the change that put the
/// site on the list.
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
    /// The whole list of a topic.
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

    /// Writes it line by line. Changes made while it is written are left out.
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

    /// Writes it to a file. A list that changes meanwhile is written again, up to [`MAX_ATTEMPTS`]
    /// times: a site whose sequence number changed may have been missed.
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
            let written = out
                .into_inner()
                .map_err(|error| failed(error.into_error()))?;
            if attempt == MAX_ATTEMPTS || head().await? == before {
                break written;
            }
            attempt += 1;
        };
        // Syncing a disk would block the runtime.
        let target = path.to_owned();
        let put = spawn_blocking(move || put_in_place(file, &target)).await;
        put.unwrap_or_else(|failure| Err(failure.into()))
            .map_err(failed)
    }

    fn wants(&self, line: &Line) -> bool {
        let judged = &line.judged;
        let is_sure = judged.confidence >= self.min_confidence;
        let is_accepted = line.opinion == Some(Opinion::Accept);
        // A blocked host is left out at once, whatever its verdict.
        line.is_listed && (is_sure || is_accepted) && self.hosts.permit(judged.site.host())
    }

    /// A batch of the verdicts, and where the next begins.
    async fn verdicts(
        &self,
        store: &dyn ReadStore,
        after: u64,
    ) -> Result<(Vec<Line>, Option<u64>), StoreError> {
        let query = SiteQuery {
            topic: Some(self.topic),
            after: Some(SiteCursor::Number(after)),
            limit: BATCH,
            ..SiteQuery::default()
        };
        let batch = store.find(query).await?;
        let lines = batch.sites.into_iter().map(|found| Line {
            judged: found.judged,
            opinion: found.decision.map(|decision| decision.opinion),
            is_listed: true,
        });
        let next = match batch.next {
            Some(SiteCursor::Number(number)) => Some(number),
            _ => None,
        };
        Ok((lines.collect(), next))
    }

    /// A batch of the list, and where the next begins.
    async fn listed(
        &self,
        store: &dyn ReadStore,
        after: u64,
    ) -> Result<(Vec<Line>, Option<u64>), StoreError> {
        let entries = store.feed(self.topic, after, BATCH).await?;
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
    /// needs quotes. Spreadsheets take a field that begins with a hyphen for a formula.
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

/// A temporary file in the directory of `path`, so that it can be renamed to it.
pub(crate) fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))
}

/// Syncs a temporary file and renames it to `path`, readable by everyone who may read the directory:
/// temporary files are readable by their owner only.
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
