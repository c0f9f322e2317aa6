//! Markup as browsers read it: the cases of the WHATWG standard that matter to us, hostile
//! pages, and properties over arbitrary bytes.

use proptest::prelude::*;
use sitescout::parse::{self, ParseLimits};
use sitescout::web::{ContentKind, LinkKind, PagePart, ParsedPage};

use crate::{LIMITS, html, page};

fn text(body: impl AsRef<[u8]>) -> String {
    html(body).text.visible()
}

fn links(page: &ParsedPage) -> Vec<String> {
    let intrinsic = page.intrinsic_links.iter().map(|link| &link.page);
    let transversal = page.transversal_links.iter().map(|link| &link.page);
    intrinsic
        .chain(transversal)
        .map(ToString::to_string)
        .collect()
}

#[test]
fn text_is_what_a_browser_shows() {
    for (body, shown) in [
        ("unclosed <b>tags <i>everywhere", "unclosed tags everywhere"),
        (
            "in<b>line</b> joins<br>breaks<p>part",
            "inline joins\nbreaks\npart",
        ),
        ("a<!-- > -->b<!-->c<!--->d<!-- x --!>e", "abcde"),
        ("<!-- never closed <p>gone", ""),
        ("<script>if (a</b) '</p>'</script>shown", "shown"),
        ("<script><!-- <script> </script> --></script>x", "x"),
        ("<style>p{content:'</p>'}</style>shown", "shown"),
        ("<title>a<b>c</title>shown", "shown"),
        ("<textarea><p>kept</textarea>after", "<p>kept\nafter"),
        ("<xmp><b>kept</b></xmp>after", "<b>kept</b>\nafter"),
        ("<plaintext>a</plaintext><b>", "a</plaintext><b>"),
        ("<noscript>no <b>scripts</b></noscript>", "no scripts"),
        ("<noframes>gone</noframes><noembed>gone</noembed>x", "x"),
        ("<iframe>gone <p></iframe>x", "x"),
        (
            "<template>gone<template>gone</template>gone</template>x",
            "x",
        ),
        ("<template>never closed", ""),
        (
            "&lt;&amp;&gt; &eacute; &#233; &#xe9; &#x80; &notit; &copy",
            "<&> é é é € ¬it; ©",
        ),
        ("a &nosuch; b &", "a &nosuch; b &"),
        ("1 < 2 <3 </> </ x>y", "1 < 2 <3 y"),
        ("a\0b", "ab"),
        ("<p title='>' data-x=\"<p>\">ok", "ok"),
        ("<p a=1 a=2 /b=3 =c>ok", "ok"),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "a\nb\nc\nd"),
        ("<form>a<form>b</form>c</form>d", "a\nb\nc\nd"),
        ("<select><option>a<option>b</select>", "a\nb"),
        ("<svg><title>t</title><style/>s</svg>x", "sx"),
        ("<svg><p>out of the drawing</svg>", "out of the drawing"),
        ("<svg><image href=a.png/><style/></svg><p>shown", "shown"),
        ("<svg><span>out</span><style>gone</style>", "out"),
        ("<svg><title>a <tspan>drawing</tspan></title></svg>x", "x"),
        ("<math><mi>x</mi></math>", "x"),
        (
            "<a href=x>Home</a><a href=y>About</a>, pre<a href=z>fix</a>",
            "Home About, prefix",
        ),
        ("<p>one\u{a0}\u{a0}two\n\t three", "one two three"),
    ] {
        let body = format!("<meta charset=utf-8>{body}");
        assert_eq!(text(&body), shown, "{body}");
    }
}

