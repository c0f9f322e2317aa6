//! Queries of crawls, which bypass the commit thread.
//!
//! Invariant: a verdict is shown only when it is durable, that is, when its number is at most
//! the last that was synced. One that was confirmed keeps its number, so its new confidence may
//! be seen some milliseconds before it is durable: the verdict itself is not new.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use crate::web::{ModelFingerprint, SiteId, shared_address};

use super::engine::Engine;
use super::keys::{self, kind};
use super::records::{self, TopicNumber, TopicRecord, VerdictRecord};
use super::transaction::Transaction;
use super::versions;
use super::{JudgedSite, NextDue, Progress, StoreError, TopicId, TopicTotals};

pub(super) fn topics(engine: &dyn Engine) -> Result<Vec<(String, TopicId)>, StoreError> {
    let topics = engine.scan(keys::TOPICS, None).map(|entry| {
        let (key, value) = entry?;
        let TopicNumber(number) = versions::decode(&key, &value)?;
        let name = String::from_utf8_lossy(&key[1..]).into_owned();
        Ok((name, TopicId(number)))
    });
    topics.collect()
}

/// When the newest verdict was recorded. Stores from before that was kept have it in the verdict with
/// the last number.
pub(super) fn newest_verdict(engine: &dyn Engine) -> Result<Option<SystemTime>, StoreError> {
    let transaction = Transaction::new(engine);
    if let Some(seconds) = transaction.get(keys::NEWEST)? {
        return Ok(Some(records::time(seconds)));
    }
    let Some(last) = engine.scan_back(keys::SEQUENCE, None).next() else {
        return Ok(None);
    };
    let (key, value) = last?;
    let (topic, site) = verdict_place(&key, &value)?;
    let verdict: Option<VerdictRecord> = transaction.get(&keys::verdict(topic, &site))?;
    Ok(verdict.map(|verdict| verdict.judged_at()))
}

pub(super) fn totals(engine: &dyn Engine, topic: TopicId) -> Result<TopicTotals, StoreError> {
    let key = keys::topic_record(topic);
    let record: Option<TopicRecord> = Transaction::new(engine).get(&key)?;
    let record = record.ok_or_else(|| StoreError::damaged(&key, "it is missing"))?;
    Ok(record.totals)
}

pub(super) fn progress(engine: &dyn Engine, topic: TopicId) -> Result<Progress, StoreError> {
    let key = keys::progress(topic);
    let progress = Transaction::new(engine).get(&key)?;
    // Stores from before it was kept get one when a topic is opened.
    let none = || Progress::new(u64::MAX, ModelFingerprint::from_bits(0));
    Ok(progress.unwrap_or_else(none))
}

pub(super) fn full_addresses(
    engine: &dyn Engine,
    topic: TopicId,
    sites: u32,
) -> Result<Vec<IpAddr>, StoreError> {
    // Older versions counted each address of an IPv6 network separately.
    let mut counted: BTreeMap<IpAddr, u32> = BTreeMap::new();
    for entry in engine.scan(&keys::of_topic(kind::ADDRESS, topic), None) {
        let (key, value) = entry?;
        let address = keys::address_of(&key);
        let address = address.ok_or_else(|| StoreError::damaged(&key, "it names no address"))?;
        let count = counted.entry(shared_address(address)).or_default();
        *count = count.saturating_add(versions::decode(&key, &value)?);
    }
    let full = counted.into_iter().filter(|(_, count)| *count >= sites);
    Ok(full.map(|(address, _)| address).collect())
}

pub(super) fn next_due(engine: &dyn Engine, topic: TopicId) -> Result<NextDue, StoreError> {
    let first_of = |kind: u8| {
        let prefix = keys::of_topic(kind, topic);
        let first = engine.scan(&prefix, None).next().transpose()?;
        let seconds = first.and_then(|(key, _)| keys::due_seconds(&key));
        Ok::<_, StoreError>(seconds.map(records::time))
    };
    Ok(NextDue {
        deferred: first_of(kind::DUE)?,
        recheck: first_of(kind::RECHECK)?,
    })
}

pub(super) fn judged(
    engine: &dyn Engine,
    topic: TopicId,
    after: u64,
    limit: usize,
    durable: u64,
) -> Result<Vec<JudgedSite>, StoreError> {
    let reader = Transaction::new(engine);
    let mut found = Vec::new();
    let (after, end) = (keys::sequence(after), keys::sequence(durable));
    for entry in engine.scan(keys::SEQUENCE, Some(&after)) {
        let (key, value) = entry?;
        if found.len() >= limit || key > end {
            break;
        }
        let (of, site) = verdict_place(&key, &value)?;
        if of != topic {
            continue;
        }
        let record: Option<VerdictRecord> = reader.get(&keys::verdict(topic, &site))?;
        let record = record.ok_or_else(|| StoreError::damaged(&key, NO_VERDICT))?;
        // A verdict renewed meanwhile comes later, under its new number.
        if keys::sequence(record.seq()) == key {
            found.push(record.into_judged(site));
        }
    }
    Ok(found)
}

const NO_VERDICT: &str = "it leads to no verdict";

/// The topic and site of a numbered verdict.
pub(super) fn verdict_place(key: &[u8], value: &[u8]) -> Result<(TopicId, SiteId), StoreError> {
    let (number, host): (u16, String) = versions::decode(key, value)?;
    let site = host.parse();
    let site = site.map_err(|_| StoreError::damaged(key, NO_VERDICT))?;
    Ok((TopicId(number), site))
}
