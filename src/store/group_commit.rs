//! Group commit: one thread, which batches the commands that arrived during the last commit.
//!
//! A sync takes milliseconds, however many commands it covers. So waiting commands are carried out
//! together, applied at once and synced once; only then does any of them get its reply. A batch that
//! changes nothing is neither applied nor synced.
//!
//! Invariant: whatever is applied is synced before anything else is applied, whether it promises
//! durability or not: of several unsynced batches, a power cut may keep the later ones and lose what
//! they build on, and with it what was synced before (see `sled_engine`). A command succeeds only after
//! that sync. After an error of the engine nothing more is written: what is on disk is consistent, and
//! nothing after it was acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{self, Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::config::StoreSettings;
use crate::telemetry::clock;

use super::claims;
use super::dump::{self, DumpLine};
use super::engine::Engine;
use super::keys::{self, kind};
use super::metrics::CommitMetrics;
use super::records::StoreRecord;
use super::state::{PreviousRun, State};
use super::topic_queries;
use super::transaction::Transaction;
use super::{
    Claim, Edit, Edited, Heads, NewSite, Recorded, StoreError, TakeRequest, Taken, TopicId,
    TopicOpening, VisitOutcome,
};

/// Capacity of the queue.
const QUEUE_LENGTH: usize = 1_024;

/// Maximum number of commands in a commit, so that the first does not wait long for the last.
const GROUP_LENGTH: usize = 256;

/// How often a read is retried when a commit overtakes it.
const TRIES: usize = 8;

/// How long a read waits for a commit to end before it goes ahead.
const LONGEST_COMMIT: Duration = Duration::from_secs(2);

/// How long the last handle waits for the thread to end. With the grace of `external` and the patience of
/// `cli` for what is left behind, a stop takes less than `drain` and five seconds.
const END_PATIENCE: Duration = Duration::from_secs(1);

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A change that the commit thread carries out, with the channel for its result.
pub(super) enum StoreCommand {
    OpenTopic(TopicOpening, Reply<TopicId>),
    Enter(TopicId, Vec<NewSite>, Reply<usize>),
    Take(TopicId, TakeRequest, Reply<Taken>),
    Renew(Vec<Claim>, Reply<Vec<Claim>>),
    Record(Vec<VisitOutcome>, Reply<Vec<Recorded>>),
    Edit(Edit, Reply<Edited>),
    Load(Vec<DumpLine>, Reply<()>),
    AcceptClock(Reply<()>),
}

/// A handle to the commit thread.
#[derive(Clone)]
pub(super) struct CommitQueue {
    queue: mpsc::Sender<StoreCommand>,
    notes: Arc<Notes>,
    /// Dropped after the queue, whose end ends the thread.
    _end: Arc<ThreadEnd>,
}

/// Waits for the commit thread when the last handle is dropped: a process that ended before it would
/// leave the store marked as in use, as if it had been killed.
struct ThreadEnd(
    /// Handles are shared between threads, a receiver is not.
    Mutex<Receiver<()>>,
);

/// What the commit thread shares with its handles.
#[derive(Default)]
struct Notes {
    /// Why nothing more is written; returned for later commands, too.
    failure: OnceLock<StoreError>,
    /// The number of the last verdict that is durable.
    durable: AtomicU64,
    /// The number of the last durable change of each list.
    heads: watch::Sender<Heads>,
    /// A sequence lock: odd while something is applied but not synced, incremented at each change.
    commit: Mutex<u64>,
    is_at_rest: Condvar,
    /// Unset in tools without metrics.
    metrics: OnceLock<CommitMetrics>,
}

/// Sends the reply of a command after the commit, whose error it gets.
type ReplySender = Box<dyn FnOnce(Option<&StoreError>) + Send>;

// === impl CommitQueue ===

