//! Writes the list of each topic to a file, for directories that only read files.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::store::{ReadStore, StoreError};
use crate::verdicts::{List, ListError};

use super::DaemonState;

/// Writes changed lists every `interval`, until it is dropped.
pub(super) async fn keep(store: Arc<dyn ReadStore>, mut state: watch::Receiver<DaemonState>) {
    let mut written: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        let now = state.borrow_and_update().clone();
        let interval = now.plan.settings.service.lists.interval;
        if let Err(error) = write_changed(&*store, &now, &mut written).await {
            tracing::error!(%error, "cannot read the lists from the store");
        }
        // After a reload the directory may be another one, with nothing written yet.
        tokio::select! {
            () = sleep(interval) => {}
            changed = state.wait_for(|state| state.edition != now.edition) => {
                match changed {
                    Ok(_) => written.clear(),
                    Err(_) => return,
                }
            }
        }
    }
}

async fn write_changed(
    store: &dyn ReadStore,
    now: &DaemonState,
    written: &mut BTreeMap<String, u64>,
) -> Result<(), StoreError> {
    let settings = &now.plan.settings;
    let lists = &settings.service.lists;
    let Some(directory) = &lists.directory else {
        return Ok(());
    };
    for (name, topic) in store.topics().await? {
        if !now
            .plan
            .topics
            .iter()
            .any(|topic| topic.crawl.name() == name)
        {
            continue;
        }
        let heads = store.heads().await?;
        let head = heads.lists.get(&topic).copied().unwrap_or_default();
        if written.get(&name) == Some(&head) {
            continue;
        }
        let path = directory.join(format!("{name}.{}", lists.format.name()));
        let list = List::of(topic, lists.format, settings.external.host_lists());
        match list.write_to_file(store, &path).await {
            Ok(()) => {
                written.insert(name, head);
            }
            Err(ListError::Store(error)) => return Err(error),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, cause, "cannot write a list; will retry");
            }
        }
    }
    Ok(())
}