#[test]
fn links_are_found_wherever_they_are_made() {
    for (body, targets) in [
        ("<a href=x>", &["http://example.org/dir/x"][..]),
        ("<A HREF = '/y' >", &["http://example.org/y"]),
        (
            "<a href=\"?q=1&amp;r=2\">",
            &["http://example.org/dir/page.html?q=1&r=2"],
        ),
        ("<a href=\" x \n\">", &["http://example.org/dir/x"]),
        ("<a href=>", &["http://example.org/dir/page.html"]),
        ("<a href=#part>", &["http://example.org/dir/page.html"]),
        ("<area href=a>", &["http://example.org/dir/a"]),
        ("<frameset><frame src=f>", &["http://example.org/dir/f"]),
        ("<iframe src=i>", &["http://example.org/dir/i"]),
        (
            "<meta http-equiv=refresh content='0;r'>",
            &["http://example.org/dir/r"],
        ),
        (
            "<link rel='prefetch NEXT' href=n>",
            &["http://example.org/dir/n"],
        ),
        ("<base href=/b/><a href=x>", &["http://example.org/b/x"]),
        ("<a href=x><base href=/b/>", &["http://example.org/b/x"]),
        (
            "<base href='ftp://x/'><a href=y>",
            &["http://example.org/dir/y"],
        ),
        (
            "<base target=_top><base href=/b/><base href=/c/><a href=x>",
            &["http://example.org/b/x"],
        ),
        (
            "<a href=x><a href=./x#y><a href=x?utm_source=z>",
            &["http://example.org/dir/x"],
        ),
        ("<a href=//other.example>", &["http://other.example/"]),
        (
            "<a href=https://www.example.org/>",
            &["https://www.example.org/"],
        ),
        (
            "<a href=mailto:x><a href=javascript:x><a href=data:x><a href=tel:1>",
            &[],
        ),
        ("<a href='http://'><a href='http://a..b/'>", &[]),
        (
            "<noscript><iframe src=count></iframe><a href=x></noscript>",
            &["http://example.org/dir/x"],
        ),
        (
            "<noscript><meta http-equiv=refresh content='0;x'></noscript>",
            &[],
        ),
        (
            "<link rel=stylesheet href=x><img src=x><script src=x></script>",
            &[],
        ),
        (
            "<!-- <a href=x> --><script>'<a href=x>'</script><template><a href=x></template>",
            &[],
        ),
        ("<p href=x src=x><a name=x><a data-href=x>", &[]),
    ] {
        assert_eq!(links(&html(body)), targets, "{body}");
    }
}

#[test]
fn queries_are_written_in_the_charset_of_the_page() {
    let latin = html(b"<meta charset=iso-8859-1><a href='/\xe4?q=\xe4'>");
    assert_eq!(links(&latin), ["http://example.org/%C3%A4?q=%E4"]);
    let utf8 = html("<meta charset=utf-8><a href='/ä?q=ä'>");
    assert_eq!(links(&utf8), ["http://example.org/%C3%A4?q=%C3%A4"]);
}

#[test]
fn a_page_is_linked_once_whatever_the_spelling() {
    let page = html(
        "<a href=http://other.example/ rel=nofollow></a><a href=https://www.other.example/>Other</a>",
    );
    assert_eq!(links(&page), ["http://other.example/"]);
    assert_eq!(page.transversal_links[0].anchor, "Other");
    assert!(!page.transversal_links[0].nofollow);
}

#[test]
fn links_are_told_apart_by_site() {
    let page = html(
        "<a href=https://www.example.org/a>ours</a><a href=http://example.org:8080/>port</a>\
         <a href=http://sub.example.org/>sub</a><a href=http://EXAMPLE.org./b>dot</a>",
    );
    let intrinsic: Vec<&str> = page
        .intrinsic_links
        .iter()
        .map(|link| &*link.anchor)
        .collect();
    let transversal: Vec<&str> = page
        .transversal_links
        .iter()
        .map(|link| link.site.as_str())
        .collect();
    assert_eq!(intrinsic, ["ours", "dot"]);
    assert_eq!(transversal, ["example.org:8080", "sub.example.org"]);
}

#[test]
fn anchors_have_their_texts() {
    let anchor = |body: &str| html(body).intrinsic_links[0].anchor.clone();
    assert_eq!(anchor("<a href=x> two\n <b>words</b></a> no"), "two words");
    assert_eq!(anchor("<a href=x><img alt='the map'></a>"), "the map");
    assert_eq!(anchor("<a href=x>one<a href=y>two"), "one");
    assert_eq!(
        anchor("<table><td><a href=x><table><td>Button</table></a>"),
        "Button"
    );
    assert_eq!(
        anchor("<a href=x><table><td>one<td>two</table></a>three"),
        "one two"
    );
    assert_eq!(anchor("<table><td><a href=x>in</table>out"), "in");
    assert_eq!(anchor("<table><td><a href=x>cell<td>next"), "cell");
    assert_eq!(anchor("<a href=x><div>block</div> too</a>"), "block too");
    assert_eq!(anchor("<a href=x></a> <a href=x>later</a>"), "later");
    assert_eq!(anchor("<area href=x alt='the  pond'>"), "the pond");
    let long = anchor(&format!("<a href=x>{}", "é".repeat(10_000)));
    assert!(
        long.len() <= 256
            && long
                .chars()
                .all(|c| c == 'é' || c == '\u{fffd}' || c == 'Ã' || c == '©')
    );
}

