//! Everything in a store, line by line: for backups, and for moving to another store.
//!
//! A dump holds records, not indexes: those are rebuilt when a dump is read; the queue for editors when
//! the store is opened for the first time.
//!
//! Invariant: a store read from the dump of another one hands out the same sites in the
//! same order, and shows the same verdicts under the same numbers.

use std::net::IpAddr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::curve::CurveRecord;
use super::engine::{Engine, Entry};
use super::keys::{self, kind};
use super::list_changes::{BlockRecord, DecisionRecord, ListingRecord};
use super::records::{
    EdgeRecord, EvidenceRecord, Phase, SiteRecord, StoreRecord, TopicNumber, TopicRecord,
    VerdictRecord,
};
use super::transaction::Transaction;
use super::versions;
use super::{Progress, Rank, StoreError, TopicId};
use crate::web::SiteId;

/// The version of the dump format.
const FORMAT: u32 = 4;

/// The kinds of records in a dump, in this order, so that a topic comes before its sites, and
/// a verdict before decisions on it.
const KINDS: [u8; 15] = [
    kind::STORE,
    kind::TOPIC,
    kind::PROGRESS,
    kind::CURVE,
    kind::PAUSE,
    kind::SITE,
    kind::EDGE,
    kind::VERDICT,
    kind::EVIDENCE,
    kind::DOMAIN,
    kind::SOURCE_DOMAIN,
    kind::ADDRESS,
    kind::LISTING,
    kind::DECISION,
    kind::BLOCK,
];

/// Moving everything from one store to another.
#[async_trait]
pub trait DumpStore: Send + Sync {
    /// Every record, in an order in which `load` accepts them. Concurrent writes may be included in
    /// part.
    fn dump(&self) -> mpsc::Receiver<Result<DumpLine, StoreError>>;

    /// Adds records from the dump of another store. Durable when it returns.
    async fn load(&self, lines: Vec<DumpLine>) -> Result<(), StoreError>;
}

/// One record of a store.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DumpLine(pub(super) DumpedRecord);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum DumpedRecord {
    Store {
        format: u32,
        store: StoreRecord,
    },
    Topic {
        number: u16,
        topic: TopicRecord,
    },
    Progress {
        topic: u16,
        progress: Progress,
    },
    Site {
        topic: u16,
        host: String,
        site: SiteRecord,
    },
    Edge {
        topic: u16,
        target: String,
        source: String,
        edge: EdgeRecord,
    },
    Verdict {
        topic: u16,
        host: String,
        verdict: VerdictRecord,
    },
    Evidence {
        topic: u16,
        host: String,
        evidence: EvidenceRecord,
    },
    Domain {
        topic: u16,
        domain: String,
        sites: u32,
    },
    #[serde(alias = "source-domain")]
    SourceDomain {
        topic: u16,
        domain: String,
        sites: u32,
    },
    Address {
        topic: u16,
        address: IpAddr,
        sites: u32,
    },
    Curve {
        topic: u16,
        curve: CurveRecord,
    },
    Paused {
        topic: u16,
    },
    Listing {
        topic: u16,
        host: String,
        listing: ListingRecord,
    },
    Decision {
        topic: u16,
        host: String,
        decision: DecisionRecord,
    },
    Block {
        host: String,
        block: BlockRecord,
    },
    /// The last line, with the number of lines before it.
    End {
        records: u64,
    },
}

/// All records, in order, until `send` returns false.
pub(super) fn dump(
    engine: &dyn Engine,
    mut send: impl FnMut(Result<DumpLine, StoreError>) -> bool,
) {
    let mut records = 0;
    for kind in KINDS {
        for entry in engine.scan(&[kind], None) {
            let line = entry.and_then(|entry| dumped(&entry)).map(DumpLine);
            let is_damaged = line.is_err();
            records += 1;
            if !send(line) || is_damaged {
                return;
            }
        }
    }
    send(Ok(DumpLine(DumpedRecord::End { records })));
}