impl CommitQueue {
    /// Starts the thread, after checking the store.
    pub(super) fn start(
        engine: Arc<dyn Engine>,
        settings: StoreSettings,
    ) -> Result<Self, StoreError> {
        let mut transaction = Transaction::new(&*engine);
        let left = PreviousRun {
            was_killed: engine.was_killed(),
            newest: topic_queries::newest_verdict(&*engine)?,
        };
        let mut state = State::open(&mut transaction, settings, &left)?;
        transaction.accept_command();
        let notes = Arc::new(Notes::default());
        commit(&*engine, transaction, &notes)?;
        keep_up(&*engine, &mut state, &notes)?;
        notes.publish_durable(&*engine)?;
        let (queue, commands) = mpsc::channel(QUEUE_LENGTH);
        let shared = Arc::clone(&notes);
        let (ended, end) = sync::mpsc::channel();
        let started = thread::Builder::new()
            .name("store".to_owned())
            .spawn(clock::inherited(move || {
                run(&*engine, state, commands, &shared);
                drop(engine);
                drop(ended);
            }));
        match started {
            Ok(_) => Ok(Self {
                queue,
                notes,
                _end: Arc::new(ThreadEnd(Mutex::new(end))),
            }),
            Err(error) => Err(StoreError::Closed(error.to_string())),
        }
    }

    /// The number of the last verdict that is durable.
    pub(super) fn durable(&self) -> u64 {
        self.notes.durable.load(Ordering::Acquire)
    }

    /// Reads between two commits if possible, so that nothing is seen that is not durable, and nothing
    /// missed that is being moved. A read that commits overtake repeatedly, such as one of a whole
    /// list, must rely on [`CommitQueue::durable`].
    pub(super) fn read_between_commits<T>(&self, read: impl Fn() -> T) -> T {
        self.notes.read_between_commits(read)
    }

    /// Why the commit thread has ended, if it has.
    pub(super) fn failure(&self) -> Option<&StoreError> {
        self.notes.failure.get()
    }

    /// The last durable numbers, as they grow.
    pub(super) fn heads(&self) -> watch::Receiver<Heads> {
        self.notes.heads.subscribe()
    }

    /// Measures from now on how long commits take, and what caps drop.
    pub(super) fn measure_commits(&self, metrics: CommitMetrics) {
        // The first call wins; a process has one registry.
        let _ = self.notes.metrics.set(metrics);
    }

    /// Queues a command and waits until it is committed.
    pub(super) async fn submit<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> StoreCommand,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let gone = || {
            let failure = self.notes.failure.get().cloned();
            failure.unwrap_or_else(|| StoreError::Closed("the commit thread has ended".to_owned()))
        };
        self.queue.send(command(reply)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

// === impl ThreadEnd ===

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let end = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Nothing is sent: the other side is dropped. A disk that hangs is not waited for.
        let _ = end.recv_timeout(END_PATIENCE);
    }
}

/// Works until every handle is dropped, or the engine fails.
fn run(
    engine: &dyn Engine,
    mut state: State,
    mut commands: mpsc::Receiver<StoreCommand>,
    notes: &Notes,
) {
    let mut group = Vec::new();
    while commands.blocking_recv_many(&mut group, GROUP_LENGTH) > 0 {
        let mut transaction = Transaction::new(engine);
        let mut answers: Vec<ReplySender> = Vec::new();
        for command in group.drain(..) {
            answers.push(carry_out(command, &mut state, &mut transaction, notes));
        }
        let committed = commit(engine, transaction, notes);
        let committed = committed.and_then(|()| keep_up(engine, &mut state, notes));
        let dropped = state.take_dropped();
        if let Some(metrics) = notes.metrics.get() {
            metrics.count(dropped);
        }
        let failure = committed.err();
        if let Some(error) = &failure {
            tracing::error!(%error, "the store failed and accepts no more writes");
            engine.note_end();
            // Set once: the thread ends below.
            let _ = notes.failure.set(error.clone());
            // Wakes those who wait for a change that will not come.
            notes.heads.send_modify(|_| {});
        }
        for answer in answers {
            answer(failure.as_ref());
        }
        if failure.is_some() {
            return;
        }
    }
}

