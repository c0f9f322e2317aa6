//! spider as a program: reads all pages of the sites whose homepages are its arguments, after one of
//! - `crawl`: the leanest of its ways, which keeps no pages and only looks for links
//! - `subscribe`: each page is handed to a subscriber, who reads its bytes once and drops it. That is
//!   what programs do that want more than links.
//!
//! Prints how many pages were handed over, and their bytes.

use std::hint::black_box;

use mimalloc::MiMalloc;
use spider::page::Page;
use spider::website::Website;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::task::JoinSet;

/// The allocator that the README of spider recommends.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Requests to one site at once. On the web of the bench this is the fastest number that reads all
/// pages, with a third less CPU than by default and a quarter of the memory; with 1 some are missing.
const REQUESTS_PER_SITE: usize = 2;

/// Pages of a site that may wait for the subscriber. The channel overwrites further ones, so there is
/// room for all pages of a site.
const WAITING_PAGES: usize = 256;

/// What was handed to a subscriber.
#[derive(Default)]
struct Received {
    pages: usize,
    bytes: usize,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let subscribes = match arguments.next().as_deref() {
        Some("crawl") => false,
        Some("subscribe") => true,
        _ => panic!("the first argument is `crawl` or `subscribe`"),
    };
    let mut sites = JoinSet::new();
    for homepage in arguments {
        sites.spawn(async move {
            let mut site = Website::new(&homepage);
            site.with_respect_robots_txt(true)
                .with_delay(0)
                .with_concurrency_limit(Some(REQUESTS_PER_SITE));
            let pages = subscribes.then(|| site.subscribe(WAITING_PAGES));
            let subscriber = pages.map(|pages| tokio::spawn(read_all(pages)));
            site.crawl().await;
            // This closes the channel.
            drop(site);
            match subscriber {
                Some(subscriber) => subscriber.await.expect("all pages are received"),
                None => Received::default(),
            }
        });
    }
    let mut all = Received::default();
    for received in sites.join_all().await {
        all.pages += received.pages;
        all.bytes += received.bytes;
    }
    println!("{} pages, {} bytes", all.pages, all.bytes);
}

/// Reads each byte of each page once.
async fn read_all(mut pages: Receiver<Page>) -> Received {
    let mut received = Received::default();
    loop {
        match pages.recv().await {
            Ok(page) => {
                let body = page.get_html_bytes_u8();
                let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
                black_box(sum);
                received.pages += usize::from(!body.is_empty());
                received.bytes += body.len();
            }
            Err(RecvError::Lagged(lost)) => panic!("{lost} pages came faster than they were read"),
            Err(RecvError::Closed) => return received,
        }
    }
}
