//! Bearer tokens (`protocol.md` §4.4). A token is put into a review and nowhere
//! else: what is remembered is a keyed digest of it.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::sync::Semaphore;

use super::counters::Counters;
use super::digest::{Digest, Key};
use super::identity::Identity;
use super::memo::{Life, Memo, Rules};
use super::reviewer::{Reviewer, Token, TokenVerdict};
use super::settings::Settings;

/// Memory for answers, and the least that one is counted as: 32 768 answers.
const CACHE_BYTES: u64 = 32 << 20;
const CACHE_ENTRY: usize = 1 << 10;

/// Why a token names nobody.
#[derive(Debug)]
pub(super) enum TokenFailure {
    /// It is no good, or could not be reviewed; why, for the log.
    Refused(String),
    /// Too many tokens are under review.
    Busy,
}

/// Whose tokens are whose.
pub(super) struct Tokens {
    reviewer: Arc<dyn Reviewer>,
    audiences: Vec<String>,
    memo: Memo<Digest, TokenVerdict>,
    waiting: Semaphore,
    key: Result<Key, String>,
    counters: Arc<Counters>,
}

/// The token that a request shows; `None` when it shows none.
///
/// # Errors
/// When it is not text.
pub(super) fn shown(headers: &HeaderMap) -> Result<Option<Token>, String> {
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

impl Tokens {
    pub(super) fn new(
        reviewer: Arc<dyn Reviewer>,
        settings: &Settings,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            reviewer,
            audiences: settings.audiences.clone(),
            memo: Memo::new(Rules {
                bytes: CACHE_BYTES,
                weigh: |_, verdict| match verdict {
                    TokenVerdict::Authenticated(identity) => identity.size().max(CACHE_ENTRY),
                    TokenVerdict::Refused(reason) => reason.len().max(CACHE_ENTRY),
                },
                life: Life {
                    yes: settings.token_life,
                    no: settings.token_life,
                    is_yes: |verdict| matches!(verdict, TokenVerdict::Authenticated(_)),
                },
                at_a_time: settings.token_reviews,
                budget: settings.token_budget,
            }),
            waiting: Semaphore::new(settings.token_waiting),
            key: Key::random(),
            counters,
        }
    }

    /// Whose the token is.
    pub(super) async fn owner(&self, token: &Token) -> Result<Identity, TokenFailure> {
        let counts = &self.counters.tokens;
        let key = self.digest(token).map_err(TokenFailure::Refused)?;
        let verdict = match self.memo.remembered(&key, counts).await {
            Some(verdict) => verdict,
            None => {
                // Garbage tokens must not pile up, nor wear out the API server.
                let _place = self.waiting.try_acquire().map_err(|_| TokenFailure::Busy)?;
                let review = self.reviewer.token(token, &self.audiences);
                let learnt = self.memo.learn(key, counts, review).await;
                learnt.map_err(|error| {
                    TokenFailure::Refused(format!("the token could not be reviewed: {error}"))
                })?
            }
        };
        match verdict {
            TokenVerdict::Authenticated(identity) if !identity.user.is_empty() => Ok(identity),
            TokenVerdict::Authenticated(_) => {
                let why = "the token's review names no user";
                Err(TokenFailure::Refused(why.to_owned()))
            }
            TokenVerdict::Refused(reason) => Err(TokenFailure::Refused(format!(
                "the token is refused: {reason}"
            ))),
        }
    }

    fn digest(&self, token: &Token) -> Result<Digest, String> {
        self.key
            .as_ref()
            .map_err(Clone::clone)?
            .sign(&[token.0.as_bytes()])
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
            let token = shown(&headers).unwrap().map(|token| token.0);
            assert_eq!(token.as_deref(), wanted, "{value:?}");
        }
        let mut headers = HeaderMap::new();
        let broken = HeaderValue::from_bytes(b"Bearer \xff").unwrap();
        headers.insert(AUTHORIZATION, broken);
        assert!(shown(&headers).is_err());
    }
}
