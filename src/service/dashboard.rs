//! Serves the dashboard: static files, compiled in.
//!
//! Invariant: a page loads nothing from elsewhere and runs no code but what is served here; browsers
//! enforce it by the `Content-Security-Policy` below.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use axum::routing::get;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and content.
type Asset = (&'static str, &'static str, &'static str);

const ASSETS: [Asset; 15] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("dashboard/index.html"),
    ),
    (
        "/dashboard.css",
        "text/css; charset=utf-8",
        include_str!("dashboard/dashboard.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("dashboard/icon.svg"),
    ),
    ("/api.js", JAVASCRIPT, include_str!("dashboard/api.js")),
    (
        "/charts.js",
        JAVASCRIPT,
        include_str!("dashboard/charts.js"),
    ),
    (
        "/dashboard.js",
        JAVASCRIPT,
        include_str!("dashboard/dashboard.js"),
    ),
    (
        "/elements.js",
        JAVASCRIPT,
        include_str!("dashboard/elements.js"),
    ),
    (
        "/evidence.js",
        JAVASCRIPT,
        include_str!("dashboard/evidence.js"),
    ),
    ("/live.js", JAVASCRIPT, include_str!("dashboard/live.js")),
    ("/queue.js", JAVASCRIPT, include_str!("dashboard/queue.js")),
    ("/site.js", JAVASCRIPT, include_str!("dashboard/site.js")),
    (
        "/site_list.js",
        JAVASCRIPT,
        include_str!("dashboard/site_list.js"),
    ),
    ("/topic.js", JAVASCRIPT, include_str!("dashboard/topic.js")),
    (
        "/topics.js",
        JAVASCRIPT,
        include_str!("dashboard/topics.js"),
    ),
    ("/words.js", JAVASCRIPT, include_str!("dashboard/words.js")),
];

/// All files of the dashboard. They contain no crawl results, so they need no token.
pub(super) fn router() -> Router {
    let mut router = Router::new();
    for asset in ASSETS {
        router = router.route(asset.0, get(async move || respond(asset)));
    }
    router
}

fn respond((_, kind, content): Asset) -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        // Revalidated, because a new version of the daemon has new pages.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, content)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_dashboard_is_served_and_loads_nothing_from_elsewhere() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/service/dashboard");
        let files = fs::read_dir(directory).unwrap();
        let files: BTreeSet<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        let served: BTreeSet<String> = ASSETS
            .iter()
            .map(|(path, ..)| match *path {
                "/" => "index.html".to_owned(),
                path => path.trim_start_matches('/').to_owned(),
            })
            .collect();
        assert_eq!(files, served);
        for (path, _, content) in ASSETS {
            for forbidden in [
                "src=\"http",
                "from \"http",
                "@import",
                "url(",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
            ] {
                assert!(!content.contains(forbidden), "{path}: {forbidden}");
            }
        }
    }
}
