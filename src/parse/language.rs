//! Language detection.
//!
//! Function words decide: a hundred words of running text hold about forty of them, and
//! counting them by the stop lists costs a tenth of a trigram comparison with all languages. Where
//! they are few or two languages share them (Danish and Norwegian), trigrams decide. The declared
//! language alone counts only if the text is not conclusive: templates come with `lang="en"`
//! whatever the language of their content.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::web::{Language, PageText};

/// How many words are checked for function words.
const SAMPLED_WORDS: usize = 120;
/// How much text is compared by trigrams: more makes it slower, not better.
const SAMPLED_BYTES: usize = 800;
/// Less text than this is not compared by trigrams.
const MIN_BYTES: usize = 40;
/// Longer words are not function words.
const MAX_FUNCTION_WORD_BYTES: usize = 16;
/// A language wins with at least this many function words
const MANY_VOTES: u32 = 6;
/// if it has this many times as many as the next,
const MARGIN_OF_MANY: f64 = 1.4;
/// or with at least this many
const FEW_VOTES: u32 = 3;
/// and this margin. If the page declares the same language, one word without a margin is enough.
const MARGIN_OF_FEW: f64 = 2.0;
/// Below this confidence, trigrams only decide between languages that the function words left open.
const TRUSTED_TRIGRAMS: f64 = 0.8;

/// Languages with a stop list whose function words are counted.
const VOTERS: [&str; 20] = [
    "en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "hu", "ro", "ca", "tr", "ru",
    "el", "id", "sl", "eu",
];

/// Voters that share their function words with languages that do not vote: Ukrainian, Bulgarian and
/// Serbian texts would all be Russian, and Afrikaans would be Dutch. Trigrams decide between them.
const AMBIGUOUS_VOTERS: [&str; 2] = ["ru", "nl"];

/// For each function word, the languages that have it, as bits in the order of `VOTERS`.
static FUNCTION_WORDS: LazyLock<FxHashMap<&'static str, u32>> = LazyLock::new(|| {
    let mut languages = FxHashMap::default();
    for (bit, code) in VOTERS.iter().enumerate() {
        for word in stop_words::lookup(*code).unwrap_or_default() {
            *languages.entry(*word).or_default() |= 1 << bit;
        }
    }
    languages
});

/// The language of a text, or the declared one where the text is not conclusive.
pub(super) fn of(text: &PageText, declared: Option<Language>) -> Option<Language> {
    let votes = Votes::count(text);
    votes
        .winner(declared)
        .or_else(|| by_trigrams(&sample(text), declared, &votes))
}

/// How many function words each language has in a text, in the order of `VOTERS`.
struct Votes([u32; VOTERS.len()]);

impl Votes {
    fn count(text: &PageText) -> Self {
        let mut votes = Self([0; VOTERS.len()]);
        for (at, word) in visible_words(text).take(SAMPLED_WORDS).enumerate() {
            let mut languages = voters_for(word);
            while languages != 0 {
                votes.0[languages.trailing_zeros() as usize] += 1;
                languages &= languages - 1;
            }
            if at % 16 == 15 && votes.is_landslide() {
                break;
            }
        }
        votes
    }

    /// Whether more words would hardly change the winner.
    fn is_landslide(&self) -> bool {
        let most = self.0.iter().copied().max().unwrap_or_default();
        let contenders = self.0.iter().filter(|votes| **votes * 2 > most).count();
        most >= 2 * MANY_VOTES && contenders == 1
    }

    /// The language with clearly more votes than the others, or the declared one if it is close.
    fn winner(&self, declared: Option<Language>) -> Option<Language> {
        let (winner, most) = self.0.iter().enumerate().max_by_key(|(_, count)| **count)?;
        let others = self
            .0
            .iter()
            .enumerate()
            .filter(|(voter, _)| *voter != winner);
        let next = others.map(|(_, count)| *count).max().unwrap_or_default();
        let language = Language::from_tag(VOTERS[winner]);
        if AMBIGUOUS_VOTERS.contains(&VOTERS[winner]) {
            return None;
        }
        let margin = f64::from(*most) / f64::from(next.max(1));
        let is_plausible = |declared: &Language| self.is_contender(*declared);
        if let Some(declared) = declared.filter(is_plausible) {
            return Some(declared);
        }
        let is_clear = match most {
            1.. if language == declared => margin >= 1.0,
            MANY_VOTES.. => margin >= MARGIN_OF_MANY,
            FEW_VOTES.. => margin >= MARGIN_OF_FEW,
            _ => false,
        };
        language.filter(|_| is_clear)
    }

    /// Whether no language has more than a few votes.
    fn is_silent(&self) -> bool {
        self.0.iter().all(|votes| *votes < FEW_VOTES)
    }

    /// Whether a language is close enough to the leading one that the votes do not decide.
    fn is_contender(&self, language: Language) -> bool {
        let most = self.0.iter().copied().max().unwrap_or_default();
        let bit = VOTERS.iter().position(|code| *code == language.code());
        bit.is_some_and(|bit| {
            let votes = self.0[bit];
            votes >= FEW_VOTES && f64::from(votes) * MARGIN_OF_MANY >= f64::from(most)
        })
    }
}

