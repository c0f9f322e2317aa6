//! Readers of single values; an error describes what was expected.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use bytesize::ByteSize;
use ipnet::IpNet;
use toml::de::DeValue;
use url::{Host, Url};

use super::fetch::{ProxySettings, ResolveRule};

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

/// One of the given names.
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

/// A list of groups: an item is a text, which is its own group, or a list of texts.
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

/// A duration such as `"1 s"` within a range.
pub(super) fn duration(
    range: RangeInclusive<Duration>,
) -> impl FnOnce(&DeValue<'_>) -> Result<Duration, String> {
    move |value| {
        let time = value
            .as_str()
            .and_then(|text| humantime::parse_duration(text).ok());
        time.filter(|time| range.contains(time)).ok_or_else(|| {
            let shown = |time: &Duration| humantime::format_duration(*time).to_string();
            format!(
                "a time from {} to {}, such as \"500 ms\", \"30 s\" or \"2 min\"",
                shown(range.start()),
                shown(range.end())
            )
        })
    }
}

/// A duration within a range, or `"never"`.
pub(super) fn duration_or_never(
    range: RangeInclusive<Duration>,
) -> impl FnOnce(&DeValue<'_>) -> Result<Option<Duration>, String> {
    move |value| match value.as_str() {
        Some("never") => Ok(None),
        _ => match duration(range)(value) {
            Ok(time) => Ok(Some(time)),
            Err(wanted) => Err(format!("\"never\" or {wanted}")),
        },
    }
}

/// A text; none if it is empty.
pub(super) fn optional_text(value: &DeValue<'_>) -> Result<Option<String>, String> {
    text(value).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// A value; none if it is an empty text.
pub(super) fn optional<T>(
    read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
) -> impl FnOnce(&DeValue<'_>) -> Result<Option<T>, String> {
    move |value| match value.as_str() {
        Some("") => Ok(None),
        _ => read(value).map(Some),
    }
}

/// URL or mail address of the operator. It is sent in a header, in parentheses.
pub(super) fn contact(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let wanted = "a URL such as \"https://example.org/crawler\" or a mail address";
    let Some(contact) = optional_text(value).map_err(|_| wanted.to_owned())? else {
        return Ok(None);
    };
    let is_safe = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'(' | b')' | b'\\');
    let is_url = Url::parse(&contact)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let is_mail = contact
        .strip_prefix("mailto:")
        .unwrap_or(&contact)
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && host.contains('.'));
    if contact.bytes().all(is_safe) && (is_url || is_mail) {
        Ok(Some(contact))
    } else {
        Err(wanted.to_owned())
    }
}

