//! Authentication (docs/protocol.md, "Authentication"): a front proxy's headers, a client
//! certificate, a bearer token, in this order. The first valid one counts.
//!
//! A request whose credentials are all invalid is refused, even if its path needs none. A
//! request without credentials is anonymous.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Version};
use secrecy::SecretString;
use tokio::time::Instant;

use super::Security;
use super::front_proxy;
use super::identity::{Identity, User, Via};
use super::peer::{Origin, Peer};
use super::reviewer::TokenVerdict;
use super::trust::Trust;
use crate::refusal::Refusal;

const IMPERSONATE: &str = "impersonate-";

impl Security {
    /// The user of a request on this connection. Removes the identity headers. Reviews end
    /// at `until`.
    pub(crate) async fn authenticate(
        &self,
        peer: Option<&Peer>,
        version: Version,
        headers: &mut HeaderMap,
        until: Instant,
    ) -> Result<User, Refusal> {
        let trust = self.trust.current();
        let origin = match peer {
            Some(peer) => peer.origin(trust.as_ref(), (self.clock)()),
            None => Arc::new(Origin::Anonymous),
        };
        let trust = trust.as_deref();
        let identified = self.identify(&origin, trust, headers, until).await;
        let proxy = trust.and_then(|trust| trust.proxy.as_ref());
        front_proxy::strip(proxy, headers);
        if is_suspect(&origin, version, &identified)
            && let Some(peer) = peer
        {
            peer.hang_up();
        }
        let via = match *origin {
            Origin::FrontProxy => Via::FrontProxy,
            Origin::Anonymous | Origin::Client(_) | Origin::Unverified(_) => Via::Direct,
        };
        identified.map(|identity| User {
            identity: Arc::new(identity),
            via,
        })
    }

    async fn identify(
        &self,
        origin: &Origin,
        trust: Option<&Trust>,
        headers: &HeaderMap,
        until: Instant,
    ) -> Result<Identity, Refusal> {
        let mut wrong = Vec::new();
        match by_certificate(origin, trust, headers) {
            Ok(Some(identity)) => return Ok(identity.with_authenticated_group()),
            Ok(None) => {}
            Err(why) => wrong.push(why),
        }
        match bearer_token(headers) {
            Ok(None) => {}
            Ok(Some(token)) => match self.reviews.token(&token, until).await {
                Ok(TokenVerdict::Allowed(identity)) if identity.user.is_empty() => {
                    wrong.push("the token's review names no user".to_owned());
                }
                Ok(TokenVerdict::Allowed(identity)) => {
                    return Ok(identity.with_authenticated_group());
                }
                Ok(TokenVerdict::Refused(reason)) => {
                    wrong.push(format!("the token is refused: {reason}"));
                }
                Err(Refusal::ReviewFailed { why }) => {
                    wrong.push(format!("the token could not be reviewed: {why}"));
                }
                Err(refusal) => return Err(refusal),
            },
            Err(why) => wrong.push(why),
        }
        if wrong.is_empty() {
            Ok(Identity::anonymous())
        } else {
            let why = wrong.join("; ");
            Err(Refusal::Unauthenticated { why })
        }
    }
}

pub(crate) fn impersonates(headers: &HeaderMap) -> bool {
    let mut names = headers.keys();
    names.any(|name| name.as_str().starts_with(IMPERSONATE))
}

/// The user of the certificate; `None`: the client sent no certificate.
fn by_certificate(
    origin: &Origin,
    trust: Option<&Trust>,
    headers: &HeaderMap,
) -> Result<Option<Identity>, String> {
    match origin {
        Origin::Anonymous => Ok(None),
        Origin::Unverified(why) => Err(format!("the certificate is not accepted: {why}")),
        Origin::Client(identity) => Ok(Some(identity.clone())),
        Origin::FrontProxy => {
            let proxy = trust.and_then(|trust| trust.proxy.as_ref());
            let proxy = proxy.ok_or("no front proxy is accepted")?;
            let identity = front_proxy::identity(proxy, headers)?;
            Ok(Some(identity.ok_or("the front proxy names no user")?))
        }
    }
}

/// Whether to close the connection after this request. On HTTP/2 that is any anonymous
/// client (CVE-2023-44487). On both protocols it is a client whose authentication failed or
/// found no free review, so that each guess of a credential costs a handshake. A front
/// proxy's connection is kept, because it carries all users.
fn is_suspect(origin: &Origin, version: Version, identified: &Result<Identity, Refusal>) -> bool {
    match (origin, identified) {
        (Origin::FrontProxy, _) => false,
        (_, Ok(identity)) => version == Version::HTTP_2 && identity.is_anonymous(),
        (_, Err(_)) => true,
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<Option<SecretString>, String> {
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
        Ok(token) => Ok(Some(token.into())),
        Err(_) => Err("the bearer token is not text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_anonymous_clients_on_http_2_and_of_failed_guesses_close() {
        let user = || Identity {
            user: "jane".to_owned(),
            ..Identity::default()
        };
        let refused = || {
            let why = String::new();
            Err(Refusal::Unauthenticated { why })
        };
        let (http_1, http_2) = (Version::HTTP_11, Version::HTTP_2);
        for (origin, version, identified, closes) in [
            (Origin::FrontProxy, http_2, refused(), false),
            (Origin::FrontProxy, http_2, Ok(Identity::anonymous()), false),
            (Origin::Anonymous, http_2, Ok(Identity::anonymous()), true),
            (Origin::Anonymous, http_1, Ok(Identity::anonymous()), false),
            (Origin::Anonymous, http_1, refused(), true),
            (Origin::Anonymous, http_2, Ok(user()), false),
            (Origin::Client(user()), http_2, Ok(user()), false),
        ] {
            let found = is_suspect(&origin, version, &identified);
            assert_eq!(found, closes, "{origin:?} {version:?} {identified:?}");
        }
    }
}