// === impl DumpLine ===

impl DumpLine {
    /// How many lines a dump has before this one, if it is the last.
    #[must_use]
    pub(crate) fn lines_before_end(&self) -> Option<u64> {
        match self.0 {
            DumpedRecord::End { records } => Some(records),
            _ => None,
        }
    }
}

fn dumped((key, value): &Entry) -> Result<DumpedRecord, StoreError> {
    let damaged = || StoreError::damaged(key, "its key is malformed");
    let text = |bytes: &[u8]| {
        let decoded = String::from_utf8(bytes.to_vec());
        decoded.map_err(|_| damaged())
    };
    let topic = || {
        let bytes = key.get(1..3).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_be_bytes).ok_or_else(damaged)
    };
    let rest = || key.get(3..).ok_or_else(damaged);
    Ok(match key.first().copied() {
        Some(kind::STORE) => DumpedRecord::Store {
            format: FORMAT,
            store: versions::decode(key, value)?,
        },
        Some(kind::TOPIC) => DumpedRecord::Topic {
            number: topic()?,
            topic: versions::decode(key, value)?,
        },
        Some(kind::PROGRESS) => DumpedRecord::Progress {
            topic: topic()?,
            progress: versions::decode(key, value)?,
        },
        Some(kind::SITE) => DumpedRecord::Site {
            topic: topic()?,
            host: text(rest()?)?,
            site: versions::decode(key, value)?,
        },
        Some(kind::EDGE) => {
            let mut parts = rest()?.split(|byte| *byte == 0);
            let target = parts.next().ok_or_else(damaged)?;
            DumpedRecord::Edge {
                topic: topic()?,
                target: text(target)?,
                source: text(parts.next_back().ok_or_else(damaged)?)?,
                edge: versions::decode(key, value)?,
            }
        }
        Some(kind::VERDICT) => DumpedRecord::Verdict {
            topic: topic()?,
            host: text(rest()?)?,
            verdict: versions::decode(key, value)?,
        },
        Some(kind::EVIDENCE) => DumpedRecord::Evidence {
            topic: topic()?,
            host: text(rest()?)?,
            evidence: versions::decode(key, value)?,
        },
        Some(kind::DOMAIN) => DumpedRecord::Domain {
            topic: topic()?,
            domain: text(rest()?)?,
            sites: versions::decode(key, value)?,
        },
        Some(kind::SOURCE_DOMAIN) => DumpedRecord::SourceDomain {
            topic: topic()?,
            domain: text(rest()?)?,
            sites: versions::decode(key, value)?,
        },
        Some(kind::ADDRESS) => DumpedRecord::Address {
            topic: topic()?,
            address: keys::address_of(key).ok_or_else(damaged)?,
            sites: versions::decode(key, value)?,
        },
        Some(kind::CURVE) => DumpedRecord::Curve {
            topic: topic()?,
            curve: versions::decode(key, value)?,
        },
        Some(kind::PAUSE) => DumpedRecord::Paused { topic: topic()? },
        Some(kind::LISTING) => DumpedRecord::Listing {
            topic: topic()?,
            host: text(rest()?)?,
            listing: versions::decode(key, value)?,
        },
        Some(kind::DECISION) => DumpedRecord::Decision {
            topic: topic()?,
            host: text(rest()?)?,
            decision: versions::decode(key, value)?,
        },
        Some(kind::BLOCK) => DumpedRecord::Block {
            host: text(&key[1..])?,
            block: versions::decode(key, value)?,
        },
        _ => return Err(damaged()),
    })
}

