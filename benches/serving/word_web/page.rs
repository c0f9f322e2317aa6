//! The HTML of one page: prose and links within the markup of a website as a content management
//! system makes it.

use std::fmt::Write as _;

use rand::Rng;

use super::prose::{Topic, Vocabulary};

/// A link: its address and the text that it is known by.
pub(super) struct Link {
    pub(super) address: String,
    pub(super) anchor: String,
}

/// What is on a page.
pub(super) struct Content<'w> {
    pub(super) title: String,
    /// The prose.
    pub(super) words: Vec<&'w str>,
    /// The same links on all pages of a host.
    pub(super) navigation: &'w [Link],
    /// Links within the prose.
    pub(super) inline: Vec<Link>,
    /// Links beside the prose.
    pub(super) related: Vec<Link>,
}

/// A style sheet and a script, as they are found inside of pages.
const STYLE: &str = "\
:root{--ink:#1f2933;--paper:#fffdf8;--accent:#0b6e99;--rule:#d9e2ec}*{box-sizing:border-box}\
body{margin:0;font:17px/1.6 Georgia,serif;color:var(--ink);background:var(--paper)}\
.site-header{position:sticky;top:0;border-bottom:1px solid var(--rule);background:inherit}\
.site-header__inner,.layout,.site-footer__inner{max-width:72rem;margin:0 auto;padding:0 1.25rem}\
.menu{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;margin:0;padding:.75rem 0}\
.menu__link{color:inherit;text-decoration:none}.menu__link:hover{text-decoration:underline}\
.layout{display:grid;grid-template-columns:minmax(0,1fr) 18rem;gap:2.5rem}\
.entry__title{font-size:2.1rem;line-height:1.2;margin:1.5rem 0 .5rem}\
.entry__meta{color:#52606d;font-size:.9rem}.entry__text p{margin:0 0 1.1rem}\
.card{border:1px solid var(--rule);border-radius:.5rem;padding:.75rem 1rem;margin-bottom:.75rem}\
.card__link{font-weight:600;color:var(--accent)}@media(max-width:48rem){.layout{display:block}}";

const SCRIPT: &str = "\
(function(w,d){var s={open:false,seen:0};function q(a){return d.querySelectorAll(a)}\
function toggle(e){e.preventDefault();s.open=!s.open;d.body.classList.toggle('menu-open',s.open)}\
d.addEventListener('DOMContentLoaded',function(){var b=q('.menu-button');for(var i=0;i<b.length;i++)\
{b[i].addEventListener('click',toggle)}if('IntersectionObserver' in w){var o=new \
IntersectionObserver(function(x){x.forEach(function(y){if(y.isIntersecting&&!y.target.dataset.seen)\
{y.target.dataset.seen='1';s.seen+=1}})});q('.entry__text p').forEach(function(p){o.observe(p)})}});\
w.siteState=s})(window,document);";

/// What follows each text: buttons with inline icons, and a form.
const AFTER_THE_TEXT: &str = r#"
<div class="share" role="group" aria-label="Share"><span class="share__label">Share</span>
<button class="share__button share__button--copy" type="button" title="Copy the address"><svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path fill="currentColor" d="M16 1H4a2 2 0 0 0-2 2v14h2V3h12V1zm3 4H8a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h11a2 2 0 0 0 2-2V7a2 2 0 0 0-2-2zm0 16H8V7h11v14z"/></svg></button>
<button class="share__button share__button--mail" type="button" title="Send by mail"><svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path fill="currentColor" d="M20 4H4a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h16a2 2 0 0 0 2-2V6a2 2 0 0 0-2-2zm0 4-8 5-8-5V6l8 5 8-5v2z"/></svg></button>
<button class="share__button share__button--print" type="button" title="Print"><svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true"><path fill="currentColor" d="M19 8H5a3 3 0 0 0-3 3v6h4v4h12v-4h4v-6a3 3 0 0 0-3-3zm-3 11H8v-5h8v5zm3-7a1 1 0 1 1 0-2 1 1 0 0 1 0 2zm-1-9H6v4h12V3z"/></svg></button></div>
<form class="comment-form" method="post" action="/comments"><div class="comment-form__row"><label class="comment-form__label" for="author">Name</label><input class="comment-form__field" id="author" name="author" type="text" autocomplete="name"></div>
<div class="comment-form__row"><label class="comment-form__label" for="comment">Comment</label><textarea class="comment-form__field" id="comment" name="comment" rows="6" maxlength="4000"></textarea></div>
<button class="button button--primary" type="submit">Send</button></form>
"#;

/// Words between two links within the prose.
const WORDS_BETWEEN_LINKS: usize = 40;

// === impl Content ===