/// The languages that have a word among their function words, as bits.
fn voters_for(word: &str) -> u32 {
    let bare = word
        .trim_end_matches([',', '.', ':', ')'])
        .trim_start_matches('(');
    if bare.is_empty() || bare.len() > MAX_FUNCTION_WORD_BYTES {
        return 0;
    }
    if let Some(languages) = FUNCTION_WORDS.get(bare) {
        return *languages;
    }
    if !bare.starts_with(char::is_uppercase) {
        return 0;
    }
    let lower = bare.to_lowercase();
    FUNCTION_WORDS
        .get(lower.as_str())
        .copied()
        .unwrap_or_default()
}

fn by_trigrams(sample: &str, declared: Option<Language>, votes: &Votes) -> Option<Language> {
    // Without function words and without non-ASCII letters it is a list of names or source
    // code; trigrams find a language in anything.
    let has_non_ascii_letters = sample.chars().any(|c| !c.is_ascii() && c.is_alphabetic());
    if sample.len() < MIN_BYTES || (votes.is_silent() && !has_non_ascii_letters) {
        return declared;
    }
    let Some(found) = whatlang::detect(sample) else {
        return declared;
    };
    let detected = Language::from_tag(found.lang().code())?;
    if found.confidence() >= TRUSTED_TRIGRAMS || votes.is_contender(detected) {
        return Some(detected);
    }
    declared
}

fn visible_words(text: &PageText) -> impl Iterator<Item = &str> {
    text.runs()
        .filter(|(part, _)| part.is_visible())
        .flat_map(|(_, run)| run.split_ascii_whitespace())
}

/// The beginning of the visible text, or of all text where nothing is visible.
fn sample(text: &PageText) -> String {
    let mut sample = String::new();
    for visible in [true, false] {
        for (_, run) in text.runs().filter(|(part, _)| part.is_visible() == visible) {
            if sample.len() >= SAMPLED_BYTES {
                break;
            }
            sample.push_str(&run[..run.floor_char_boundary(SAMPLED_BYTES)]);
            sample.push(' ');
        }
        if sample.len() >= MIN_BYTES {
            break;
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::PagePart;

    fn language(text: &str, declared: Option<&str>) -> Option<String> {
        let mut page = PageText::default();
        page.push(PagePart::Body, text);
        of(&page, declared.and_then(Language::from_tag)).map(|language| language.to_string())
    }

    #[test]
    fn running_text_tells_its_language() {
        for (wanted, text) in [
            (
                "en",
                "The boats lie in the harbour all winter, and in spring we bring them out to the lake.",
            ),
            (
                "de",
                "Die Boote liegen den ganzen Winter im Hafen, und im Frühjahr bringen wir sie auf den See.",
            ),
            (
                "fr",
                "Les bateaux restent au port pendant tout l'hiver et nous les sortons au printemps.",
            ),
            (
                "da",
                "Bådene ligger i havnen hele vinteren, og om foråret sætter vi dem i vandet igen. Derefter sejler vi hver uge, når vejret er godt nok til det.",
            ),
            (
                "ru",
                "Лодки стоят в гавани всю зиму, а весной мы выводим их на озеро.",
            ),
            (
                "pl",
                "Łodzie stoją w porcie przez całą zimę, a wiosną wyprowadzamy je na jezioro.",
            ),
            (
                "ja",
                "ボートは冬の間ずっと港にあり、春になると湖に出します。",
            ),
            ("zh", "整个冬天船都停在港口里，到了春天我们把它们带到湖上。"),
            ("th", "เรือจอดอยู่ในท่าเรือตลอดฤดูหนาว"),
        ] {
            assert_eq!(language(text, None).as_deref(), Some(wanted), "{text}");
            assert_eq!(
                language(text, Some(wanted)).as_deref(),
                Some(wanted),
                "{text}"
            );
        }
    }

    #[test]
    fn a_template_does_not_change_the_language_of_its_text() {
        let german = "Die Boote liegen im Hafen, und im Frühjahr bringen wir sie auf den See.";
        assert_eq!(language(german, Some("en")).as_deref(), Some("de"));
    }

    #[test]
    fn a_declaration_counts_where_the_text_is_silent() {
        assert_eq!(language("", Some("de-AT")).as_deref(), Some("de"));
        assert_eq!(language("1 2 3", Some("fr")).as_deref(), Some("fr"));
        assert_eq!(language("12:30", None), None);
        let lao = "ເຮືອຈອດຢູ່ໃນທ່າເຮືອຕະຫຼອດລະດູໜາວ";
        assert_eq!(language(lao, Some("lo")).as_deref(), Some("lo"));
    }

    #[test]
    fn every_language_of_the_trigrams_has_a_two_letter_code() {
        for lang in whatlang::Lang::all() {
            let found = Language::from_tag(lang.code()).unwrap();
            assert_eq!(found.code().len(), 2, "{lang}");
        }
        for code in VOTERS {
            assert!(
                stop_words::lookup(code).is_some_and(|list| !list.is_empty()),
                "{code}"
            );
        }
    }
}