/// Writes a dumped record, with the index entries that follow from it.
pub(super) fn load(
    changes: &mut Transaction<'_, dyn Engine>,
    DumpLine(line): DumpLine,
) -> Result<(), StoreError> {
    match line {
        DumpedRecord::Store { format, store } => {
            if format > FORMAT {
                return Err(StoreError::Newer);
            }
            changes.put(keys::STORE.to_vec(), &store);
        }
        DumpedRecord::Topic { number, mut topic } => {
            changes.put(keys::topic(&topic.name), &TopicNumber(number));
            // Claims are not dumped: claimed sites are put back.
            topic.totals.border += topic.totals.taken;
            topic.totals.taken = 0;
            changes.put(keys::topic_record(TopicId(number)), &topic);
        }
        DumpedRecord::Progress { topic, progress } => {
            changes.put(keys::progress(TopicId(topic)), &progress);
        }
        DumpedRecord::Site { topic, host, site } => {
            load_site(changes, TopicId(topic), &parsed(&host)?, site);
        }
        DumpedRecord::Edge {
            topic,
            target,
            source,
            edge,
        } => {
            let (target, source) = (parsed(&target)?, parsed(&source)?);
            // By the built-in platforms. Those of the operator are applied when the store is opened.
            let domain = source.registrable_domain();
            changes.put(keys::edge(TopicId(topic), &target, domain, &source), &edge);
        }
        DumpedRecord::Verdict {
            topic,
            host,
            verdict,
        } => {
            let site = parsed(&host)?;
            let place = (topic, site.to_string());
            changes.put(keys::sequence(verdict.seq()), &place);
            changes.put(keys::verdict(TopicId(topic), &site), &verdict);
        }
        DumpedRecord::Evidence {
            topic,
            host,
            evidence,
        } => {
            let key = keys::evidence(TopicId(topic), &parsed(&host)?);
            changes.put(key, &evidence);
        }
        DumpedRecord::Domain {
            topic,
            domain,
            sites,
        } => changes.put(keys::domain(TopicId(topic), &domain), &sites),
        DumpedRecord::SourceDomain {
            topic,
            domain,
            sites,
        } => changes.put(keys::source_domain(TopicId(topic), &domain), &sites),
        DumpedRecord::Address {
            topic,
            address,
            sites,
        } => changes.put(keys::address(TopicId(topic), address), &sites),
        DumpedRecord::Curve { topic, curve } => changes.put(keys::curve(TopicId(topic)), &curve),
        DumpedRecord::Paused { topic } => {
            changes.put_raw(keys::pause(TopicId(topic)), Vec::new());
        }
        DumpedRecord::Listing {
            topic,
            host,
            listing,
        } => {
            let (topic, site) = (TopicId(topic), parsed(&host)?);
            let change = keys::list_change(topic, listing.seq);
            changes.put_raw(change, site.as_str().as_bytes().to_vec());
            changes.put(keys::listing(topic, &site), &listing);
        }
        DumpedRecord::Decision {
            topic,
            host,
            decision,
        } => changes.put(keys::decision(TopicId(topic), &parsed(&host)?), &decision),
        DumpedRecord::Block { host, block } => changes.put(keys::block(&parsed(&host)?), &block),
        DumpedRecord::End { .. } => {}
    }
    Ok(())
}

fn load_site(
    changes: &mut Transaction<'_, dyn Engine>,
    topic: TopicId,
    site: &SiteId,
    mut record: SiteRecord,
) {
    let host = site.as_str().as_bytes().to_vec();
    if record.phase == Phase::Taken {
        let (value, tie) = record.last_rank;
        record.phase = Phase::border(Rank { value, tie });
    }
    match record.phase {
        Phase::Border { value, tie } => {
            let rank = Rank { value, tie };
            changes.put_raw(keys::border(topic, rank, record.discovered), host);
        }
        Phase::Due(seconds) => changes.put_raw(keys::due(topic, seconds, site), host),
        Phase::Recheck(seconds) => {
            changes.put_raw(keys::recheck(topic, seconds, site), host);
        }
        Phase::Taken | Phase::Judged => {}
    }
    changes.put(keys::site(topic, site), &record);
}

fn parsed(host: &str) -> Result<SiteId, StoreError> {
    let site = host.parse();
    site.map_err(|_| StoreError::damaged(host.as_bytes(), "it is no host"))
}
