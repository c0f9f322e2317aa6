//! Parses large pages on dedicated threads: one per core, within a memory budget.
//!
//! tokio's blocking threads would not do: there are hundreds of them, each would hold a page at the
//! same time, and a runtime that shuts down waits for all of them. These threads do not delay the
//! shutdown.
//!
//! One pool serves the whole process, however many topics crawl in it, because cores and memory
//! are those of the process.
//!
//! Invariant: the sum of all [`Reservation`]s stays within the budget, unless a single page needs
//! more; such a page is read alone. A reservation is released when the page is dropped, not when the
//! caller is cancelled. A panic in a job is propagated to the caller and ends no thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Memory for all pages being read at the same time.
const BUDGET_BYTES: usize = 256 << 20;

/// Size of one permit of the budget. Bytes would not do: permits are counted in 32 bits.
const PIECE_BYTES: usize = 1 << 10;

/// The pool of the process; its threads are started with the first large page.
static SHARED: LazyLock<ReadingPool> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    ReadingPool::start(cores, BUDGET_BYTES)
});

#[derive(Debug)]
pub(super) struct ReadingPool {
    /// None if no thread could be started; jobs then run in place.
    jobs: Option<Sender<Job>>,
    budget: Arc<Semaphore>,
    pieces: u32,
}

/// Memory reserved for a page being read; released when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    _pieces: Option<OwnedSemaphorePermit>,
}

type Job = Box<dyn FnOnce() + Send>;

// === impl ReadingPool ===

impl ReadingPool {
    pub(super) fn shared() -> &'static Self {
        &SHARED
    }

    fn start(threads: usize, budget_bytes: usize) -> Self {
        let (sender, jobs) = mpsc::channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let mut started = 0;
        for number in 0..threads {
            let jobs = Arc::clone(&jobs);
            let thread = thread::Builder::new().name(format!("reader-{number}"));
            match thread.spawn(move || work(&jobs)) {
                Ok(_) => started += 1,
                Err(error) => tracing::warn!(%error, "cannot start a thread for reading pages"),
            }
        }
        let pieces = u32::try_from(budget_bytes / PIECE_BYTES).unwrap_or(u32::MAX >> 3);
        Self {
            jobs: (started > 0).then_some(sender),
            budget: Arc::new(Semaphore::new(pieces as usize)),
            pieces,
        }
    }

    /// Runs work that takes at most `bytes` of memory. Returns the result with the reservation, which
    /// is to be kept for as long as the result.
    ///
    /// # Panics
    /// If the work does.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (T, Reservation) {
        let reservation = self.reserve(bytes).await;
        let (sender, result) = oneshot::channel();
        let job = move || {
            // The caller was cancelled in the meantime.
            if sender.is_closed() {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(work));
            let _ = sender.send((done, reservation));
        };
        match &self.jobs {
            Some(jobs) => jobs.send(Box::new(job)).expect("threads never end"),
            None => job(),
        }
        let (done, reservation) = result.await.expect("a job ends by sending its result");
        match done {
            Ok(done) => (done, reservation),
            Err(panic) => resume_unwind(panic),
        }
    }

    async fn reserve(&self, bytes: usize) -> Reservation {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let budget = Arc::clone(&self.budget);
        let reserved = budget.acquire_many_owned(pieces.min(self.pieces)).await;
        Reservation {
            // The semaphore is never closed.
            _pieces: reserved.ok(),
        }
    }
}

