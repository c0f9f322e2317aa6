//! spider as a program: reads all pages of the sites in its arguments.
//!
//! The leanest of its ways: `crawl` keeps no pages, and nobody subscribes to them, so it only looks
//! for links.

use mimalloc::MiMalloc;
use spider::website::Website;
use tokio::task::JoinSet;

/// The allocator that the README of spider recommends.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() {
    let limit: Option<usize> = std::env::var("LIMIT").ok().and_then(|l| l.parse().ok());
    let mut sites = JoinSet::new();
    for url in std::env::args().skip(1) {
        sites.spawn(async move {
            let mut site = Website::new(&url);
            site.with_respect_robots_txt(true).with_delay(0);
            if let Some(l) = limit {
                site.with_concurrency_limit(Some(l));
            }
            site.crawl().await;
        });
    }
    sites.join_all().await;
}