impl Content<'_> {
    pub(super) fn to_html(&self, random: &mut impl Rng) -> String {
        let mut html = String::with_capacity(16 << 10);
        let written = self.write(&mut html, random);
        written.expect("memory takes all");
        html
    }

    fn write(&self, html: &mut String, random: &mut impl Rng) -> std::fmt::Result {
        self.write_head(html)?;
        html.push_str(
            "<body class=\"page page--entry no-js\">\n<a class=\"skip\" href=\"#content\">Skip to \
             content</a>\n<header class=\"site-header\"><div class=\"site-header__inner\">\
             <button class=\"menu-button\" type=\"button\" aria-expanded=\"false\">Menu</button>\n\
             <nav class=\"site-nav\" aria-label=\"Main\"><ul class=\"menu menu--main\">\n",
        );
        for Link { address, anchor } in self.navigation {
            writeln!(
                html,
                "<li class=\"menu__item\"><a class=\"menu__link\" href=\"{address}\">{anchor}</a></li>"
            )?;
        }
        writeln!(
            html,
            "</ul></nav></div></header>\n<div class=\"layout\"><main id=\"content\" class=\"main\">\
             <article class=\"entry\" itemscope itemtype=\"https://schema.org/Article\">\n\
             <h1 class=\"entry__title\" itemprop=\"headline\">{0}</h1>\n\
             <div class=\"entry__meta\"><span class=\"entry__date\">16 November 2026</span> \
             <span class=\"entry__author\">Editors</span></div>\n\
             <figure class=\"entry__figure\"><img src=\"/media/cover-800.jpg\" \
             srcset=\"/media/cover-400.jpg 400w, /media/cover-800.jpg 800w\" width=\"800\" \
             height=\"450\" loading=\"lazy\" alt=\"{0}\"></figure>\n\
             <div class=\"entry__text\" itemprop=\"articleBody\">",
            self.title
        )?;
        self.write_prose(html, random)?;
        html.push_str("</div>");
        html.push_str(AFTER_THE_TEXT);
        html.push_str(
            "</article></main>\n<aside class=\"sidebar\"><h2 class=\"sidebar__title\">Read on\
             </h2>\n",
        );
        for Link { address, anchor } in &self.related {
            writeln!(
                html,
                "<div class=\"card\"><div class=\"card__body\"><a class=\"card__link\" \
                 href=\"{address}\">{anchor}</a></div></div>"
            )?;
        }
        html.push_str(
            "</aside></div>\n<footer class=\"site-footer\"><div class=\"site-footer__inner\">\
             <p class=\"site-footer__note\">All texts on this site are made up. &copy; 2026</p>\
             </div></footer>\n<script>",
        );
        html.push_str(SCRIPT);
        html.push_str("</script>\n</body>\n</html>\n");
        Ok(())
    }

    fn write_head(&self, html: &mut String) -> std::fmt::Result {
        let description = self.words[..self.words.len().min(24)].join(" ");
        write!(
            html,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>{0}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"description\" content=\"{description}\">\n\
             <meta property=\"og:title\" content=\"{0}\">\n\
             <meta property=\"og:type\" content=\"article\">\n\
             <meta property=\"og:description\" content=\"{description}\">\n\
             <link rel=\"icon\" href=\"/media/icon.svg\" type=\"image/svg+xml\">\n\
             <link rel=\"preload\" href=\"/media/text.woff2\" as=\"font\" type=\"font/woff2\" \
             crossorigin>\n\
             <link rel=\"stylesheet\" href=\"/media/site.css?v=31\" media=\"screen\">\n\
             <script type=\"application/ld+json\">{{\"@context\":\"https://schema.org\",\
             \"@type\":\"Article\",\"headline\":\"{0}\",\"description\":\"{description}\",\
             \"datePublished\":\"2026-11-16T09:00:00Z\",\"author\":{{\"@type\":\"Organization\",\
             \"name\":\"Editors\"}},\"image\":\"/media/cover-800.jpg\"}}</script>\n\
             <style>{STYLE}</style>\n</head>\n",
            self.title
        )
    }

    /// Sentences in paragraphs, with links here and there.
    fn write_prose(&self, html: &mut String, random: &mut impl Rng) -> std::fmt::Result {
        let mut links = self.inline.iter();
        let (mut left_in_sentence, mut left_in_paragraph) = (0, 0);
        for (at, word) in self.words.iter().enumerate() {
            if left_in_paragraph == 0 {
                html.push_str(if at == 0 { "\n<p>" } else { ".</p>\n<p>" });
                left_in_paragraph = random.gen_range(30..100);
                left_in_sentence = 0;
            } else if left_in_sentence == 0 {
                html.push_str(". ");
            } else {
                html.push(' ');
            }
            left_in_paragraph -= 1;
            if left_in_sentence == 0 {
                left_in_sentence = random.gen_range(6..26);
                html.push_str(&capitalised(word));
            } else {
                html.push_str(word);
            }
            left_in_sentence -= 1;
            if at % WORDS_BETWEEN_LINKS == WORDS_BETWEEN_LINKS / 2
                && let Some(Link { address, anchor }) = links.next()
            {
                write!(html, " <a href=\"{address}\">{anchor}</a>")?;
            }
        }
        html.push_str(".</p>\n<p class=\"entry__links\">");
        // The rest of a short page.
        for Link { address, anchor } in links {
            writeln!(html, "<a href=\"{address}\">{anchor}</a>")?;
        }
        html.push_str("</p>\n");
        Ok(())
    }
}

/// A short name for a page.
pub(super) fn name(vocabulary: &Vocabulary, topic: &Topic, random: &mut impl Rng) -> String {
    let words = random.gen_range(2..6);
    let words: Vec<&str> = (0..words).map(|_| vocabulary.word(topic, random)).collect();
    capitalised(&words.join(" "))
}

fn capitalised(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_ascii_uppercase() + rest
}
