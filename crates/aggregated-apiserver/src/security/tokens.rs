//! Bearer tokens of requests.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::reviewer::Token;

pub(super) fn bearer_token(headers: &HeaderMap) -> Result<Option<Token>, String> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(None);
    };
    let mut words = value
        .as_bytes()
        .trim_ascii()
        .splitn(3, |byte| *byte == b' ');
    let scheme = words.next().unwrap_or_default();
    let token = words.next().unwrap_or_default();
    if !scheme.eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return Ok(None);
    }
    match str::from_utf8(token) {
        Ok(token) => Ok(Some(Token(token.to_owned()))),
        Err(_) => Err("the bearer token is not text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_bearer_token_is_a_token() {
        for (value, wanted) in [
            ("Bearer abc", Some("abc")),
            ("bEARER abc", Some("abc")),
            (" Bearer abc ", Some("abc")),
            ("Bearer abc def ghi", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer  abc", None),
            ("Basic YTpi", None),
            ("abc", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            let token = bearer_token(&headers).unwrap().map(|token| token.0);
            assert_eq!(token.as_deref(), wanted, "{value:?}");
        }
        let mut headers = HeaderMap::new();
        let broken = HeaderValue::from_bytes(b"Bearer \xff").unwrap();
        headers.insert(AUTHORIZATION, broken);
        assert!(bearer_token(&headers).is_err());
    }
}
