//! Platforms: domains below which each name has another owner.
//!
//! The private part of the public suffix list has such domains, but only those whose owners
//! requested it. The table here adds hosts of blogs, homepages, shops, wikis and forums that give
//! each author a subdomain. Without it all authors of one platform would share the limits of one
//! domain, and their recommendations would count as one.
//!
//! The table repeats nothing that the list has; a test fails when the list catches up. A platform
//! with its authors in the path (`example.org/~alice`) is one site and does not belong here.
//!
//! Operators can configure more. The table is a value passed to the store, where domains are
//! counted, and not global state: two stores in one process may differ.

use std::collections::BTreeSet;

use super::SiteId;

/// Sorted by bytes, for binary search.
const SHIPPED: &[&str] = &[
    "20m.com",
    "3dn.ru",
    "50megs.com",
    "8m.com",
    "amebaownd.com",
    "aminus3.com",
    "angelfire.com",
    "art.blog",
    "at.ua",
    "atspace.com",
    "bandcamp.com",
    "beehiiv.com",
    "beepworld.de",
    "bigcartel.com",
    "blog.fc2.com",
    "blog.hu",
    "blog.ir",
    "blog4ever.com",
    "blogfa.com",
    "blogg.no",
    "blogg.se",
    "blogia.com",
    "blogs.com",
    "blogs.sapo.pt",
    "blogsky.com",
    "blot.im",
    "boards.net",
    "booklikes.com",
    "bravesites.com",
    "business.blog",
    "buzzsprout.com",
    "canalblog.com",
    "car.blog",
    "cargo.site",
    "centerblog.net",
    "chez.com",
    "ck.page",
    "clan.su",
    "clubexpress.com",
    "cocolog-nifty.com",
    "code.blog",
    "company.site",
    "createaforum.com",
    "data.blog",
    "de.tl",
    "design.blog",
    "do.am",
    "dreamwidth.org",
    "e-monsite.com",
    "edublogs.org",
    "eklablog.com",
    "emyspot.com",
    "epizy.com",
    "es.tl",
    "estranky.cz",
    "exblog.jp",
    "family.blog",
    "fandom.com",
    "fashion.blog",
    "film.blog",
    "finance.blog",
    "fitness.blog",
    "food.blog",
    "format.com",
    "forumactif.com",
    "forumactif.org",
    "forumcommunity.net",
    "forumfree.it",
    "forumotion.com",
    "fr.gd",
    "free.fr",
    "freeforums.net",
    "freeservers.com",
    "game.blog",
    "ghost.io",
    "glitch.me",
    "godaddysites.com",
    "gportal.hu",
    "gumroad.com",
    "hashnode.dev",
    "hautetfort.com",
    "health.blog",
    "home.blog",
    "homestead.com",
    "hpage.com",
    "hypotheses.org",
    "infinityfreeapp.com",
    "insanejournal.com",
    "it.gg",
    "itch.io",
    "jimdo.com",
    "jimdofree.com",
    "jimdosite.com",
    "jugem.jp",
    "kazeo.com",
    "kit.com",
    "law.blog",
    "libsyn.com",
    "livedoor.blog",
    "livejournal.com",
    "lofter.com",
    "mataroa.blog",
    "medium.com",
    "micro.blog",
    "mihanblog.com",
    "monsite-orange.fr",
    "movie.blog",
    "moy.su",
    "mozello.com",
    "mozello.ru",
    "music.blog",
    "my1.ru",
    "myportfolio.com",
    "mystrikingly.com",
    "narod.ru",
    "neocities.org",
    "nethouse.ru",
    "news.blog",
    "ning.com",
    "noblogs.org",
    "npage.de",
    "over-blog.com",
    "over-blog.net",
    "over-blog.org",
    "pagesperso-orange.fr",
    "pbworks.com",
    "persianblog.ir",
    "photo.blog",
    "photoshelter.com",
    "pika.page",
    "pixieset.com",
    "pixnet.net",
    "podbean.com",
    "podia.com",
    "poetry.blog",
    "politics.blog",
    "portfoliobox.net",
    "posthaven.com",
    "pressbooks.pub",
    "proboards.com",
    "rf.gd",
    "rozblog.com",
    "school.blog",
    "science.blog",
    "seesaa.net",
    "shopinfo.jp",
    "shoutwiki.com",
    "site123.me",
    "skyrock.com",
    "smugmug.com",
    "sport.blog",
    "squarespace.com",
    "storenvy.com",
    "stores.jp",
    "strikingly.com",
    "substack.com",
    "super.site",
    "svbtle.com",
    "teachable.com",
    "tech.blog",
    "thebase.in",
    "theblog.me",
    "thinkific.com",
    "tilda.ws",
    "tistory.com",
    "transistor.fm",
    "travel.blog",
    "tripod.com",
    "tumblr.com",
    "twoday.net",
    "typepad.com",
    "ucoz.com",
    "ucoz.net",
    "ucoz.org",
    "ucoz.ru",
    "ucoz.ua",
    "unblog.fr",
    "video.blog",
    "water.blog",
    "web.fc2.com",
    "webgarden.cz",
    "webnode.com",
    "webnode.com.br",
    "webnode.cz",
    "webnode.es",
    "webnode.fr",
    "webnode.hu",
    "webnode.it",
    "webnode.nl",
    "webnode.page",
    "webnode.pt",
    "webnode.ru",
    "webnode.sk",
    "webs.com",
    "webself.net",
    "webstarts.com",
    "weebly.com",
    "weeblysite.com",
    "wifeo.com",
    "wiki.gg",
    "wikia.com",
    "wikidot.com",
    "wildapricot.org",
    "wordpress.com",
    "write.as",
    "xobor.de",
    "zenfolio.com",
];

