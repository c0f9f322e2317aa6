//! Sockets for DNS queries, with a count of those refused for lack of descriptors.
//!
//! The resolver hides why a query failed: a refused descriptor surfaces as "no connections
//! available", as if all name servers were down. So refusals are counted where sockets are opened,
//! and a failed look-up can tell whether that was the reason.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_resolver::net::runtime::{RuntimeProvider, TokioRuntimeProvider};

use super::names::ConnectError;

type Tokio = TokioRuntimeProvider;

type Opening<S> = Pin<Box<dyn Send + Future<Output = io::Result<S>>>>;

/// Tokio's sockets. Clones share the count.
#[derive(Clone, Default)]
pub(super) struct NameSockets {
    tokio: Tokio,
    refusals: Arc<AtomicUsize>,
}

impl NameSockets {
    /// How many sockets were refused for lack of a descriptor.
    pub(super) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Acquire)
    }

    fn counted<S: 'static>(&self, opening: Opening<S>) -> Opening<S> {
        let refusals = Arc::clone(&self.refusals);
        Box::pin(async move {
            let opened = opening.await;
            if opened.as_ref().is_err_and(ConnectError::is_no_descriptor) {
                refusals.fetch_add(1, Ordering::Release);
            }
            opened
        })
    }
}

impl RuntimeProvider for NameSockets {
    type Handle = <Tokio as RuntimeProvider>::Handle;
    type Timer = <Tokio as RuntimeProvider>::Timer;
    type Udp = <Tokio as RuntimeProvider>::Udp;
    type Tcp = <Tokio as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Self::Handle {
        self.tokio.create_handle()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        local: Option<SocketAddr>,
        timeout: Option<Duration>,
    ) -> Opening<Self::Tcp> {
        self.counted(self.tokio.connect_tcp(server, local, timeout))
    }

    fn bind_udp(&self, local: SocketAddr, server: SocketAddr) -> Opening<Self::Udp> {
        self.counted(self.tokio.bind_udp(local, server))
    }
}
