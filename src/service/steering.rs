//! Pauses and blocks: they live in the store, and the daemon follows what is written there.
//!
//! What comes through the API of this daemon is in force when its request is answered. What another
//! process writes into the same store is in force some seconds later.
//!
//! Invariant: the copies that crawlers look at are changed under one lock, and never to a state
//! that is older than the store's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use crate::fetch::PageSource;
use crate::store::{Edit, EditStore, StoreError, TopicId};
use crate::web::SiteId;

use super::DaemonState;

/// The store is looked at so often.
const INTERVAL: Duration = Duration::from_secs(5);

/// Keeps pauses and blocks as the store has them.
pub(super) struct Steering {
    store: Arc<dyn EditStore>,
    pages: Arc<PageSource>,
    state: watch::Sender<DaemonState>,
    /// What the store's counter showed when the copies were last made; none while they may differ
    /// from the store. Held while a copy changes.
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

    /// Pauses a topic, or lets it go on.
    pub(super) async fn pause(
        &self,
        name: &str,
        topic: TopicId,
        is_paused: bool,
    ) -> Result<(), StoreError> {
        let _alone = self.seen.lock().await;
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

    /// Blocks a host, or lets it be asked again. If the request breaks off in between, the host
    /// stays blocked until the store is looked at.
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

    /// Takes up what other processes have changed, until it is dropped.
    pub(super) async fn follow(self: Arc<Self>) {
        loop {
            sleep(INTERVAL).await;
            if let Err(error) = self.look().await {
                tracing::error!(%error, "pauses and blocks cannot be read from the store");
            }
        }
    }

    /// Takes up what has changed since the last look.
    async fn look(&self) -> Result<(), StoreError> {
        let mut seen = self.seen.lock().await;
        // Read first: what changes meanwhile is taken up the next time.
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

/// The topics that are paused.
pub(super) async fn paused(store: &dyn EditStore) -> Result<BTreeSet<String>, StoreError> {
    let mut paused = BTreeSet::new();
    for (name, topic) in store.topics().await? {
        if store.is_paused(topic).await? {
            paused.insert(name);
        }
    }
    Ok(paused)
}
