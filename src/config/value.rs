//! How single values are read; an error says what would have been right.

use std::ops::RangeInclusive;

use bytesize::ByteSize;
use toml::de::DeValue;

/// `true` or `false`.
pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false".to_owned())
}

/// A whole number within a range.
pub(super) fn whole_number(
    range: RangeInclusive<usize>,
) -> impl FnOnce(&DeValue<'_>) -> Result<usize, String> {
    move |value| {
        integer(value)
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }
}

/// A number within a range, whole or not.
pub(super) fn number(
    range: RangeInclusive<f64>,
) -> impl FnOnce(&DeValue<'_>) -> Result<f64, String> {
    move |value| {
        let whole = || f64::from(u32::try_from(integer(value)?).ok()?).into();
        let fraction = value.as_float().and_then(|number| {
            let digits = number.as_str().replace('_', "");
            digits.parse::<f64>().ok()
        });
        fraction
            .or_else(whole)
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
    }
}

/// A number of bytes, or a text such as `"8 MiB"`, within a range.
pub(super) fn byte_size(
    range: RangeInclusive<usize>,
) -> impl FnOnce(&DeValue<'_>) -> Result<usize, String> {
    move |value| {
        let bytes = match value {
            DeValue::String(text) => text.parse::<ByteSize>().ok().map(|size| size.as_u64()),
            other => integer(other).map(|number| number as u64),
        };
        bytes
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|bytes| range.contains(bytes))
            .ok_or_else(|| {
                let shown = |bytes: usize| ByteSize::b(bytes as u64).display().iec();
                format!(
                    "a size from {} to {}, such as \"512 KiB\" or a number of bytes",
                    shown(*range.start()),
                    shown(*range.end())
                )
            })
    }
}

/// One of a few words.
pub(super) fn choice<T: Copy>(
    choices: &[(&'static str, T)],
) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let chosen = value.as_str().and_then(|text| {
            let found = choices.iter().find(|(name, _)| *name == text);
            found.map(|(_, choice)| *choice)
        });
        chosen.ok_or_else(|| {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            format!("one of {}", names.join(", "))
        })
    }
}

/// A text.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| "a text".to_owned())
}

/// A list of texts.
pub(super) fn texts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wanted = || "a list of texts".to_owned();
    let items = value.as_array().ok_or_else(wanted)?.iter();
    items
        .map(|item| text(item.get_ref()).map_err(|_| wanted()))
        .collect()
}

/// A list whose items are texts, each a group by itself, or lists of texts.
pub(super) fn groups_of_texts(value: &DeValue<'_>) -> Result<Vec<Vec<String>>, String> {
    let wanted = || "a list of texts, or of lists of texts that belong together".to_owned();
    let group = |item: &DeValue<'_>| match item.as_array() {
        Some(_) => texts(item),
        None => text(item).map(|text| vec![text]),
    };
    let items = value.as_array().ok_or_else(wanted)?.iter();
    items
        .map(|item| group(item.get_ref()).map_err(|_| wanted()))
        .collect()
}

fn integer(value: &DeValue<'_>) -> Option<usize> {
    let number = value.as_integer()?;
    usize::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}
