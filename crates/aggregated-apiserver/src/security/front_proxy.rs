//! The headers by which a front proxy sends the identity of its user (docs/protocol.md,
//! "Front proxy"; apiserver `pkg/authentication/request/headerrequest/requestheader.go`).
//! Such headers of any other client are ignored.

use std::collections::BTreeMap;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::identity::Identity;
use super::trust::FrontProxy;

/// The beginning of the usual names of identity headers. Headers with such a name are removed
/// from every request, whatever the configuration.
const USUAL: &str = "x-remote-";

/// The user in the headers; `None`: the headers contain no user.
pub(super) fn identity(
    proxy: &FrontProxy,
    headers: &HeaderMap,
) -> Result<Option<Identity>, String> {
    let Some(user) = first(headers, &proxy.user_headers)? else {
        return Ok(None);
    };
    let mut groups = Vec::new();
    for name in &proxy.group_headers {
        for value in headers
            .get_all(name)
            .iter()
            .filter(|value| !value.is_empty())
        {
            groups.push(text(name, value)?.to_owned());
        }
    }
    let identity = Identity {
        user,
        uid: first(headers, &proxy.uid_headers)?,
        groups,
        extra: extra(proxy, headers)?,
    };
    Ok(Some(identity))
}

/// Removes all identity headers and `Authorization`, from every client.
pub(super) fn strip(proxy: Option<&FrontProxy>, headers: &mut HeaderMap) {
    let configured = proxy.map(|proxy| {
        let names = proxy.user_headers.iter().chain(&proxy.uid_headers);
        names.chain(&proxy.group_headers)
    });
    let spoken: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            name.as_str().starts_with(USUAL)
                || proxy.is_some_and(|proxy| extra_key(proxy, name).is_some())
        })
        .chain(configured.into_iter().flatten())
        .chain([&AUTHORIZATION])
        .cloned()
        .collect();
    for name in spoken {
        headers.remove(name);
    }
}

/// The first value among these headers. Of each header only the first line counts, even if
/// it is empty.
fn first(headers: &HeaderMap, names: &[HeaderName]) -> Result<Option<String>, String> {
    for name in names {
        match headers.get(name) {
            Some(value) if !value.is_empty() => return Ok(Some(text(name, value)?.to_owned())),
            _ => {}
        }
    }
    Ok(None)
}

fn extra(proxy: &FrontProxy, headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut extra = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        if let Some(key) = extra_key(proxy, name) {
            let value = text(name, value)?.to_owned();
            extra.entry(decoded(key)).or_default().push(value);
        }
    }
    Ok(extra)
}

fn extra_key<'n>(proxy: &FrontProxy, name: &'n HeaderName) -> Option<&'n str> {
    let mut prefixes = proxy.extra_prefixes.iter();
    prefixes.find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()))
}

/// A percent-encoded key, decoded. An invalid one is returned unchanged.
fn decoded(key: &str) -> String {
    let digits = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !key.split('%').skip(1).all(digits) {
        return key.to_owned();
    }
    match percent_decode_str(key).decode_utf8() {
        Ok(decoded) => decoded.into_owned(),
        Err(_) => key.to_owned(),
    }
}

fn text<'v>(name: &HeaderName, value: &'v HeaderValue) -> Result<&'v str, String> {
    str::from_utf8(value.as_bytes()).map_err(|_| format!("the header {name} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn keys_are_decoded_once_or_not_at_all() {
        for (key, wanted) in [
            ("scopes", "scopes"),
            ("a.io%2fid", "a.io/id"),
            ("%252f", "%2f"),
            ("%zz", "%zz"),
            ("a%2", "a%2"),
            ("%ff", "%ff"),
            ("%2f%zz", "%2f%zz"),
            ("", ""),
        ] {
            assert_eq!(decoded(key), wanted);
        }
    }
}