/// Runs jobs for as long as the process runs.
fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = {
            let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.recv()
        };
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    const PIECE: usize = PIECE_BYTES;

    /// Runs jobs of these sizes all at once, and returns the most bytes and the most jobs that
    /// were under way at one moment.
    async fn most_at_once(pool: ReadingPool, sizes: Vec<usize>) -> (usize, usize) {
        let pool = Arc::new(pool);
        let now = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let most = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let mut visits = JoinSet::new();
        for size in sizes {
            let (pool, now, most) = (Arc::clone(&pool), Arc::clone(&now), Arc::clone(&most));
            visits.spawn(async move {
                let job = {
                    let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                    move || {
                        let bytes = now[0].fetch_add(size, Ordering::SeqCst) + size;
                        let jobs = now[1].fetch_add(1, Ordering::SeqCst) + 1;
                        most[0].fetch_max(bytes, Ordering::SeqCst);
                        most[1].fetch_max(jobs, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(1));
                        now[1].fetch_sub(1, Ordering::SeqCst);
                    }
                };
                let ((), reservation) = pool.run(size, job).await;
                // The result is in use, and counts until it is dropped.
                tokio::task::yield_now().await;
                now[0].fetch_sub(size, Ordering::SeqCst);
                drop(reservation);
            });
        }
        visits.join_all().await;
        assert_eq!(now[0].load(Ordering::SeqCst), 0);
        (
            most[0].load(Ordering::SeqCst),
            most[1].load(Ordering::SeqCst),
        )
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn neither_threads_nor_budget_are_exceeded() {
        let few_threads = ReadingPool::start(2, 1_000 * PIECE);
        let (bytes, jobs) = most_at_once(few_threads, vec![PIECE; 200]).await;
        assert!(jobs <= 2, "{jobs}");
        assert!(bytes <= 200 * PIECE, "{bytes}");
        let small_budget = ReadingPool::start(8, 10 * PIECE);
        let sizes = (0..200).map(|at| (1 + at % 5) * PIECE).collect();
        let (bytes, jobs) = most_at_once(small_budget, sizes).await;
        assert!(bytes <= 10 * PIECE, "{bytes}");
        assert!(jobs <= 8, "{jobs}");
    }

    #[tokio::test]
    async fn a_page_larger_than_the_budget_is_read_alone() {
        let pool = ReadingPool::start(4, 10 * PIECE);
        let (_, jobs) = most_at_once(pool, vec![usize::MAX >> 16; 20]).await;
        assert_eq!(jobs, 1);
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller_and_ends_no_thread() {
        let pool = Arc::new(ReadingPool::start(1, 2 * PIECE));
        for _ in 0..20 {
            let broken = Arc::clone(&pool);
            let broken =
                tokio::spawn(
                    async move { broken.run(2 * PIECE, || panic!("a fault of ours")).await.0 },
                );
            let failure = broken.await.expect_err("the panic");
            let panic = failure.into_panic();
            assert_eq!(panic.downcast_ref(), Some(&"a fault of ours"));
        }
        assert_eq!(pool.run(2 * PIECE, || 7).await.0, 7);
    }

    #[tokio::test]
    async fn a_cancelled_job_is_not_begun_and_holds_no_memory() {
        let pool = Arc::new(ReadingPool::start(1, 4 * PIECE));
        let (go_on, held) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let first = Arc::clone(&pool);
        let first = tokio::spawn(async move {
            let job = move || {
                let _ = started.send(());
                let _ = held.recv();
            };
            first.run(PIECE, job).await;
        });
        has_started.await.expect("the first job");
        let begun = Arc::new(AtomicUsize::new(0));
        let mut cancelled = JoinSet::new();
        for _ in 0..3 {
            let (pool, begun) = (Arc::clone(&pool), Arc::clone(&begun));
            cancelled.spawn(async move {
                let job = move || begun.fetch_add(1, Ordering::SeqCst);
                pool.run(PIECE, job).await.0
            });
        }
        while pool.budget.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        cancelled.shutdown().await;
        go_on.send(()).expect("the first job waits");
        first.await.expect("the first job ends");
        assert_eq!(
            pool.run(4 * PIECE, || 7).await.0,
            7,
            "the whole budget is free"
        );
        assert_eq!(begun.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn memory_is_held_while_a_page_is_read_whose_caller_was_cancelled() {
        let pool = Arc::new(ReadingPool::start(2, 4 * PIECE));
        let (go_on, held) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let abandoned = Arc::clone(&pool);
        let abandoned = tokio::spawn(async move {
            let job = move || {
                let _ = started.send(());
                let _ = held.recv();
            };
            abandoned.run(3 * PIECE, job).await;
        });
        has_started.await.expect("the job");
        abandoned.abort();
        assert!(abandoned.await.is_err());
        assert_eq!(pool.budget.available_permits(), 1);
        go_on.send(()).expect("the job waits");
        assert_eq!(pool.run(4 * PIECE, || 7).await.0, 7);
    }

    #[tokio::test]
    async fn without_threads_pages_are_read_all_the_same() {
        let pool = ReadingPool::start(0, 4 * PIECE);
        assert_eq!(pool.run(PIECE, || 7).await.0, 7);
    }
}