/// Applies the changes, and syncs them before anything else can be applied.
fn commit(
    engine: &dyn Engine,
    transaction: Transaction<'_, dyn Engine>,
    notes: &Notes,
) -> Result<(), StoreError> {
    let changes = transaction.into_changes();
    if changes.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    notes.begin_commit();
    let committed = engine.apply(changes).and_then(|()| engine.sync());
    let committed = committed.and_then(|()| notes.publish_durable(engine));
    notes.end_commit();
    if let Some(metrics) = notes.metrics.get() {
        metrics.duration.observe(started.elapsed().as_secs_f64());
    }
    committed
}

/// Does pending upkeep, which comes before any reply, one transaction per portion.
fn keep_up(engine: &dyn Engine, state: &mut State, notes: &Notes) -> Result<(), StoreError> {
    while state.has_upkeep() {
        let mut transaction = Transaction::new(engine);
        state.keep_up(&mut transaction)?;
        transaction.accept_command();
        commit(engine, transaction, notes)?;
    }
    Ok(())
}

// === impl Notes ===

impl Notes {
    fn begin_commit(&self) {
        *self.lock_commit() += 1;
    }

    fn end_commit(&self) {
        *self.lock_commit() += 1;
        self.is_at_rest.notify_all();
    }

    /// The number of the last commit; none while one is under way.
    fn commit(&self) -> Option<u64> {
        Some(*self.lock_commit()).filter(|number| number.is_multiple_of(2))
    }

    fn read_between_commits<T>(&self, read: impl Fn() -> T) -> T {
        for _ in 0..TRIES {
            let Some(before) = self.wait_for_rest() else {
                break;
            };
            let result = read();
            if self.commit() == Some(before) {
                return result;
            }
        }
        read()
    }