/// The known platforms: the built-in table, and those that the operator configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Platforms {
    more: BTreeSet<String>,
}

// === impl Platforms ===

impl Platforms {
    /// The built-in table and these domains, which are in lower case and ASCII.
    #[must_use]
    pub fn with(more: &[String]) -> Self {
        Self {
            more: more.iter().cloned().collect(),
        }
    }

    /// The domain of one owner: one label below a platform, else by the public suffix list.
    #[must_use]
    pub(crate) fn domain_of<'s>(&self, site: &'s SiteId) -> &'s str {
        let (host, registered) = (site.host(), site.registered_name());
        let mut start = 0;
        for (dot, _) in host.match_indices('.') {
            let parent = &host[dot + 1..];
            if self.contain(parent) {
                // A platform above a public suffix would merge many owners into one.
                let own = &host[start..];
                return if own.len() > registered.len() {
                    own
                } else {
                    registered
                };
            }
            start = dot + 1;
        }
        registered
    }

    /// All platforms in a fixed order, for comparing or hashing tables.
    pub(crate) fn suffixes(&self) -> impl Iterator<Item = &str> {
        let more = self.more.iter().map(String::as_str);
        SHIPPED.iter().copied().chain(more)
    }

    fn contain(&self, domain: &str) -> bool {
        SHIPPED.binary_search(&domain).is_ok() || self.more.contains(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(host: &str) -> SiteId {
        host.parse().unwrap()
    }

    #[test]
    fn the_table_is_in_order_and_says_nothing_that_the_list_says() {
        assert!(SHIPPED.is_sorted_by(|one, next| one < next));
        for platform in SHIPPED {
            let author = site(&format!("somebody.{platform}"));
            assert_ne!(author.registered_name(), author.as_str(), "{platform}");
            assert_eq!(author.registrable_domain(), author.as_str(), "{platform}");
            assert_eq!(site(platform).as_str(), *platform);
        }
    }

    #[test]
    fn each_author_has_a_domain_and_so_has_the_platform() {
        let table = Platforms::default();
        let more = ["clubs.example.org".to_owned(), "uk".to_owned()];
        let more = Platforms::with(&more);
        for (host, by_table, by_more) in [
            (
                "alice.wordpress.com",
                "alice.wordpress.com",
                "alice.wordpress.com",
            ),
            (
                "www.alice.wordpress.com",
                "alice.wordpress.com",
                "alice.wordpress.com",
            ),
            (
                "a.alice.wordpress.com:81",
                "alice.wordpress.com",
                "alice.wordpress.com",
            ),
            ("www.wordpress.com", "wordpress.com", "wordpress.com"),
            (
                "alice.blog.fc2.com",
                "alice.blog.fc2.com",
                "alice.blog.fc2.com",
            ),
            ("blog.fc2.com", "fc2.com", "fc2.com"),
            ("notwordpress.com", "notwordpress.com", "notwordpress.com"),
            ("alice.github.io", "alice.github.io", "alice.github.io"),
            ("a.clubs.example.org", "example.org", "a.clubs.example.org"),
            ("clubs.example.org", "example.org", "example.org"),
            ("www.example.org", "example.org", "example.org"),
            ("a.b.co.uk", "b.co.uk", "b.co.uk"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
            ("[2001:db8::1]", "[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(table.domain_of(&site(host)), by_table, "{host}");
            assert_eq!(more.domain_of(&site(host)), by_more, "{host}");
            assert_eq!(site(host).registrable_domain(), by_table, "{host}");
        }
    }
}
