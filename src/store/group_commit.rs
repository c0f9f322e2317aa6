//! One writer, and as many orders in each commit as came while the last one was under way.
//!
//! To sync a disk takes milliseconds, whatever the number of orders behind it. So orders
//! that wait are carried out together, applied at once and synced once; only then is any of
//! them answered.
//!
//! Invariant: an order is answered with success only after the engine has it, and after a
//! sync if it is one that promises durability. After an error of the engine nothing is
//! written any more: what is on the disk is whole, and what followed was never promised.

use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};

use super::engine::Engine;
use super::orders::Ledger;
use super::transaction::Transaction;
use super::{NewSite, Outcome, StoreError, TakenSite, TopicId, TopicOpening};

/// So many orders may wait.
const QUEUE_LENGTH: usize = 1_024;

/// So many orders share a commit, so that the first is not kept waiting by the last.
const GROUP_LENGTH: usize = 256;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer can be asked to do.
pub(super) enum Order {
    OpenTopic(TopicOpening, Reply<TopicId>),
    Enter(TopicId, Vec<NewSite>, Reply<usize>),
    Take(TopicId, usize, SystemTime, Reply<Vec<TakenSite>>),
    Record(Vec<Outcome>, Reply<Vec<Option<u64>>>),
}

/// A handle to the writer.
#[derive(Clone)]
pub(super) struct Writer {
    queue: mpsc::Sender<Order>,
}

/// An order that was carried out and waits to be answered.
type Answer = Box<dyn FnOnce(Option<&StoreError>) + Send>;

// === impl Writer ===

impl Writer {
    /// Starts the thread, after checking that the store is in order.
    pub(super) fn start(engine: Arc<dyn Engine>) -> Result<Self, StoreError> {
        let mut transaction = Transaction::new(&*engine);
        let ledger = Ledger::open(&mut transaction)?;
        transaction.accept_order();
        engine.apply(transaction.into_changes())?;
        engine.sync()?;
        let (queue, orders) = mpsc::channel(QUEUE_LENGTH);
        let started = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || run(&*engine, ledger, orders));
        match started {
            Ok(_) => Ok(Self { queue }),
            Err(error) => Err(StoreError::Closed(error.to_string())),
        }
    }

    /// Hands an order over and waits until it is carried out.
    pub(super) async fn order<T>(
        &self,
        order: impl FnOnce(Reply<T>) -> Order,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let gone = || StoreError::Closed("its thread has ended".to_owned());
        self.queue.send(order(reply)).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Works until every handle is dropped, or the engine fails.
fn run(engine: &dyn Engine, mut ledger: Ledger, mut orders: mpsc::Receiver<Order>) {
    let mut group = Vec::new();
    while orders.blocking_recv_many(&mut group, GROUP_LENGTH) > 0 {
        let mut transaction = Transaction::new(engine);
        let mut is_durable = false;
        let mut answers: Vec<Answer> = Vec::new();
        for order in group.drain(..) {
            is_durable |= !matches!(order, Order::Take(..));
            answers.push(carry_out(order, &mut ledger, &mut transaction));
        }
        let changes = transaction.into_changes();
        let committed = engine.apply(changes).and_then(|()| match is_durable {
            true => engine.sync(),
            false => Ok(()),
        });
        let failure = committed.err();
        for answer in answers {
            answer(failure.as_ref());
        }
        if let Some(error) = failure {
            tracing::error!(%error, "the store writes no more");
            // Whoever orders anything now learns that the thread is gone.
            return;
        }
    }
}

fn carry_out(
    order: Order,
    ledger: &mut Ledger,
    transaction: &mut Transaction<'_, dyn Engine>,
) -> Answer {
    match order {
        Order::OpenTopic(topic, reply) => {
            settle(ledger.open_topic(transaction, topic), transaction, reply)
        }
        Order::Enter(topic, sites, reply) => {
            settle(ledger.enter(transaction, topic, sites), transaction, reply)
        }
        Order::Take(topic, most, now, reply) => settle(
            ledger.take(transaction, topic, most, now),
            transaction,
            reply,
        ),
        Order::Record(outcomes, reply) => {
            settle(ledger.record(transaction, &outcomes), transaction, reply)
        }
    }
}

/// Keeps the changes of an order that went well, and makes ready to answer it.
fn settle<T: Send + 'static>(
    result: Result<T, StoreError>,
    transaction: &mut Transaction<'_, dyn Engine>,
    reply: Reply<T>,
) -> Answer {
    match result {
        Ok(_) => transaction.accept_order(),
        Err(_) => transaction.reject_order(),
    }
    Box::new(move |failure| {
        let result = match failure {
            Some(error) => Err(error.clone()),
            None => result,
        };
        // Whoever asked may have stopped waiting.
        let _ = reply.send(result);
    })
}
