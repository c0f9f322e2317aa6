//! Parsing and matching of robots.txt: by RFC 9309, and as leniently as Google does.
//!
//! Not the crate robotxt 0.7.0, because it overlooks the groups `sitescout/1.0` and `* all`,
//! lets a `Crawl-delay` between two names end the group, keeps control bytes in rules, and
//! fails examples of the RFC: `%2A`, `%24` and escapes in a query.
//!
//! Rule and target are compared in one spelling: unreserved characters plain, everything
//! else escaped, and raw only what gives a URL its structure. So `*` and `$` in a target are
//! always escaped, and in a pattern they are always special.
//!
//! Invariant: parsing never fails, and a check takes time linear in the rules and, per rule, in the
//! target.

use std::cmp::Reverse;
use std::time::Duration;

/// How much of a robots.txt is read (RFC 9309, section 2.5, requires at least this).
///
/// The client keeps one byte more, so that a truncated line can be told from a last line.
pub(super) const MAX_BYTES: usize = 500 * 1024;

/// With a longer delay the site would in effect never be visited again.
const MAX_CRAWL_DELAY: Duration = Duration::from_hours(24);

/// Characters whose escaped form means something else in a URL, so that both are told apart.
const STRUCTURE: &[u8] = b"/?&=+;";

/// The same in a pattern, where a star is a wildcard.
const PATTERN_STRUCTURE: &[u8] = b"/?&=+;*";

/// The rules of a robots.txt that apply to this crawler (RFC 9309).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RobotsRules {
    /// By precedence: the first rule that matches decides.
    rules: Box<[Rule]>,
    crawl_delay: Option<Duration>,
}

/// An `Allow` or `Disallow` line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// In canonical spelling. `*` is a wildcard, a `$` can only be the end.
    pattern: Box<str>,
    effect: RuleEffect,
}

/// Of two rules of one length, the lesser decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RuleEffect {
    Allow,
    Disallow,
}

/// The keys that are used; all other lines are ignored, wherever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    UserAgent,
    Rule(RuleEffect),
    CrawlDelay,
}

/// The rules for one user agent, merged from all its groups in the file.
#[derive(Default)]
struct Group {
    is_addressed: bool,
    /// Whether the line being read belongs to this group.
    is_open: bool,
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

// === impl RobotsRules ===

impl RobotsRules {
    /// For a site that has no robots.txt.
    pub(super) fn allow_all() -> Self {
        Self::from(Group::default())
    }

    /// Keeps the rules for `product_token`, or else those for `*`. Of a text longer than
    /// [`MAX_BYTES`] the rest is ignored, and so is the line that the limit cuts.
    pub(super) fn parse(text: &[u8], product_token: &str) -> Self {
        let text = within_limit(text);
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let our_token = token(product_token.as_bytes());
        let mut own = Group::default();
        let mut anyone = Group::default();
        let mut begins_group = true;
        let lines = text.split(|byte| ends_line(*byte));
        for (key, value) in lines.filter_map(read_line) {
            match key {
                Key::UserAgent => {
                    if begins_group {
                        own.is_open = false;
                        anyone.is_open = false;
                        begins_group = false;
                    }
                    let is_ours = token(value).eq_ignore_ascii_case(our_token);
                    own.address(is_ours && !our_token.is_empty());
                    anyone.address(is_anyone(value));
                }
                Key::Rule(effect) => {
                    begins_group = true;
                    own.add(effect, value);
                    anyone.add(effect, value);
                }
                // Unlike a rule, it may come between the names of a group.
                Key::CrawlDelay => {
                    own.slow_down(value);
                    anyone.slow_down(value);
                }
            }
        }
        Self::from(if own.is_addressed { own } else { anyone })
    }

    /// Whether a request may be sent. `target` is path and query as in a request line, as
    /// the `url` crate escapes them.
    pub(super) fn allows(&self, target: &str) -> bool {
        if self.rules.is_empty() {
            return true;
        }
        let spellings = spellings(target);
        if spellings.iter().any(|target| target == "/robots.txt") {
            return true;
        }
        self.rules
            .iter()
            .find(|rule| spellings.iter().any(|target| rule.matches(target)))
            .is_none_or(|rule| rule.effect == RuleEffect::Allow)
    }

    /// The `Crawl-delay`, a day at most.
    pub(super) fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// Approximate memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        let patterns: usize = self.rules.iter().map(|rule| rule.pattern.len()).sum();
        size_of::<Self>() + size_of_val(&*self.rules) + patterns
    }
}

