//! Bearer tokens of requests, and their users.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::Instant;

use super::identity::Identity;
use super::reviewer::{Token, TokenVerdict};
use super::reviews::{NoAnswer, Reviews};

/// Why a token names no user.
#[derive(Debug)]
pub(super) enum TokenFailure {
    /// It is invalid, or could not be reviewed; the reason, for the log.
    Refused(String),
    /// Too many tokens are under review.
    Busy,
}

/// The token that a request shows; `None` when it shows none.
///
/// # Errors
/// When it is not text.
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

/// The user of the token; waits until `until`.
pub(super) async fn owner(
    reviews: &Reviews,
    token: &Token,
    until: Instant,
) -> Result<Identity, TokenFailure> {
    let refused = |why: String| Err(TokenFailure::Refused(why));
    match reviews.token(token, until).await {
        Ok(TokenVerdict::Authenticated(identity)) if identity.user.is_empty() => {
            refused("the token's review names no user".to_owned())
        }
        Ok(TokenVerdict::Authenticated(identity)) => Ok(identity),
        Ok(TokenVerdict::Refused(reason)) => refused(format!("the token is refused: {reason}")),
        Err(NoAnswer::Busy) => Err(TokenFailure::Busy),
        Err(NoAnswer::Failed(error)) => {
            refused(format!("the token could not be reviewed: {error}"))
        }
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