#[test]
fn headings_end_where_they_end() {
    let heading = |body: &str| html(body).text.line(PagePart::Heading);
    assert_eq!(heading("<h1>a</h1>b"), "a");
    assert_eq!(heading("<h2>a</h1>b"), "a");
    assert_eq!(heading("<div><h1>a</div>b"), "a");
    assert_eq!(heading("<h1><div>a</div>b</h1>c"), "a b");
    assert_eq!(heading("<h1>a<h2>b</h2>c"), "a b");
    assert_eq!(heading("<h1><a href=x>a</a></h1>"), "a");
    assert_eq!(heading("<h1>a</p>b</h1>c"), "a b");
}

#[test]
fn nofollow_is_obeyed_on_links_and_pages() {
    let one = html("<a href=x rel='NoFollow noopener'>");
    assert!(one.intrinsic_links[0].nofollow && !one.robots.nofollow);
    for rel in ["ugc", "sponsored"] {
        assert!(html(format!("<a href=x rel={rel}>")).intrinsic_links[0].nofollow);
    }
    let vouched = html("<a href=x rel=nofollow><a href=x>");
    assert!(!vouched.intrinsic_links[0].nofollow);
    for content in ["nofollow", "noindex,NOFOLLOW", "none", "index, nofollow"] {
        let page = html(format!("<meta name=Robots content='{content}'><a href=x>"));
        assert!(
            page.robots.nofollow && page.intrinsic_links[0].nofollow,
            "{content}"
        );
    }
    assert!(html("<meta name=sitescout content=none>").robots.noindex);
    assert!(!html("<meta name=googlebot content=none>").robots.noindex);
}

#[test]
fn robots_headers_count_if_they_are_meant_for_us() {
    let robots = |value: &str| {
        let page = page(
            &[("content-type", "text/html"), ("x-robots-tag", value)],
            "<a href=x>",
        );
        parse::parse(&page, &LIMITS).robots
    };
    assert!(robots("noindex, nofollow").nofollow);
    assert!(robots("sitescout: nofollow").nofollow);
    assert!(!robots("otherbot: nofollow").nofollow);
    assert!(robots("max-snippet:20, nofollow, noindex").nofollow);
    assert!(robots("otherbot: noindex, sitescout: nofollow").nofollow);
    assert!(!robots("otherbot: noindex, nofollow").nofollow);
    assert!(robots("unavailable_after: 25 Jun 2010 15:00:00 PST, none").nofollow);
    let both = page(
        &[
            ("content-type", "text/html"),
            ("x-robots-tag", "otherbot: none"),
            ("x-robots-tag", "noindex"),
        ],
        "",
    );
    let robots = parse::parse(&both, &LIMITS).robots;
    assert!(robots.noindex && !robots.nofollow);
}

#[test]
fn a_refresh_header_is_a_link() {
    let page = page(
        &[("content-type", "text/html"), ("refresh", "0; url=/next")],
        "<a href=x>",
    );
    let parsed = parse::parse(&page, &LIMITS);
    assert_eq!(
        links(&parsed),
        ["http://example.org/next", "http://example.org/dir/x"]
    );
    assert_eq!(parsed.intrinsic_links[0].kind, LinkKind::Refresh);
}

#[test]
fn signs_are_seen_and_not_imagined() {
    let signs = |body: &str| html(body).signs.names().collect::<Vec<_>>();
    let long = "A long story about boats. ".repeat(200);
    assert_eq!(
        signs("<h1>Page not found</h1><p>Sorry. <a href=/>Home</a>"),
        ["soft_404"]
    );
    assert_eq!(
        signs("<title>404</title><p>Nothing here. <a href=/>Home</a>"),
        ["soft_404"]
    );
    assert_eq!(
        signs("<h1>Welcome to nginx!</h1><p>Further configuration is required."),
        ["parked"]
    );
    assert_eq!(
        signs("<script src=x></script><div id=root></div>"),
        ["empty_shell"]
    );
    assert_eq!(signs(""), ["empty_shell"]);
    assert!(signs(&format!("<h1>Page not found</h1><p>{long}")).is_empty());
    assert!(signs(&format!("<p>This domain is for sale. {long}")).is_empty());
    assert!(
        signs("<p>Lost and found: not found is a cat named Tom. <a href=/>Home</a>").is_empty()
    );
    assert!(signs("<frameset><frame src=a></frameset>").is_empty());
    assert!(
        signs("<meta http-equiv=refresh content='0;url=http://elsewhere.example/'>").is_empty()
    );
    let article =
        "<title>Command not found: how to fix it</title><p>Look at the path. <a href=/>x</a>";
    assert!(signs(article).is_empty());
    let mut missing = page(&[("content-type", "text/html")], "<h1>Not found</h1>");
    missing.status = http::StatusCode::NOT_FOUND;
    assert_eq!(parse::parse(&missing, &LIMITS).signs.names().count(), 0);
}

