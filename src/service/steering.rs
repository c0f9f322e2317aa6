//! Pauses and blocks: kept in the store, with copies in memory that the crawlers read.
//!
//! A change through the API of this daemon is in force when its request is answered. A change by
//! another process in the same store is in force at most [`INTERVAL`] later.
//!
//! Invariant: the copies are changed under one lock, and never to a state older than the store's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use crate::fetch::PageSource;
use crate::store::{Edit, EditStore, ReadStore, StoreError, TopicId};
use crate::web::SiteId;

use super::DaemonState;

/// How often the store is checked for changes by other processes.
const INTERVAL: Duration = Duration::from_secs(5);

/// Keeps the copies of pauses and blocks equal to the store.
pub(super) struct Steering {
    store: Arc<dyn EditStore>,
    pages: Arc<PageSource>,
    state: watch::Sender<DaemonState>,
    /// The store's steering counter when the copies were last made; none while they may differ from
    /// the store. Locked while a copy changes.
    seen: Mutex<Option<u64>>,
}

impl Steering {
    pub(super) fn new(
        store: Arc<dyn EditStore>,
        pages: Arc<PageSource>,
        state: watch::Sender<DaemonState>,
    ) -> Self {
        Self {
            store,
            pages,
            state,
            seen: Mutex::new(None),
        }
    }

    /// Pauses or resumes a topic.
    pub(super) async fn pause(
        &self,
        name: &str,
        topic: TopicId,
        is_paused: bool,
    ) -> Result<(), StoreError> {
        let _exclusive = self.seen.lock().await;
        self.store.edit(Edit::Pause { topic, is_paused }).await?;
        self.state.send_modify(|state| {
            let paused = Arc::make_mut(&mut state.paused);
            if is_paused {
                paused.insert(name.to_owned());
            } else {
                paused.remove(name);
            }
        });
        Ok(())
    }

    /// Blocks or unblocks a host. If the request is cancelled half-way, the host stays blocked until
    /// the next check of the store.
    pub(super) async fn block(&self, site: &SiteId, edit: Edit) -> Result<(), StoreError> {
        let mut seen = self.seen.lock().await;
        let before = seen.take();
        if matches!(edit, Edit::Block { .. }) {
            self.pages.set_block(site, true);
        }
        let edited = self.store.edit(edit).await;
        let is_blocked = self.store.block_of(site).await?.is_some();
        self.pages.set_block(site, is_blocked);
        *seen = before;
        edited.map(|_| ())
    }

    /// Applies changes by other processes, until it is dropped.
    pub(super) async fn follow(self: Arc<Self>) {
        loop {
            sleep(INTERVAL).await;
            if let Err(error) = self.refresh().await {
                tracing::error!(%error, "cannot read pauses and blocks from the store");
            }
        }
    }

    /// Renews the copies if the store has changed since they were made.
    async fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.seen.lock().await;
        // Read first: what changes meanwhile is applied the next time.
        let steering = self.store.steering().await?;
        if *seen == Some(steering) {
            return Ok(());
        }
        self.pages.set_blocks(self.store.all_blocks().await?);
        let paused = paused(&*self.store).await?;
        self.state.send_if_modified(|state| {
            let is_new = *state.paused != paused;
            if is_new {
                state.paused = Arc::new(paused);
            }
            is_new
        });
        *seen = Some(steering);
        Ok(())
    }
}

/// The names of the paused topics.
pub(super) async fn paused(store: &dyn ReadStore) -> Result<BTreeSet<String>, StoreError> {
    let mut paused = BTreeSet::new();
    for (name, topic) in store.topics().await? {
        if store.is_paused(topic).await? {
            paused.insert(name);
        }
    }
    Ok(paused)
}