    /// The number of the last commit, after the one under way has ended; none if that takes too long.
    fn wait_for_rest(&self) -> Option<u64> {
        let is_busy = |number: &mut u64| !number.is_multiple_of(2);
        let at_rest = &self.is_at_rest;
        let waited = at_rest.wait_timeout_while(self.lock_commit(), LONGEST_COMMIT, is_busy);
        let (number, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Some(*number).filter(|number| number.is_multiple_of(2))
    }

    fn lock_commit(&self) -> MutexGuard<'_, u64> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes that everything in the engine is durable.
    fn publish_durable(&self, engine: &dyn Engine) -> Result<(), StoreError> {
        let store: Option<StoreRecord> = Transaction::new(engine).get(keys::STORE)?;
        let store = store.unwrap_or_default();
        let before = self.durable.swap(store.last_seq, Ordering::AcqRel);
        if before == store.last_seq {
            return Ok(());
        }
        let mut heads = Heads {
            last_number: store.last_seq,
            ..Heads::default()
        };
        for number in 1..=store.topics {
            let topic = TopicId(number);
            let prefix = keys::of_topic(kind::LIST_CHANGE, topic);
            let last = engine.scan_back(&prefix, None).next().transpose()?;
            let head = last.and_then(|(key, _)| keys::list_number(&key));
            heads.lists.insert(topic, head.unwrap_or_default());
        }
        self.heads.send_if_modified(|known| {
            let has_changed = *known != heads;
            *known = heads;
            has_changed
        });
        Ok(())
    }
}

fn carry_out(
    command: StoreCommand,
    state: &mut State,
    transaction: &mut Transaction<'_, dyn Engine>,
    notes: &Notes,
) -> ReplySender {
    match command {
        StoreCommand::OpenTopic(topic, reply) => {
            if let Some(metrics) = notes.metrics.get() {
                metrics.add_topic(&topic.name);
            }
            settle(state.open_topic(transaction, topic), transaction, reply)
        }
        StoreCommand::Enter(topic, sites, reply) => {
            settle(state.enter(transaction, topic, sites), transaction, reply)
        }
        StoreCommand::Take(topic, taking, reply) => {
            settle(state.take(transaction, topic, taking), transaction, reply)
        }
        StoreCommand::AcceptClock(reply) => {
            settle(state.accept_clock(transaction), transaction, reply)
        }
        StoreCommand::Edit(edit, reply) => {
            settle(state.edit(transaction, edit), transaction, reply)
        }
        StoreCommand::Load(lines, reply) => {
            let mut lines = lines.into_iter();
            let loaded = lines.try_for_each(|line| dump::load(transaction, line));
            settle(loaded, transaction, reply)
        }
        StoreCommand::Renew(held, reply) => {
            settle(claims::renew(transaction, held), transaction, reply)
        }
        StoreCommand::Record(outcomes, reply) => {
            settle(state.record(transaction, &outcomes), transaction, reply)
        }
    }
}

/// Keeps the changes of a command that succeeded, discards those of one that failed, and prepares its
/// reply.
fn settle<T: Send + 'static>(
    result: Result<T, StoreError>,
    transaction: &mut Transaction<'_, dyn Engine>,
    reply: Reply<T>,
) -> ReplySender {
    match result {
        Ok(_) => transaction.accept_command(),
        Err(_) => transaction.reject_command(),
    }
    Box::new(move |failure| {
        let result = match failure {
            Some(error) => Err(error.clone()),
            None => result,
        };
        // The caller may have stopped waiting.
        let _ = reply.send(result);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OldVerdicts;
    use crate::store::engine::{Changes, Entry, MemoryEngine};
    use crate::store::{
        BorderCaps, CrawlStore, KeyValueStore, Rank, Ranking, ReadStore, Resolution, Standing,
    };
    use crate::web::{ModelFingerprint, SiteReport, SiteVisit, Verdict};
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    /// Logs calls, and fails or blocks on demand.
    #[derive(Default)]
    struct Watched {
        memory: MemoryEngine,
        log: Mutex<Vec<&'static str>>,
        syncs: AtomicUsize,
        is_full: AtomicBool,
        /// Blocks `sync`.
        is_held: AtomicBool,
        /// Set when it is dropped, which takes a moment.
        is_closed: Arc<AtomicBool>,
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(20));
            self.is_closed.store(true, Ordering::Release);
        }
    }

    impl Engine for Arc<Watched> {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.memory.get(key)
        }

        fn scan<'a>(
            &'a self,
            prefix: &'a [u8],
            after: Option<&'a [u8]>,
        ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
            self.memory.scan(prefix, after)
        }

        fn scan_back<'a>(
            &'a self,
            prefix: &'a [u8],
            before: Option<&'a [u8]>,
        ) -> Box<dyn Iterator<Item = Result<Entry, StoreError>> + 'a> {
            self.memory.scan_back(prefix, before)
        }

        fn apply(&self, changes: Changes) -> Result<(), StoreError> {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(StoreError::Full("here".into()));
            }
            self.log.lock().unwrap().push("apply");
            self.memory.apply(changes)
        }

        fn sync(&self) -> Result<(), StoreError> {
            while self.is_held.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            // As long as a disk takes, so that commands have time to gather.
            thread::sleep(Duration::from_millis(5));
            self.syncs.fetch_add(1, Ordering::Relaxed);
            self.log.lock().unwrap().push("sync");
            Ok(())
        }

        fn disk_bytes(&self) -> u64 {
            0
        }
    }

    struct FirstCome;

    impl Ranking for FirstCome {
        fn name(&self) -> &'static str {
            "first-come"
        }

        fn rank(&self, _: &Standing) -> Rank {
            Rank { value: 0.0, tie: 0 }
        }
    }

    async fn opened(engine: &Arc<Watched>) -> (KeyValueStore, TopicId) {
        let settings = StoreSettings::default();
        let store = KeyValueStore::over(Arc::new(Arc::clone(engine)), &settings).unwrap();
        let topic = TopicOpening {
            name: "topic".to_owned(),
            ranking: Arc::new(FirstCome),
            caps: BorderCaps::per_domain(1_000_000),
            model: ModelFingerprint::from_bits(1),
            old_verdicts: OldVerdicts::Keep,
            recheck_after: None,
            watched_pages: 5_000,
            hosts: Arc::default(),
            platforms: Arc::default(),
        };
        let topic = store.open_topic(topic).await.unwrap();
        (store, topic)
    }

    fn site(number: usize) -> NewSite {
        NewSite {
            entrance: format!("https://h{number}.example/").parse().unwrap(),
            is_start: false,
        }
    }

    #[tokio::test]
    async fn a_store_is_closed_when_its_last_handle_is_dropped() {
        let engine = Arc::new(Watched::default());
        let is_closed = Arc::clone(&engine.is_closed);
        let (store, _) = opened(&engine).await;
        drop(engine);
        let other = store.clone();
        drop(store);
        assert!(!is_closed.load(Ordering::Acquire));
        drop(other);
        assert!(is_closed.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn a_disk_that_hangs_does_not_hold_the_last_handle() {
        let engine = Arc::new(Watched::default());
        let (store, topic) = opened(&engine).await;
        engine.is_held.store(true, Ordering::Relaxed);
        let entering = store.clone();
        let entering = tokio::spawn(async move { entering.enter(topic, vec![site(1)]).await });
        while !engine.log.lock().unwrap().ends_with(&["apply"]) {
            tokio::task::yield_now().await;
        }
        entering.abort();
        assert!(entering.await.unwrap_err().is_cancelled());
        // Would wait for ever for the thread.
        drop(store);
        engine.is_held.store(false, Ordering::Relaxed);
    }

    #[tokio::test]
    async fn a_failure_ends_waiting_for_a_change() {
        let engine = Arc::new(Watched::default());
        let (store, topic) = opened(&engine).await;
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.wait_for_change(topic, 0).await }
        });
        engine.is_full.store(true, Ordering::Relaxed);
        let entered = store.enter(topic, vec![site(1)]).await;
        assert!(matches!(entered, Err(StoreError::Full(_))));
        assert!(matches!(waiting.await.unwrap(), Err(StoreError::Full(_))));
        let late = store.wait_for_change(topic, 0).await;
        assert!(matches!(late, Err(StoreError::Full(_))));
    }

    #[tokio::test]
    async fn every_command_is_synced_before_its_reply_and_commands_share_a_sync() {
        let engine = Arc::new(Watched::default());
        let (store, topic) = opened(&engine).await;
        let before = engine.syncs.load(Ordering::Relaxed);
        let commands = (0..200).map(|number| {
            let (store, engine) = (store.clone(), Arc::clone(&engine));
            tokio::spawn(async move {
                let asked = engine.syncs.load(Ordering::Relaxed);
                store.enter(topic, vec![site(number)]).await.unwrap();
                assert!(engine.syncs.load(Ordering::Relaxed) > asked);
            })
        });
        for command in commands.collect::<Vec<_>>() {
            command.await.unwrap();
        }
        let syncs = engine.syncs.load(Ordering::Relaxed) - before;
        assert!(syncs < 50, "{syncs} syncs for 200 commands");
        let log = engine.log.lock().unwrap();
        let pairs: Vec<&[&str]> = log.chunks(2).collect();
        assert!(
            pairs.iter().all(|pair| *pair == ["apply", "sync"]),
            "{log:?}"
        );
    }

    #[tokio::test]
    async fn handing_out_sites_is_synced_before_anything_else_is_applied() {
        let engine = Arc::new(Watched::default());
        let (store, topic) = opened(&engine).await;
        let sites = (0..20).map(site).collect();
        store.enter(topic, sites).await.unwrap();
        let before = engine.syncs.load(Ordering::Relaxed);
        for taken in 1..=20 {
            let taking = TakeRequest::any(1, clock::now());
            assert_eq!(store.take(topic, taking).await.unwrap().sites.len(), 1);
            assert_eq!(engine.syncs.load(Ordering::Relaxed), before + taken);
        }
        // No site is left: nothing is written, so nothing is synced.
        let taking = TakeRequest::any(1, clock::now());
        assert!(store.take(topic, taking).await.unwrap().sites.is_empty());
        assert_eq!(engine.syncs.load(Ordering::Relaxed), before + 20);
        let log = engine.log.lock().unwrap();
        let pairs: Vec<&[&str]> = log.chunks(2).collect();
        assert!(
            pairs.iter().all(|pair| *pair == ["apply", "sync"]),
            "{log:?}"
        );
    }

    #[test]
    fn a_read_during_a_commit_sees_its_result() {
        let notes = Notes::default();
        let value = AtomicU64::new(1);
        let read = || notes.read_between_commits(|| value.load(Ordering::Acquire));
        assert_eq!(read(), 1);
        notes.begin_commit();
        thread::scope(|scope| {
            let reader = scope.spawn(read);
            value.store(2, Ordering::Release);
            notes.end_commit();
            assert_eq!(reader.join().unwrap(), 2);
        });
        // A commit that hangs does not block reads for ever.
        notes.begin_commit();
        assert_eq!(read(), 2);
    }

    #[tokio::test]
    async fn a_full_disk_ends_the_writing_and_loses_nothing_that_was_answered() {
        let engine = Arc::new(Watched::default());
        let (store, topic) = opened(&engine).await;
        store.enter(topic, vec![site(1)]).await.unwrap();
        engine.is_full.store(true, Ordering::Relaxed);
        let refused = store.enter(topic, vec![site(2)]).await;
        assert!(matches!(refused, Err(StoreError::Full(_))));
        engine.is_full.store(false, Ordering::Relaxed);
        let later = store.enter(topic, vec![site(3)]).await;
        assert!(matches!(later, Err(StoreError::Full(_))), "{later:?}");
        drop(store);
        let (store, topic) = opened(&engine).await;
        assert_eq!(store.totals(topic).await.unwrap().border, 1);
    }

    #[tokio::test]
    async fn a_verdict_can_be_read_when_it_is_durable_and_not_before() {
        let engine = Arc::new(Watched::default());
        let (store, topic) = opened(&engine).await;
        store.enter(topic, vec![site(1)]).await.unwrap();
        let taking = TakeRequest::any(1, clock::now());
        let taken = store.take(topic, taking).await.unwrap().sites;
        let visit = SiteVisit::entering(&taken[0].entrance);
        let report = SiteReport {
            verdict: Verdict::Relevant,
            ..SiteReport::interrupted(visit, ModelFingerprint::from_bits(1))
        };
        let outcome = VisitOutcome {
            claim: taken[0].claim.clone(),
            report,
            edges: Vec::new(),
            rank: 1.0,
            resolution: Resolution::Judged,
            keep_evidence: true,
        };
        engine.is_held.store(true, Ordering::Relaxed);
        let recording = tokio::spawn({
            let store = store.clone();
            async move { store.record(vec![outcome]).await }
        });
        // The totals say when it was applied.
        while store.totals(topic).await.unwrap().relevant == 0 {
            tokio::task::yield_now().await;
        }
        assert!(store.judged(topic, 0, 9).await.unwrap().is_empty());
        let file = store.site(topic, taken[0].site()).await.unwrap();
        let file = file.unwrap();
        assert_eq!((file.judged, file.evidence), (None, None));
        engine.is_held.store(false, Ordering::Relaxed);
        recording.await.unwrap().unwrap();
        assert_eq!(store.judged(topic, 0, 9).await.unwrap().len(), 1);
        let file = store.site(topic, taken[0].site()).await.unwrap();
        assert!(file.unwrap().evidence.is_some());
    }
}