impl From<Group> for RobotsRules {
    fn from(group: Group) -> Self {
        let mut rules = group.rules;
        rules.sort_unstable_by(|a, b| a.strength().cmp(&b.strength()));
        rules.dedup();
        Self {
            rules: rules.into_boxed_slice(),
            crawl_delay: group.crawl_delay,
        }
    }
}

// === impl Group ===

impl Group {
    fn address(&mut self, is_named: bool) {
        self.is_addressed |= is_named;
        self.is_open |= is_named;
    }

    fn add(&mut self, effect: RuleEffect, value: &[u8]) {
        if self.is_open {
            self.rules.extend(Rule::read(effect, value));
        }
    }

    /// Of several delays the longest applies.
    fn slow_down(&mut self, value: &[u8]) {
        if self.is_open {
            self.crawl_delay = self.crawl_delay.max(delay(value));
        }
    }
}

// === impl Rule ===

impl Rule {
    /// None for an empty value, which matches nothing.
    fn read(effect: RuleEffect, value: &[u8]) -> Option<Self> {
        if value.is_empty() {
            return None;
        }
        let body = value.strip_suffix(b"$");
        let mut pattern = canonical(body.unwrap_or(value), PATTERN_STRUCTURE);
        if !pattern.starts_with(['/', '*']) {
            pattern.insert(0, '/');
        }
        if body.is_some() {
            pattern.push('$');
        }
        Some(Self {
            pattern: pattern.into_boxed_str(),
            effect,
        })
    }

    /// Sorts the longest pattern first, and `Allow` first among equals.
    fn strength(&self) -> (Reverse<usize>, RuleEffect, &str) {
        (Reverse(self.pattern.len()), self.effect, &self.pattern)
    }

    /// Matches each piece between wildcards at its first occurrence: if the pattern matches at all,
    /// it matches this way, so no backtracking is needed.
    fn matches(&self, target: &str) -> bool {
        let (pattern, is_anchored) = match self.pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (&*self.pattern, false),
        };
        let (first, wild) = match pattern.split_once('*') {
            Some((first, wild)) => (first, Some(wild)),
            None => (pattern, None),
        };
        let Some(mut rest) = target.strip_prefix(first) else {
            return false;
        };
        let Some(wild) = wild else {
            return !is_anchored || rest.is_empty();
        };
        let (middle, last) = wild.rsplit_once('*').unwrap_or(("", wild));
        for piece in middle.split('*') {
            let Some(at) = rest.find(piece) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
        if is_anchored {
            rest.ends_with(last)
        } else {
            rest.contains(last)
        }
    }
}

// === impl Key ===

impl Key {
    /// Any case, any separator, and the misspellings of `Disallow` that Google forgives.
    fn named(name: &[u8]) -> Option<Self> {
        let letters: Vec<u8> = trim(name)
            .iter()
            .filter(|byte| !matches!(byte, b' ' | b'\t' | b'-' | b'_'))
            .map(u8::to_ascii_lowercase)
            .collect();
        match letters.as_slice() {
            b"useragent" => Some(Self::UserAgent),
            b"allow" => Some(Self::Rule(RuleEffect::Allow)),
            b"disallow" | b"dissallow" | b"dissalow" | b"disalow" | b"diasllow" | b"disallaw" => {
                Some(Self::Rule(RuleEffect::Disallow))
            }
            b"crawldelay" => Some(Self::CrawlDelay),
            _ => None,
        }
    }
}

fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

fn within_limit(text: &[u8]) -> &[u8] {
    match text.get(MAX_BYTES) {
        None => text,
        Some(next) if ends_line(*next) => &text[..MAX_BYTES],
        Some(_) => {
            let whole = &text[..MAX_BYTES];
            let end = whole.iter().rposition(|byte| ends_line(*byte));
            &whole[..end.unwrap_or(0)]
        }
    }
}

/// A line is `key: value # comment`, or `key value` if it is just these two words: longer
/// ones without a colon are prose.
fn read_line(line: &[u8]) -> Option<(Key, &[u8])> {
    let line = line.split(|byte| *byte == b'#').next()?;
    if let Some(colon) = line.iter().position(|byte| *byte == b':')
        && let Some(key) = Key::named(&line[..colon])
    {
        return Some((key, trim(&line[colon + 1..])));
    }
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .map(trim)
        .filter(|word| !word.is_empty());
    match (words.next(), words.next(), words.next()) {
        (Some(key), Some(value), None) => Some((Key::named(key)?, value)),
        _ => None,
    }
}

/// Without spaces and control bytes around it.
fn trim(mut text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| *byte == b' ' || byte.is_ascii_control();
    while let [byte, rest @ ..] = text
        && is_blank(byte)
    {
        text = rest;
    }
    while let [rest @ .., byte] = text
        && is_blank(byte)
    {
        text = rest;
    }
    text
}

