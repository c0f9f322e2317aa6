//! The words of the generated web, in four languages.
//!
//! Each category of sites has a file with nouns, verbs, adjectives and phrases, the typical
//! ones first. Categories of one field share the words of the field, and all sites those of
//! `general.toml`, so that no single word identifies a topic.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use toml::de::{DeTable, DeValue};

use super::seeded_random::SeededRandom;

/// The topics, then the background categories. A site's number modulo 20 is its index.
pub(super) const CATEGORIES: [&str; 20] = [
    "sailing",
    "cycling",
    "mountaineering",
    "astronomy",
    "chess",
    "railways",
    "choir",
    "theatre",
    "pottery",
    "beekeeping",
    "gardening",
    "bakery",
    "university",
    "newspaper",
    "town",
    "shop",
    "blog",
    "software",
    "hotel",
    "charity",
];

/// The first of [`CATEGORIES`] are topics: this many.
pub(super) const TOPICS: usize = 12;

const FILES: [&str; 20] = [
    include_str!("words/sailing.toml"),
    include_str!("words/cycling.toml"),
    include_str!("words/mountaineering.toml"),
    include_str!("words/astronomy.toml"),
    include_str!("words/chess.toml"),
    include_str!("words/railways.toml"),
    include_str!("words/choir.toml"),
    include_str!("words/theatre.toml"),
    include_str!("words/pottery.toml"),
    include_str!("words/beekeeping.toml"),
    include_str!("words/gardening.toml"),
    include_str!("words/bakery.toml"),
    include_str!("words/university.toml"),
    include_str!("words/newspaper.toml"),
    include_str!("words/town.toml"),
    include_str!("words/shop.toml"),
    include_str!("words/blog.toml"),
    include_str!("words/software.toml"),
    include_str!("words/hotel.toml"),
    include_str!("words/charity.toml"),
];

const FIELD_FILES: [&str; 4] = [
    include_str!("words/field-sport.toml"),
    include_str!("words/field-pastime.toml"),
    include_str!("words/field-art.toml"),
    include_str!("words/field-land.toml"),
];

/// Kinds of boilerplate: labels of menus, and texts common to all sites.
const KINDS: [&str; 13] = [
    "home", "about", "contact", "products", "news", "staff", "links", "calendar", "imprint",
    "privacy", "cookies", "parked", "missing",
];

/// The languages of the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WebLanguage {
    English,
    German,
    French,
    Spanish,
}

/// The vocabulary of a category of sites.
pub(super) struct Category {
    /// Index into the fields, for topics.
    pub(super) field: Option<usize>,
    vocabularies: [WordLists; 4],
}

/// The words of a category in one language, the typical ones first.
pub(super) struct WordLists {
    pub(super) nouns: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) adjectives: Vec<String>,
    pub(super) phrases: Vec<String>,
}

/// Texts common to all sites, in one language.
pub(super) struct Boilerplate {
    /// In the order of `KINDS`.
    texts: [Vec<String>; KINDS.len()],
    pub(super) templates: Vec<String>,
    pub(super) people: Vec<String>,
    pub(super) places: Vec<String>,
}

/// The words of all categories and languages.
pub(super) struct Words {
    pub(super) categories: Vec<Category>,
    pub(super) fields: Vec<Category>,
    pub(super) general: Category,
    pub(super) farm: Category,
    boilerplate: [Boilerplate; 4],
}

/// Parsed on first use.
pub(super) static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let fields: Vec<(String, Category)> = FIELD_FILES
        .iter()
        .map(|text| Category::read(text, &[]))
        .collect();
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let categories = FILES.iter().map(|text| Category::read(text, &names).1);
    let mut pages = lists(include_str!("words/pages.toml"));
    Words {
        categories: categories.collect(),
        general: Category::read(include_str!("words/general.toml"), &[]).1,
        farm: Category::read(include_str!("words/farm.toml"), &[]).1,
        boilerplate: WebLanguage::ALL.map(|language| Boilerplate::read(&mut pages, language)),
        fields: fields.into_iter().map(|(_, field)| field).collect(),
    }
});

/// For panics: the files are compiled in, and a test reads them all.
const WELL_FORMED: &str = "the words of the generated web are well formed";

/// The lists of a file, by section (a language code, or empty) and key.
type Lists = BTreeMap<(String, String), Vec<String>>;

fn lists(text: &'static str) -> Lists {
    let top = DeTable::parse(text).expect(WELL_FORMED).into_inner();
    let mut lists = Lists::new();
    for (section, value) in top {
        let section = section.into_inner().into_owned();
        match value.into_inner() {
            DeValue::Table(table) => {
                for (key, value) in table {
                    let place = (section.clone(), key.into_inner().into_owned());
                    lists.insert(place, texts(value.into_inner()));
                }
            }
            value => {
                lists.insert((String::new(), section), texts(value));
            }
        }
    }
    lists
}