/// A list; the error is `wanted` if any item is invalid.
fn list<T>(
    value: &DeValue<'_>,
    wanted: &str,
    read: impl Fn(&DeValue<'_>) -> Option<T>,
) -> Result<Vec<T>, String> {
    let items = value.as_array();
    let read: Option<Vec<T>> =
        items.and_then(|items| items.iter().map(|item| read(item.get_ref())).collect());
    read.ok_or_else(|| wanted.to_owned())
}

/// An IP address with a port.
pub(super) fn listen_address(value: &DeValue<'_>) -> Result<SocketAddr, String> {
    let address = value.as_str().and_then(|text| text.parse().ok());
    address.ok_or_else(|| "an address with a port, such as \"127.0.0.1:9464\"".to_owned())
}

/// Ranges of addresses; a single address is a range of one.
pub(super) fn networks(value: &DeValue<'_>) -> Result<Vec<IpNet>, String> {
    let wanted = "a list of addresses or ranges such as \"10.0.0.0/8\" and \"fd00::/8\"";
    list(value, wanted, |item| {
        let text = item.as_str()?;
        let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
        text.parse().ok().or_else(single)
    })
}

/// Media types without parameters, in lower case.
pub(super) fn media_types(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wanted = "a list of media types such as \"text/html\"";
    list(value, wanted, |item| {
        let text = item.as_str()?;
        let is_type = text.split('/').count() == 2 && !text.contains([';', ' ', '*']);
        is_type.then(|| text.to_ascii_lowercase())
    })
}

/// Ports other than 0.
pub(super) fn ports(value: &DeValue<'_>) -> Result<Vec<u16>, String> {
    list(value, "a list of ports such as 80 and 8080", |item| {
        let port = u16::try_from(integer(item)?).ok();
        port.filter(|port| *port != 0)
    })
}

/// Addresses of name servers; the default port is 53.
pub(super) fn addresses(value: &DeValue<'_>) -> Result<Vec<SocketAddr>, String> {
    let wanted = "a list of addresses such as \"9.9.9.9\" and \"127.0.0.1:5353\"";
    list(value, wanted, |item| {
        let text = item.as_str()?;
        let without_port = || {
            text.parse()
                .ok()
                .map(|address| SocketAddr::new(address, 53))
        };
        text.parse().ok().or_else(without_port)
    })
}

/// `{ host = "*.example", address = "127.0.0.1:8080", tls = false }`.
pub(super) fn resolve_rules(value: &DeValue<'_>) -> Result<Vec<ResolveRule>, String> {
    let wanted = "a list of rules such as { host = \"*.example\", address = \"127.0.0.1:8080\" } \
                  or { host = \"a.example\", address = \"127.0.0.1:8443\", tls = true }";
    list(value, wanted, |item| {
        let table = item.as_table()?;
        let known = ["host", "address", "tls"];
        if table.keys().any(|key| !known.contains(&&**key.get_ref())) {
            return None;
        }
        let tls = table.get("tls");
        Some(ResolveRule {
            host: host_pattern(table.get("host")?.get_ref().as_str()?)?,
            address: table.get("address")?.get_ref().as_str()?.parse().ok()?,
            tls: tls.map_or(Some(false), |tls| tls.get_ref().as_bool())?,
        })
    })
}

/// Hosts, `*.` with a domain for all hosts below it, or `*`.
pub(super) fn host_patterns(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wanted = "a list of hosts such as \"example.org\" and \"*.example.net\"";
    list(value, wanted, |item| host_pattern(item.as_str()?))
}

/// Hosts without wildcards.
pub(super) fn hosts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wanted = "a list of hosts such as \"crawler.example.org\"";
    list(value, wanted, |item| {
        let host = host_pattern(item.as_str()?)?;
        (!host.contains('*')).then_some(host)
    })
}

/// Domain names of at least two labels; no IP addresses, no wildcards.
pub(super) fn domains(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let wanted = "a list of domains such as \"example.org\"";
    list(value, wanted, |item| {
        let domain = host_pattern(item.as_str()?)?;
        let is_name = matches!(Host::parse(&domain), Ok(Host::Domain(_)));
        (is_name && domain.contains('.') && !domain.contains('*')).then_some(domain)
    })
}

/// A host in the spelling of URLs, optionally with a wildcard.
fn host_pattern(text: &str) -> Option<String> {
    if text == "*" {
        return Some(text.to_owned());
    }
    let (wildcard, name) = match text.strip_prefix("*.") {
        Some(domain) => ("*.", domain),
        None => ("", text),
    };
    if name.contains('*') {
        return None;
    }
    let host = Host::parse(name.trim_end_matches('.')).ok()?;
    Some(format!("{wildcard}{host}"))
}

/// `http://host:port`, optionally with user and password; none if it is empty.
pub(super) fn proxy(value: &DeValue<'_>) -> Result<Option<ProxySettings>, String> {
    let wanted =
        || "the address of an HTTP proxy, such as \"http://proxy.example:3128\"".to_owned();
    let Some(text) = optional_text(value).map_err(|_| wanted())? else {
        return Ok(None);
    };
    let url = Url::parse(&text).map_err(|_| wanted())?;
    let http_host = url.host_str().filter(|_| url.scheme() == "http");
    let host = http_host.ok_or_else(wanted)?.to_owned();
    let credentials = (!url.username().is_empty()).then(|| {
        let password = url.password().unwrap_or_default();
        (unescaped(url.username()), unescaped(password))
    });
    Ok(Some(ProxySettings {
        host,
        port: url.port_or_known_default().unwrap_or(80),
        credentials,
    }))
}

/// Decodes a user name or password, which URLs percent-encode.
fn unescaped(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

fn integer(value: &DeValue<'_>) -> Option<usize> {
    let number = value.as_integer()?;
    usize::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}