/// The product token at the head of a name: `sitescout` of `sitescout/1.0 (+https://…)`.
fn token(name: &[u8]) -> &[u8] {
    let is_inside = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    let end = name.iter().position(|byte| !is_inside(byte));
    &name[..end.unwrap_or(name.len())]
}

fn is_anyone(name: &[u8]) -> bool {
    match name {
        [b'*'] => true,
        [b'*', next, ..] => next.is_ascii_whitespace(),
        _ => false,
    }
}

/// Seconds, perhaps with a fraction and a unit after a space.
fn delay(value: &[u8]) -> Option<Duration> {
    let number = value.split(u8::is_ascii_whitespace).next()?;
    let seconds: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    // Before clamping, because `min` takes a NaN for the maximum.
    if seconds.is_nan() {
        return None;
    }
    Duration::try_from_secs_f64(seconds.min(MAX_CRAWL_DELAY.as_secs_f64())).ok()
}

/// The spelling in which rules and targets are compared: unreserved characters (RFC 3986,
/// section 2.3) and the `kept` ones plain, all other bytes escaped with capital digits.
///
/// Reserved characters such as `'` are escaped too, as RFC 9309, section 2.2.2, requires: the
/// `url` crate escapes some of them in a query and leaves them plain in a path.
fn canonical(text: &[u8], kept: &[u8]) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let escaped = match (byte, tail) {
            (b'%', [high, low, after @ ..]) => hex(*high, *low).inspect(|_| rest = after),
            _ => None,
        };
        let is_plain = match escaped {
            Some(byte) => is_unreserved(byte),
            None => is_unreserved(*byte) || kept.contains(byte),
        };
        let byte = escaped.unwrap_or(*byte);
        if is_plain {
            spelled.push(char::from(byte));
        } else {
            spelled.push('%');
            for digit in [byte >> 4, byte & 0x0f] {
                spelled.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    spelled
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The target as written and, because slashes and question marks separate nothing within a
/// query (RFC 9309, section 2.2.2, second example), with all of these plain and all escaped.
/// The rule may have any of them, and where the query begins in a rule is not known.
fn spellings(target: &str) -> Vec<String> {
    let mut written = canonical(target.as_bytes(), STRUCTURE);
    if !written.starts_with('/') {
        written.insert(0, '/');
    }
    let Some((path, query)) = written.split_once('?') else {
        return vec![written];
    };
    let plain = query.replace("%2F", "/").replace("%3F", "?");
    let escaped = query.replace('/', "%2F").replace('?', "%3F");
    let (plain, escaped) = (format!("{path}?{plain}"), format!("{path}?{escaped}"));
    let mut spellings = vec![plain, written, escaped];
    spellings.dedup();
    spellings
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;
    use url::Url;

    use super::*;

    fn rules(text: &str) -> RobotsRules {
        RobotsRules::parse(text.as_bytes(), "sitescout")
    }

    /// What the given rule lines say to us.
    fn ours(lines: &str) -> RobotsRules {
        rules(&format!("User-agent: sitescout\n{lines}\n"))
    }

    fn assert_matches(pattern: &str, targets: &[&str]) {
        let disallowed = ours(&format!("Disallow: {pattern}"));
        for target in targets {
            assert!(!disallowed.allows(target), "{pattern} misses {target}");
        }
    }

    fn assert_misses(pattern: &str, targets: &[&str]) {
        let disallowed = ours(&format!("Disallow: {pattern}"));
        for target in targets {
            assert!(disallowed.allows(target), "{pattern} matches {target}");
        }
    }

    fn assert_verdicts(rules: &RobotsRules, allowed: &[&str], disallowed: &[&str]) {
        for target in allowed {
            assert!(rules.allows(target), "{target} is disallowed");
        }
        for target in disallowed {
            assert!(!rules.allows(target), "{target} is allowed");
        }
    }

    // --- The examples of RFC 9309 ---

    #[test]
    fn section_2_2_1_groups_of_one_token_are_one_group() {
        let text = "user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\n\
                    user-agent: ExampleBot\ndisallow: /baz\n";
        let merged = RobotsRules::parse(text.as_bytes(), "ExampleBot");
        assert_verdicts(&merged, &["/", "/qux"], &["/foo", "/bar", "/baz"]);
    }

    #[test]
    fn section_2_2_1_everybody_is_meant_where_nobody_is_named() {
        let text = "user-agent: *\ndisallow: /foo\ndisallow: /bar\n\n\
                    user-agent: BazBot\ndisallow: /baz\n";
        let example = RobotsRules::parse(text.as_bytes(), "ExampleBot");
        assert_verdicts(&example, &["/baz"], &["/foo", "/bar"]);
        let baz = RobotsRules::parse(text.as_bytes(), "BazBot");
        assert_verdicts(&baz, &["/foo", "/bar"], &["/baz"]);
        let named_only = "user-agent: BazBot\ndisallow: /\n";
        assert_eq!(rules(named_only), RobotsRules::allow_all());
    }

    #[test]
    fn section_2_2_2_paths_are_compared_in_one_encoding() {
        for spellings in [
            &["/foo/bar?baz=quz"][..],
            &[
                "/foo/bar?baz=https://foo.bar",
                "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
                "/foo/bar?baz=https%3a%2f%2ffoo.bar",
            ],
            &["/foo/bar/ツ", "/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"],
            &["/foo/bar/%62%61%7A", "/foo/bar/baz", "/foo/b%61r/b%61z"],
        ] {
            for rule in spellings {
                assert_matches(rule, spellings);
                assert_matches(&format!("{rule}$"), spellings);
            }
        }
    }

    #[test]
    fn section_2_2_3_special_characters_are_special_unless_escaped() {
        let text = "allow: / # comment in line\n# comment on its own line\ndisallow: /a";
        assert_verdicts(&ours(text), &["/", "/b"], &["/a"]);
        assert_matches("/this/path/exactly$", &["/this/path/exactly"]);
        assert_misses("/this/path/exactly$", &["/this/path/exactly/so"]);
        assert_matches(
            "/this/*/exactly",
            &["/this/a/exactly", "/this/a/b/exactly/c", "/this//exactly"],
        );
        assert_misses("/this/*/exactly", &["/this/exactly"]);
        assert_matches(
            "/path/file-with-a-%2A.html",
            &["/path/file-with-a-*.html", "/path/file-with-a-%2a.html"],
        );
        assert_misses("/path/file-with-a-%2A.html", &["/path/file-with-a-b.html"]);
        assert_matches("/path/foo-%24", &["/path/foo-$", "/path/foo-$1"]);
        assert_misses("/path/foo-%24", &["/path/foo-"]);
    }

    #[test]
    fn section_5_1_the_simple_example() {
        let text = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
                    User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\n\
                    Allow:/example/allowed.gif\n\n\
                    User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
                    User-Agent: quxbot\n\nEOF\n";
        for (token, allowed, disallowed) in [
            (
                "sitescout",
                &["/", "/publications/", "/a.gif?b", "/publications/a.gif"][..],
                &["/a.gif", "/b/a.gif", "/example/", "/example/page.html"][..],
            ),
            (
                "foobot",
                &["/example/page.html", "/example/allowed.gif"],
                &["/", "/example/", "/publications/"],
            ),
            (
                "barbot",
                &["/", "/a.gif", "/example/"],
                &["/example/page.html"],
            ),
            (
                "bazbot",
                &["/", "/a.gif", "/example/"],
                &["/example/page.html"],
            ),
            ("quxbot", &["/", "/a.gif", "/example/page.html"], &[]),
        ] {
            let rules = RobotsRules::parse(text.as_bytes(), token);
            assert_verdicts(&rules, allowed, disallowed);
        }
    }

    #[test]
    fn section_5_2_the_longest_match_decides() {
        let text = "User-Agent: foobot\nAllow: /example/page/\n\
                    Disallow: /example/page/disallowed.gif\n";
        let rules = RobotsRules::parse(text.as_bytes(), "foobot");
        assert_verdicts(
            &rules,
            &["/example/page/", "/example/page/allowed.gif"],
            &["/example/page/disallowed.gif"],
        );
    }

    // --- Which group applies ---

    #[test]
    fn a_name_is_compared_by_its_token() {
        for name in [
            "sitescout",
            "SiteScout",
            "sitescout/1.0",
            "sitescout foo",
            "Sitescout/2 (+https://example.org)",
            "sitescout*",
        ] {
            let rules = rules(&format!("User-agent: {name}\nDisallow: /\n"));
            assert!(!rules.allows("/a"), "{name}");
        }
        for name in [
            "sitescoutbot",
            "site",
            "sitescout-bot",
            "a sitescout",
            "*bot",
            "",
        ] {
            let rules = rules(&format!("User-agent: {name}\nDisallow: /\n"));
            assert_eq!(rules, RobotsRules::allow_all(), "{name}");
        }
        for name in ["*", "* all of you", "*\t"] {
            let rules = rules(&format!("User-agent: {name}\nDisallow: /\n"));
            assert!(!rules.allows("/a"), "{name}");
        }
    }

    #[test]
    fn a_crawler_without_a_token_is_anybody() {
        let text = b"User-agent:\nDisallow: /a\nUser-agent: *\nDisallow: /b\n";
        for token in ["", "*", "/1.0"] {
            assert_verdicts(&RobotsRules::parse(text, token), &["/a"], &["/b"]);
        }
    }

    #[test]
    fn an_own_group_silences_what_is_said_to_everybody() {
        let text = "User-agent: *\nDisallow: /\nCrawl-delay: 5\nUser-agent: sitescout\n";
        assert_eq!(rules(text), RobotsRules::allow_all());
        let text = "User-agent: sitescout\nDisallow:\nUser-agent: *\nDisallow: /\n";
        assert_eq!(rules(text), RobotsRules::allow_all());
    }

    #[test]
    fn one_group_can_name_several_crawlers() {
        let text = "User-agent: a\nUser-agent: sitescout\n\nUser-agent: *\nDisallow: /x\n\
                    User-agent: b\nDisallow: /y\n";
        assert_verdicts(&rules(text), &["/y"], &["/x"]);
    }

    #[test]
    fn lines_of_other_kinds_do_not_end_the_names_of_a_group() {
        for line in [
            "Sitemap: https://example.org/sitemap.xml",
            "Host: example.org",
            "Crawl-delay: 10",
            "Noindex: /a",
            "nonsense",
            "# comment",
            "",
        ] {
            let text = format!("User-agent: sitescout\n{line}\nUser-agent: b\nDisallow: /x\n");
            assert!(!rules(&text).allows("/x"), "{line}");
            let text = format!("User-agent: sitescout\nDisallow: /x\n{line}\nDisallow: /y\n");
            assert!(!rules(&text).allows("/y"), "{line}");
        }
    }

    #[test]
    fn a_rule_without_a_value_ends_the_names_of_a_group() {
        let text = "User-agent: sitescout\nDisallow:\nUser-agent: b\nDisallow: /\n";
        assert!(rules(text).allows("/x"));
    }

    #[test]
    fn rules_that_are_said_to_nobody_are_ignored() {
        let text = "Disallow: /\nCrawl-delay: 5\nUser-agent: *\nDisallow: /x\n";
        assert_verdicts(&rules(text), &["/a"], &["/x"]);
        assert_eq!(rules(text).crawl_delay(), None);
    }

    // --- How lines are read ---

    #[test]
    fn lines_are_read_in_any_dress() {
        for line in [
            "disallow: /x",
            "DISALLOW:/x",
            "  Disallow\t:\t/x  ",
            "Disallow /x",
            "Disallow\t/x",
            "Disallow: /x#y",
            "Disallow: /x # y",
            "Disallow /x # y",
            "\x0bDisallow: \x01/x\x02",
            "Disallow: /x\0",
            "Disallow: x",
            "dissallow: /x",
            "dissalow: /x",
            "disalow: /x",
            "diasllow: /x",
            "disallaw: /x",
        ] {
            assert_verdicts(&ours(line), &["/a"], &["/x"]);
        }
        for name in ["user-agent", "useragent", "User Agent", "USER-AGENT"] {
            let text = format!("{name}: sitescout\nDisallow: /x\n");
            assert!(!rules(&text).allows("/x"), "{name}");
        }
        assert!(!rules("User-agent sitescout\nDisallow /x").allows("/x"));
        assert!(!ours("Disallow /x:y").allows("/x:y"));
    }

    #[test]
    fn what_is_no_rule_is_no_rule() {
        for line in [
            "Disallow:",
            "Disallow: # /",
            "Allow:",
            "Disallow",
            "# Disallow: /",
            "Disallow / for all bad robots",
            "Disallowed: /",
            "Please disallow: /",
            "<b>Disallow: /</b>",
            "\"Disallow\": \"/\"",
        ] {
            assert_eq!(ours(line), RobotsRules::allow_all(), "{line}");
        }
    }

    #[test]
    fn every_line_ending_ends_a_line() {
        for ending in ["\n", "\r", "\r\n", "\n\r", "\r\r\n", "\0", "\n\n\n"] {
            let lines = ["User-agent: sitescout", "Disallow: /x", "Allow: /x/y"];
            let rules = rules(&lines.join(ending));
            assert_verdicts(&rules, &["/", "/x/y"], &["/x", "/x/z"]);
        }
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_line() {
        assert!(!rules("\u{feff}User-agent: *\nDisallow: /x").allows("/x"));
    }

    #[test]
    fn a_page_in_place_of_a_robots_txt_says_nothing() {
        let page = "<!DOCTYPE html>\n<html><head><title>Not found</title>\n\
                    <script>var rules = {\n  disallow: '/',\n  allow: '/a'\n}</script>\n\
                    <body>User-agent: *<br>Disallow: /<br></body></html>\n";
        assert_eq!(rules(page), RobotsRules::allow_all());
    }

    #[test]
    fn what_is_beyond_the_limit_is_not_read() {
        let head = "User-agent: *\nDisallow: /first\n";
        let at_limit = "Disallow: /last";
        let padding = "#".repeat(MAX_BYTES - head.len() - at_limit.len() - 1);
        let full = format!("{head}{padding}\n{at_limit}");
        assert_eq!(full.len(), MAX_BYTES);
        assert_verdicts(&rules(&full), &[], &["/first", "/last", "/last-1"]);
        let more = format!("{full}\nDisallow: /more\n");
        assert_verdicts(&rules(&more), &["/more"], &["/first", "/last"]);
        let cut = format!("{full}-of-all\n");
        assert_verdicts(&rules(&cut), &["/last", "/last-of-all"], &["/first"]);
        let endless = format!("{}{head}", "#".repeat(MAX_BYTES));
        assert_eq!(rules(&endless), RobotsRules::allow_all());
    }

    // --- What a rule matches ---

    #[test]
    fn the_longest_rule_decides_and_allow_wins_a_tie() {
        let nested = ours("Disallow: /\nAllow: /a\nDisallow: /a/b\nAllow: /a/b/c$");
        assert_verdicts(&nested, &["/a", "/a/b/c"], &["/", "/x", "/a/b", "/a/b/cd"]);
        for tie in ["Disallow: /x\nAllow: /x", "Allow: /x\nDisallow: /x"] {
            assert!(ours(tie).allows("/x"));
        }
        let in_octets = ours("Allow: /ä\nDisallow: /*abc");
        assert!(
            in_octets.allows("/%C3%A4abc"),
            "`/%C3%A4` is longer than `/*abc`"
        );
        let spelled_differently = ours("Disallow: /%7Eann\nAllow: /~ann");
        assert!(spelled_differently.allows("/~ann"));
    }

    #[test]
    fn wildcards_match_any_run_of_characters() {
        assert_matches("*", &["/", "/a"]);
        assert_matches("/*", &["/", "/a"]);
        assert_matches("/a*", &["/a", "/ab"]);
        assert_matches("/**b", &["/b", "/ab"]);
        assert_matches("*.php", &["/a.php", "/b/a.php5", "/?c=.php"]);
        assert_matches("/*.php$", &["/a.php", "/a.php.php"]);
        assert_misses("/*.php$", &["/a.php?b", "/a.php/", "/aphp"]);
        assert_matches("/*ab*ab$", &["/abab", "/abxab"]);
        assert_misses("/*ab*ab$", &["/ab", "/xaba"]);
        assert_misses("/*aba*ba$", &["/aba", "/abab"]);
        assert_matches("/a*$", &["/a", "/abc"]);
        assert_matches("/*?", &["/?", "/a?b"]);
        assert_misses("/*?", &["/", "/a%3Fb"]);
    }

    #[test]
    fn a_dollar_is_special_only_at_the_end() {
        assert_matches("/a$b", &["/a$b", "/a%24bc"]);
        assert_misses("/a$b", &["/a", "/ab"]);
        assert_matches("/$", &["/"]);
        assert_misses("/$", &["/a", "/?a"]);
        assert_matches("/a$$", &["/a$"]);
        assert_misses("/a$$", &["/a", "/a$b"]);
        assert_matches("$", &["/"]);
    }

    #[test]
    fn escapes_are_compared_by_what_they_mean() {
        let angle = ["/a%3cd.html", "/a%3Cd.html", "/a<d.html"];
        let tilde = ["/~joe", "/%7Ejoe", "/%7ejoe"];
        let utf8 = ["/ツ", "/%E3%83%84", "/%e3%83%84"];
        let space = ["/a b", "/a%20b"];
        let bar = ["/a|b", "/a%7Cb"];
        let quote = ["/a?b='c'", "/a?b=%27c%27"];
        let percent = ["/100%", "/100%25"];
        let broken = ["/a%zz", "/a%25zz"];
        for spellings in [
            &angle[..],
            &tilde,
            &utf8,
            &space,
            &bar,
            &quote,
            &percent,
            &broken,
        ] {
            for rule in spellings {
                assert_matches(rule, spellings);
            }
        }
        let latin1 = b"User-agent: *\nDisallow: /\xe4\n";
        assert!(!RobotsRules::parse(latin1, "sitescout").allows("/%E4"));
    }

    #[test]
    fn an_escaped_separator_separates_nothing() {
        assert_misses("/a%2Fb", &["/a/b"]);
        assert_misses("/a/b", &["/a%2Fb"]);
        assert_misses("/a%3Fb", &["/a?b"]);
        assert_misses("/?a=b%26c", &["/?a=b&c"]);
        assert_misses("/?a=b%2Bc", &["/?a=b+c"]);
    }

    #[test]
    fn queries_are_part_of_the_target() {
        assert_matches("/a?b=", &["/a?b=c"]);
        assert_misses("/a?b=", &["/a", "/a?c&b="]);
        assert_matches("/*?*sort=", &["/a?sort=1", "/a?b=c&sort=1"]);
        assert_matches("/*/feed", &["/?back=/feed", "/?back=%2Ffeed"]);
        assert_matches("*back=%2Ffeed", &["/?back=%2Ffeed", "/?back=/feed"]);
    }

    #[test]
    fn robots_txt_is_always_allowed_and_nothing_beside_it() {
        let none = ours("Disallow: /");
        assert_verdicts(
            &none,
            &["/robots.txt"],
            &["/", "/a", "/a/robots.txt", "/robots.txt5"],
        );
        assert!(ours("Disallow: /robots.txt").allows("/robots.txt"));
        assert_verdicts(&RobotsRules::allow_all(), &["/", "/a", "/robots.txt"], &[]);
    }

    /// Backtracking over every wildcard would take exponential time here.
    #[test]
    fn wildcards_in_great_number_do_no_harm() {
        let mut text = String::from("User-agent: *\n");
        for number in 0..5_000 {
            writeln!(text, "Disallow: /{}{number}$", "*a".repeat(40)).unwrap();
        }
        let path = format!("/{}", "a".repeat(2_000));
        assert!(text.len() < MAX_BYTES);
        assert!(rules(&text).allows(&path));
        assert_misses(&format!("/{}b$", "*a".repeat(10_000)), &[&path]);
        assert_matches(&format!("/{}$", "*a".repeat(1_000)), &[&path]);
        assert_matches(&format!("/{}", "*".repeat(100_000)), &[&path]);
    }

    // --- The rest ---

    #[test]
    fn a_crawl_delay_is_a_sane_number_of_seconds() {
        for (value, delay) in [
            ("10", Some(Duration::from_secs(10))),
            ("0.5", Some(Duration::from_millis(500))),
            (".25 # slowly", Some(Duration::from_millis(250))),
            ("3 seconds", Some(Duration::from_secs(3))),
            ("0", Some(Duration::ZERO)),
            ("-0", Some(Duration::ZERO)),
            ("86401", Some(MAX_CRAWL_DELAY)),
            ("1e300", Some(MAX_CRAWL_DELAY)),
            ("99999999999999999999999999", Some(MAX_CRAWL_DELAY)),
            ("-1", None),
            ("-inf", None),
            ("NaN", None),
            ("soon", None),
            ("1,5", None),
            ("", None),
        ] {
            let rules = ours(&format!("Crawl-delay: {value}"));
            assert_eq!(rules.crawl_delay(), delay, "{value}");
        }
        assert_eq!(
            ours("crawl-delay: 2\nDisallow: /x\nCrawl delay: 3\nCrawl-delay: x").crawl_delay(),
            Some(Duration::from_secs(3)),
        );
    }

    #[test]
    fn a_crawl_delay_is_for_the_group_it_stands_in() {
        let text = "User-agent: *\nCrawl-delay: 9\nDisallow:\n\
                    User-agent: sitescout\nCrawl-delay: 1\nDisallow:\n\
                    User-agent: b\nCrawl-delay: 7\n";
        assert_eq!(rules(text).crawl_delay(), Some(Duration::from_secs(1)));
        let before_our_name =
            "User-agent: b\nCrawl-delay: 7\nUser-agent: sitescout\nDisallow: /x\n";
        assert_eq!(rules(before_our_name).crawl_delay(), None);
    }

    #[test]
    fn only_what_is_said_to_us_is_kept() {
        let mut text = String::from("User-agent: sitescout\nDisallow: /x\nUser-agent: *\n");
        for number in 0..10_000 {
            writeln!(text, "Disallow: /{number}").unwrap();
        }
        assert!(rules(&text).weight() < 200);
        assert!(RobotsRules::parse(text.as_bytes(), "other").weight() > 100_000);
        let repeated = ours(&"Disallow: /x\n".repeat(10_000));
        assert_eq!(repeated, ours("Disallow: /x"));
    }

    /// A pattern against a target, straight from the definition.
    fn matches_by_definition(pattern: &[u8], target: &[u8]) -> bool {
        match (pattern, target) {
            ([], _) | ([b'$'], []) => true,
            ([b'*', rest @ ..], _) => {
                (0..=target.len()).any(|at| matches_by_definition(rest, &target[at..]))
            }
            ([wanted, rest @ ..], [found, tail @ ..]) => {
                wanted == found && matches_by_definition(rest, tail)
            }
            _ => false,
        }
    }

    /// Some of the unreserved characters escaped, in either case.
    fn escaped(pieces: &[(&str, u8)]) -> String {
        let mut text = String::new();
        for (piece, dress) in pieces {
            match (piece.as_bytes(), dress) {
                ([byte], 1) if is_unreserved(*byte) => write!(text, "%{byte:02x}").unwrap(),
                ([byte], 2) if is_unreserved(*byte) => write!(text, "%{byte:02X}").unwrap(),
                _ => text.push_str(piece),
            }
        }
        text
    }

    fn plain(pieces: &[(&str, u8)]) -> String {
        pieces.iter().map(|(piece, _)| *piece).collect()
    }

    fn pieces(
        of: &'static [&'static str],
        most: usize,
    ) -> impl Strategy<Value = Vec<(&'static str, u8)>> {
        prop::collection::vec((prop::sample::select(of), 0u8..3), 0..most)
    }

    const TARGET_PIECES: &[&str] = &["a", "b", "~", "-", "/", "?", "%2F", "%3c", "&", "="];
    const RULE_PIECES: &[&str] = &["a", "b", "~", "-", "/", "?", "%2F", "%3c", "*", "$"];

    proptest! {
        #[test]
        fn any_bytes_are_read_and_answered(
            text in prop::collection::vec(any::<u8>(), 0..300),
            token in "\\PC{0,10}",
            target in "\\PC{0,40}",
        ) {
            let mut group = b"User-agent: *\nDisallow: ".to_vec();
            group.extend(&text);
            for text in [text, group] {
                let rules = RobotsRules::parse(&text, &token);
                rules.allows(&target);
                prop_assert!(rules.allows("/robots.txt"));
                prop_assert!(rules.crawl_delay() <= Some(MAX_CRAWL_DELAY));
            }
        }

        #[test]
        fn escaping_unreserved_characters_changes_no_answer(
            lines in prop::collection::vec((any::<bool>(), pieces(RULE_PIECES, 6)), 0..6),
            target in pieces(TARGET_PIECES, 10),
        ) {
            let written = |spell: fn(&[(&str, u8)]) -> String| {
                let mut text = String::new();
                for (is_allow, pieces) in &lines {
                    let key = if *is_allow { "Allow" } else { "Disallow" };
                    writeln!(text, "{key}: /{}", spell(pieces)).unwrap();
                }
                ours(&text)
            };
            let (plain_rules, escaped_rules) = (written(plain), written(escaped));
            prop_assert_eq!(&plain_rules, &escaped_rules);
            let (plain_target, escaped_target) = (plain(&target), escaped(&target));
            prop_assert_eq!(
                plain_rules.allows(&format!("/{plain_target}")),
                escaped_rules.allows(&format!("/{escaped_target}")),
            );
        }

        #[test]
        fn a_rule_that_is_the_target_matches_it(path in "\\PC{0,30}", query in "\\PC{0,30}") {
            let mut url = Url::parse("http://example.org/").unwrap();
            url.set_path(&path);
            url.set_query(Some(&query));
            let target = &url[url::Position::BeforePath..];
            prop_assume!(!target.ends_with('$') && target != "/robots.txt");
            let rules = ours(&format!("Disallow: {target}"));
            prop_assert!(!rules.allows(target));
        }

        #[test]
        fn a_rule_matches_its_address_as_the_url_crate_escapes_it(
            path in "[\\p{L}\\p{N}~_|<>{}^`'\"()!,:;@\\[\\] -]{0,30}",
        ) {
            let url = Url::parse(&format!("http://example.org/x{path}x?y={path}y")).unwrap();
            let target = &url[url::Position::BeforePath..];
            let rules = ours(&format!("Disallow: /x{path}x?y={path}y$"));
            prop_assert!(!rules.allows(target), "{}", target);
        }

        #[test]
        fn patterns_match_as_they_are_defined(
            pattern in "/[ab*]{0,8}\\$?",
            target in "/[ab]{0,10}",
        ) {
            prop_assert_eq!(
                !ours(&format!("Disallow: {pattern}")).allows(&target),
                matches_by_definition(pattern.as_bytes(), target.as_bytes()),
            );
        }
    }
}