#[test]
fn plain_text_is_text_and_other_content_is_nothing() {
    let parsed = |content_type: &str, body: &[u8]| {
        parse::parse(&page(&[("content-type", content_type)], body), &LIMITS)
    };
    let plain = parsed("text/plain", b"one <a href=x>two</a>\nthree");
    assert_eq!(plain.text.visible(), "one <a href=x>two</a>\nthree");
    assert!(links(&plain).is_empty());
    let pdf = parsed("application/pdf", b"%PDF-1.4 <a href=x>two</a>");
    assert_eq!(pdf.content, ContentKind::Other);
    assert!(pdf.text.is_empty() && links(&pdf).is_empty());
    let lie = parsed("text/html", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR<a href=x>");
    assert_eq!(lie.content, ContentKind::Other);
}

#[test]
fn depth_costs_nothing() {
    let deep = "<div>".repeat(100_000) + "bottom" + &"</div>".repeat(100_000);
    assert_eq!(text(&deep), "bottom");
    let anchors = "<a href=x>".repeat(100_000);
    assert_eq!(html(&anchors).intrinsic_links.len(), 1);
    for nested in [
        "<b>",
        "<table><tr><td>",
        "<template>",
        "<svg>",
        "<h1>",
        "<form>",
        "<!--",
        "<ul><li>",
    ] {
        let _ = html(nested.repeat(50_000));
    }
}

fn numbered_links(count: usize) -> String {
    let links: Vec<String> = (0..count)
        .map(|number| format!("<a href={number}>"))
        .collect();
    links.concat()
}

#[test]
fn a_long_base_does_not_multiply() {
    let base = format!("<base href='/{}/'>", "b".repeat(1_000_000));
    let parsed = html(base + &numbered_links(2_000));
    assert_eq!(parsed.intrinsic_links.len(), 2_000);
    assert!(
        parsed
            .intrinsic_links
            .iter()
            .all(|link| link.page.as_str().len() < 100)
    );
}

#[test]
fn limits_hold() {
    let limits = ParseLimits {
        max_links: 10,
        max_url_bytes: 50,
    };
    let long = format!("<a href=/{}>", "x".repeat(100));
    let body = long + &numbered_links(100);
    let parsed = parse::parse(&page(&[("content-type", "text/html")], body), &limits);
    assert_eq!(parsed.intrinsic_links.len(), 10);
    assert_eq!(parsed.intrinsic_links[0].page.path(), "/dir/0");
}

/// Pieces of markup that meet each other in unlucky ways.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<",
        ">",
        "</",
        "/>",
        "<a href=",
        "<a href=x>",
        "</a>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "<style>",
        "<title>",
        "</title>",
        "<template>",
        "</template>",
        "<svg>",
        "</svg>",
        "<td>",
        "<h1>",
        "</h2>",
        "<p>",
        "&",
        "&amp",
        "&#x110000;",
        "&#0;",
        "\"",
        "'",
        "=",
        " ",
        "\n",
        "text",
        "é",
        "\u{a0}",
        "<base href=",
        "http://",
        "//x",
        "<meta charset=",
        "utf-16",
        "<noscript>",
        "<plaintext>",
        "<![CDATA[",
        "]]>",
        "<?xml ",
        "\0",
        "<iframe src=y>",
        "<textarea>",
        "<br/>",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_markup_gives_the_same_page_twice(body in pieces()) {
        let once = html(&body);
        prop_assert_eq!(&once, &html(&body));
        for link in &once.intrinsic_links {
            let site = link.page.site();
            prop_assert_eq!(site.as_str(), "example.org");
        }
        for link in &once.transversal_links {
            prop_assert_eq!(&link.page.site(), &link.site);
        }
    }

    #[test]
    fn any_bytes_give_a_page(
        body in prop::collection::vec(any::<u8>(), 0..2_000),
        content_type in prop::sample::select(vec![
            "text/html", "text/html; charset=utf-16", "text/plain", "application/xhtml+xml", "x", "",
        ]),
    ) {
        let parsed = parse::parse(&page(&[("content-type", content_type)], &body), &LIMITS);
        prop_assert!(parsed.text.len() <= 3 * body.len() + 100);
        let runs: usize = parsed.text.runs().map(|(_, run)| run.len()).sum();
        prop_assert_eq!(runs, parsed.text.len());
    }
}
