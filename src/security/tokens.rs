//! Bearer tokens (`protocol.md` §4.4). A token is put into a review and nowhere
//! else: what is remembered is a keyed digest of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use moka::future::Cache;
use tokio::time::Instant;

use super::counters::Counters;
use super::digest::{Digest, Key};
use super::identity::Identity;
use super::memo::{Asker, Life, Memo, Rules, Unlearnt};
use super::places::{Place, Places, Rank, Share, Shares};
use super::reviewer::{Reviewer, Token, TokenVerdict};
use super::settings::Settings;

/// Memory for answers, and the least that one is counted as: 32 768 answers.
const CACHE_BYTES: u64 = 32 << 20;
const CACHE_ENTRY: usize = 1 << 10;

/// How many tokens are remembered to have been good, and how long: their review
/// does not wait behind strangers'.
const GOOD_TOKENS: u64 = 8192;
const GOOD_LIFE: Duration = Duration::from_secs(3600);

/// Requests that wait for the review of one token that was good before.
const GOOD_WAITING: usize = 256;

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
    audiences: Arc<[String]>,
    memo: Memo<Digest, TokenVerdict>,
    good: Cache<Digest, ()>,
    waiting: Places,
    waiting_of: Shares,
    reviews_of: Shares,
    address_waiting: usize,
    address_tokens: usize,
    key: Result<Key, String>,
}

/// Who answers for a token until it is reviewed.
#[derive(Clone, Copy, Hash)]
enum Surety {
    /// Itself: it was good before.
    Token(Digest),
    /// Where it comes from.
    Address(Option<IpAddr>),
}

impl Surety {
    /// A network of IPv6 is one client's: he has all its addresses.
    fn address(address: Option<IpAddr>) -> Self {
        Self::Address(address.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                IpAddr::V6(network.into())
            }
        }))
    }
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
        let rules = Rules {
            bytes: CACHE_BYTES,
            weigh: |_: &Digest, verdict: &TokenVerdict| match verdict {
                TokenVerdict::Authenticated(identity) => identity.size().max(CACHE_ENTRY),
                TokenVerdict::Refused(reason) => reason.len().max(CACHE_ENTRY),
            },
            life: Life {
                yes: settings.token_life,
                no: settings.token_life,
                is_yes: |verdict| matches!(verdict, TokenVerdict::Authenticated(_)),
            },
            at_a_time: settings.token_reviews,
            waiting: settings.token_waiting,
            rate: settings.review_rate,
            budget: settings.token_budget,
            counts: |counters| &counters.tokens,
        };
        let good = Cache::builder().max_capacity(GOOD_TOKENS);
        Self {
            reviewer,
            audiences: settings.audiences.as_slice().into(),
            memo: Memo::new(rules, counters),
            good: good.time_to_live(GOOD_LIFE).build(),
            waiting: Places::new(settings.token_waiting),
            waiting_of: Shares::default(),
            reviews_of: Shares::default(),
            address_waiting: settings.address_waiting,
            address_tokens: settings.address_tokens,
            key: Key::random(),
        }
    }

    /// Whose the token is that came from `address`; waits until `until`.
    pub(super) async fn owner(
        &self,
        token: &Token,
        address: Option<IpAddr>,
        until: Instant,
    ) -> Result<Identity, TokenFailure> {
        let key = self.digest(token).map_err(TokenFailure::Refused)?;
        let verdict = match self.memo.remembered(&key).await {
            Some(verdict) => verdict,
            None => {
                let reviewed = self.review(key, token, address, until).await;
                reviewed.map_err(|error| match error {
                    Unlearnt::Busy => TokenFailure::Busy,
                    Unlearnt::Failed(error) => {
                        TokenFailure::Refused(format!("the token could not be reviewed: {error}"))
                    }
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

    async fn review(
        &self,
        key: Digest,
        token: &Token,
        address: Option<IpAddr>,
        until: Instant,
    ) -> Result<TokenVerdict, Unlearnt> {
        let (rank, surety) = if self.good.contains_key(&key) {
            (Rank::First, Surety::Token(key))
        } else {
            (Rank::Common, Surety::address(address))
        };
        let _waiting = self.wait(rank, surety).ok_or(Unlearnt::Busy)?;
        let share = || self.reviews_of.take(surety, self.address_tokens);
        let (reviewer, good) = (self.reviewer.clone(), self.good.clone());
        let (token, audiences) = (token.clone(), self.audiences.clone());
        let ask = async move {
            let verdict = reviewer.token(&token, &audiences).await?;
            match &verdict {
                TokenVerdict::Authenticated(_) => good.insert(key, ()).await,
                TokenVerdict::Refused(_) => good.invalidate(&key).await,
            }
            Ok(verdict)
        };
        let asker = Asker { rank, until };
        self.memo.learn(Some(key), asker, share, ask).await
    }

    /// A place to wait. Garbage tokens must not pile up, nor keep out others'.
    fn wait(&self, rank: Rank, surety: Surety) -> Option<(Share, Option<Place>)> {
        match rank {
            Rank::First => Some((self.waiting_of.take(surety, GOOD_WAITING)?, None)),
            Rank::Common => {
                let share = self.waiting_of.take(surety, self.address_waiting)?;
                Some((share, Some(self.waiting.try_take(rank)?)))
            }
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
