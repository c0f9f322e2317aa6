#!/usr/bin/env python3
"""How well our parser agrees with an independent one on real pages.

What is compared, on a sample of the HTML pages of an archive:
- links: the set of targets of a, area, frame, iframe, meta refresh and link rel=next,
  against those found in the tree that html5lib builds (the WHATWG reference algorithm)
- words: the bag of words of the visible text, against the text of the same tree

Both sides go through the same coarse normalisation of addresses (fragments, default ports,
percent-encoding, session and tracking parameters), because that is not what is measured.

Needs html5lib and warcio from PyPI, and a release build of sitescout:
    cargo build --release
    benches/agreement.py FILE.warc.gz [PAGES [--worst]]

`--worst` lists the pages that agree least.
"""

import collections
import json
import re
import subprocess
import sys
import urllib.parse

import html5lib
from warcio.archiveiterator import ArchiveIterator

HIDDEN = {"script", "style", "template", "noframes", "noembed", "iframe", "title", "head"}
INLINE = set(
    "a abbr acronym b bdi bdo big blink cite code data del dfn em font i img input ins kbd label "
    "mark nobr output q rp rt ruby s samp small span strike strong sub sup time tt u var wbr".split()
)
NOISE = re.compile(r"(?i)^(utm_.*|phpsessid|jsessionid|sid|s|gclid|fbclid|_ga|pk_.*)$")


def normal(address):
    """An address in normalised form."""
    try:
        parts = urllib.parse.urlsplit(address.strip())
        host = (parts.hostname or "").rstrip(".").encode("idna").decode()
        port = parts.port
    except (ValueError, UnicodeError):
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    path = re.sub(r";jsessionid=[^/?]*", "", parts.path, flags=re.I)
    segments = []
    for segment in path.split("/")[1:]:
        dots = urllib.parse.unquote(segment)
        if dots == "..":
            del segments[-1:]
        elif dots != ".":
            segments.append(segment)
    if path.endswith(("/.", "/..")):
        segments.append("")
    query = "&".join(
        p for p in parts.query.split("&") if p and not NOISE.match(p.split("=")[0])
    )
    if port in (80, 443):
        port = None
    path = urllib.parse.unquote("/" + "/".join(segments), errors="replace")
    return (host, port, path, urllib.parse.unquote_plus(query, errors="replace"))


def name(element):
    return element.tag.split("}")[-1] if isinstance(element.tag, str) else ""


def reference_links(tree, address):
    base = address
    for element in tree.iter():
        if name(element) == "base" and element.get("href") is not None:
            joined = urllib.parse.urljoin(address, element.get("href").strip())
            if joined.startswith("http"):
                base = joined
            break
    found = set()

    def add(reference):
        reference = re.sub(r"[\t\r\n]", "", reference.strip("\0 \t\r\n\x0c")).replace("\\", "/")
        try:
            found.add(normal(urllib.parse.urljoin(base, reference)))
        except ValueError:
            pass

    def walk(element):
        tag = name(element)
        if tag in ("template", "noframes"):
            return
        if tag in ("a", "area") and element.get("href") is not None:
            add(element.get("href"))
        elif tag in ("frame", "iframe") and element.get("src") is not None:
            add(element.get("src"))
        elif tag == "link" and "next" in (element.get("rel") or "").lower().split():
            if "canonical" not in (element.get("rel") or "").lower().split():
                add(element.get("href") or "")
        elif tag == "meta" and (element.get("http-equiv") or "").lower() == "refresh":
            match = re.match(
                r"\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(.*)", element.get("content") or "", re.I | re.S
            )
            if match and match.group(1).strip(" '\""):
                add(match.group(1).strip(" '\""))
        for child in element:
            walk(child)

    walk(tree)
    return found - {None}


def reference_words(tree):
    pieces = []

    def walk(element):
        tag = name(element)
        if tag and tag not in HIDDEN:
            apart = tag not in INLINE
            if apart:
                pieces.append(" ")
            pieces.append(element.text or "")
            for child in element:
                walk(child)
            if apart:
                pieces.append(" ")
        elif tag == "head":
            for child in element:
                walk(child)
        pieces.append(element.tail or "" if tag != "html" else "")

    walk(tree)
    return collections.Counter(re.sub(r"\0", "", "".join(pieces)).split())


def main():
    archive, wanted = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    command = ["target/release/sitescout", "archive", "--read", "--json", archive]
    ours = {}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]:
        page = json.loads(line)
        if page.get("content") == "html":
            ours[normal(page["url"])] = page
    step = max(1, len(ours) // wanted)
    links = collections.Counter()
    words = collections.Counter()
    pages = 0
    worst = []
    with open(archive, "rb") as stream:
        for number, record in enumerate(ArchiveIterator(stream)):
            address = record.rec_headers.get_header("WARC-Target-URI")
            page = ours.get(normal(address or ""))
            if number % step or page is None or record.http_headers is None:
                continue
            body = record.content_stream().read().decode(page["charset"], errors="replace")
            tree = html5lib.parse(body, treebuilder="etree", namespaceHTMLElements=True)
            pages += 1
            theirs = reference_links(tree, address)
            found = page["intrinsic_links"] + page["transversal_links"]
            mine = {normal(link["page"]) for link in found} - {None}
            links.update(both=len(mine & theirs), ours=len(mine - theirs), theirs=len(theirs - mine))
            their_words = reference_words(tree)
            my_words = collections.Counter(page["text"].split())
            common = sum((my_words & their_words).values())
            words.update(both=common, ours=my_words.total() - common, theirs=their_words.total() - common)
            apart = my_words.total() + their_words.total() - 2 * common + 5 * len(mine ^ theirs)
            words_apart = list((my_words - their_words).items())[:5], list((their_words - my_words).items())[:5]
            worst.append((apart, address, sorted(mine ^ theirs, key=str)[:4], *words_apart))
    print(f"{pages} pages of {archive}")
    for what, counts in (("links", links), ("words", words)):
        agreement = counts["both"] / max(1, counts.total())
        print(
            f"{what}: {counts['both']} in both, {counts['ours']} only ours, "
            f"{counts['theirs']} only html5lib's: agreement {agreement:.4f}"
        )
    if "--worst" in sys.argv:
        for row in sorted(worst, key=lambda row: -row[0])[:12]:
            print(*row)


if __name__ == "__main__":
    sys.setrecursionlimit(100_000)
    main()