/// A string is a list of words, an array a list of texts.
fn texts(value: DeValue<'_>) -> Vec<String> {
    match value {
        DeValue::String(words) => words.split_whitespace().map(str::to_owned).collect(),
        DeValue::Array(texts) => {
            let texts = texts.into_iter().map(|text| match text.into_inner() {
                DeValue::String(text) => text.into_owned(),
                _ => panic!("{WELL_FORMED}"),
            });
            texts.collect()
        }
        _ => panic!("{WELL_FORMED}"),
    }
}

fn take(lists: &mut Lists, section: &str, key: &str) -> Vec<String> {
    let list = lists.remove(&(section.to_owned(), key.to_owned()));
    list.unwrap_or_default()
}

// === impl WebLanguage ===

impl WebLanguage {
    pub(super) const ALL: [Self; 4] = [Self::English, Self::German, Self::French, Self::Spanish];

    pub(super) fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
            Self::French => "fr",
            Self::Spanish => "es",
        }
    }
}

// === impl Category ===

impl Category {
    /// The name of a category and its words, from a file.
    fn read(text: &'static str, fields: &[&str]) -> (String, Self) {
        let mut lists = lists(text);
        let name = take(&mut lists, "", "name").concat();
        let field = take(&mut lists, "", "field").concat();
        let mut vocabulary = |language: WebLanguage| {
            let mut take = |key| take(&mut lists, language.code(), key);
            WordLists {
                nouns: take("nouns"),
                verbs: take("verbs"),
                adjectives: take("adjectives"),
                phrases: take("phrases"),
            }
        };
        let category = Self {
            vocabularies: WebLanguage::ALL.map(&mut vocabulary),
            field: fields.iter().position(|known| *known == field),
        };
        (name, category)
    }

    pub(super) fn vocabulary(&self, language: WebLanguage) -> &WordLists {
        &self.vocabularies[language as usize]
    }
}

// === impl Boilerplate ===

impl Boilerplate {
    fn read(lists: &mut Lists, language: WebLanguage) -> Self {
        let mut in_language = |key| take(lists, language.code(), key);
        Self {
            templates: in_language("templates"),
            people: in_language("people"),
            places: in_language("places"),
            texts: KINDS.map(in_language),
        }
    }

    /// One of the texts of a kind, such as the labels of a menu.
    pub(super) fn one(&self, kind: &str, random: &mut SeededRandom) -> &str {
        random.pick(self.texts(kind))
    }

    /// All texts of a kind as a paragraph.
    pub(super) fn all(&self, kind: &str) -> String {
        self.texts(kind).join(" ")
    }

    fn texts(&self, kind: &str) -> &[String] {
        let at = KINDS.iter().position(|known| *known == kind);
        at.map_or(&[], |at| &self.texts[at])
    }
}

// === impl Words ===

impl Words {
    pub(super) fn boilerplate(&self, language: WebLanguage) -> &Boilerplate {
        &self.boilerplate[language as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The placeholders that `prose.rs` knows.
    const PLACEHOLDERS: [&str; 8] = [
        "noun",
        "noun2",
        "verb",
        "adjective",
        "phrase",
        "name",
        "place",
        "year",
    ];

    #[test]
    fn all_words_can_be_read_and_the_patterns_are_known() {
        assert_eq!(WORDS.categories.len(), CATEGORIES.len());
        for (at, category) in WORDS.categories.iter().enumerate() {
            assert_eq!(category.field.is_some(), at < TOPICS, "{}", CATEGORIES[at]);
            for language in WebLanguage::ALL {
                let words = category.vocabulary(language);
                assert!(words.nouns.len() >= 40 && words.phrases.len() >= 12);
                assert!(words.verbs.len() >= 12 && words.adjectives.len() >= 12);
            }
        }
        for language in WebLanguage::ALL {
            let said = WORDS.boilerplate(language);
            for template in &said.templates {
                let mut rest = template.as_str();
                while let Some((_, after)) = rest.split_once('{') {
                    let (name, after) = after.split_once('}').expect("a closing brace");
                    assert!(PLACEHOLDERS.contains(&name), "{template}");
                    rest = after;
                }
            }
            assert!(said.people.len() >= 20 && said.places.len() >= 20);
            for kind in KINDS {
                assert!(!said.all(kind).is_empty(), "{kind}");
            }
        }
    }
}
