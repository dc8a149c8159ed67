//! Who asks (`protocol.md` §4): a front proxy's headers, a client's
//! certificate, a bearer token, in this order; the first that is good counts.
//!
//! Credentials of which none is good are refused, also where nobody needs any;
//! who shows none is anonymous.

use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Request, Version};

use super::audit::{AccessOf, Trail, trail};
use super::denied::{Answer, Denied, Refusals};
use super::front_proxy;
use super::identity::Identity;
use super::layer::{Inner, Step, pass};
use super::peer::{Origin, Peer};
use super::places::Rank;
use super::tokens::{self, TokenFailure, Tokens};
use super::trust::{Trust, TrustStore};

/// How headers begin that ask to act as somebody else.
const IMPERSONATE: &str = "impersonate-";

/// Gives the time; certificates end by it.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Finds out who asks, and takes from the request what says so: further in,
/// only the [`Identity`] among its extensions (as `Arc<Identity>`) counts.
pub(super) struct Authenticate {
    pub(super) trust: Arc<TrustStore>,
    pub(super) tokens: Tokens,
    pub(super) clock: Clock,
    pub(super) refusals: Refusals,
    pub(super) access_of: AccessOf,
}

impl Authenticate {
    fn origin(&self, request: &Request<()>, trust: Option<&Trust>) -> Arc<Origin> {
        match request.extensions().get::<Peer>() {
            Some(peer) => peer.origin(trust, (self.clock)()),
            None => Arc::new(Origin::Anonymous),
        }
    }

    async fn identify(
        &self,
        origin: &Origin,
        trust: Option<&Trust>,
        headers: &HeaderMap,
        trail: &Trail,
    ) -> Result<Identity, Denied> {
        let mut wrong = Vec::new();
        match by_certificate(origin, trust, headers) {
            Ok(Some(identity)) => return Ok(identity.with_authenticated_group()),
            Ok(None) => {}
            Err(why) => wrong.push(why),
        }
        match tokens::shown(headers) {
            Ok(None) => {}
            Ok(Some(token)) => match self
                .tokens
                .owner(&token, trail.address(), trail.until())
                .await
            {
                Ok(identity) => return Ok(identity.with_authenticated_group()),
                Err(TokenFailure::Busy) => return Err(Denied::Busy),
                Err(TokenFailure::Refused(why)) => wrong.push(why),
            },
            Err(why) => wrong.push(why),
        }
        if wrong.is_empty() {
            Ok(Identity::anonymous())
        } else {
            let why = wrong.join("; ");
            Err(Denied::Unauthenticated { why })
        }
    }
}

/// Whom the certificate stands for; `None` when none was shown.
fn by_certificate(
    origin: &Origin,
    trust: Option<&Trust>,
    headers: &HeaderMap,
) -> Result<Option<Identity>, String> {
    match origin {
        Origin::Anonymous => Ok(None),
        Origin::Unverified(why) => Err(format!("the certificate is not believed: {why}")),
        Origin::Client(identity) => Ok(Some(identity.clone())),
        Origin::FrontProxy { name, client } => {
            let proxy = trust.and_then(|trust| trust.proxy.as_ref());
            let proxy = proxy.ok_or("no front proxy is believed")?;
            match (front_proxy::identity(proxy, headers)?, client) {
                (Some(identity), _) => Ok(Some(identity)),
                // Its own name is a user's only where the clients' authority
                // says so too.
                (None, Some(identity)) => Ok(Some(identity.clone())),
                (None, None) => Err(format!("the front proxy {name:?} names no user")),
            }
        }
    }
}

/// Whether a connection is not worth keeping: HTTP/2 from who proved nothing
/// (CVE-2023-44487), and either protocol from who shows what is no good or is
/// one too many to be asked about, so that each guess costs a handshake. A front
/// proxy's connection carries all its users.
fn is_suspect(origin: &Origin, version: Version, identified: &Result<Identity, Denied>) -> bool {
    match (origin, identified) {
        (Origin::FrontProxy { .. }, _) => false,
        (_, Ok(identity)) => version == Version::HTTP_2 && identity.is_anonymous(),
        (_, Err(_)) => true,
    }
}

fn rank(origin: &Origin) -> Rank {
    match origin {
        Origin::FrontProxy { .. } => Rank::First,
        Origin::Anonymous | Origin::Client(_) | Origin::Unverified(_) => Rank::Common,
    }
}

impl Step for Authenticate {
    async fn run<S: Inner>(self: Arc<Self>, mut request: Request<()>, inner: S) -> Answer {
        let trail = trail(&request, self.access_of);
        let trust = self.trust.current();
        let trust = trust.as_deref();
        let origin = self.origin(&request, trust);
        let identified = self
            .identify(&origin, trust, request.headers(), &trail)
            .await;
        let proxy = trust.and_then(|trust| trust.proxy.as_ref());
        front_proxy::strip(proxy, request.headers_mut());
        if is_suspect(&origin, request.version(), &identified)
            && let Some(peer) = request.extensions().get::<Peer>()
        {
            peer.hang_up();
        }
        let admitted = identified.and_then(|who| {
            let rank = rank(&origin);
            admit((who, rank), &trail, &mut request)
        });
        match admitted {
            Ok(()) => pass(inner, request).await,
            Err(denied) => self.refusals.answer(denied, &trail),
        }
    }
}

/// Writes down who asks, for the layers and the handler further in.
fn admit(
    (identity, rank): (Identity, Rank),
    trail: &Trail,
    request: &mut Request<()>,
) -> Result<(), Denied> {
    let identity = Arc::new(identity);
    trail.identify(identity.clone(), rank);
    let mut names = request.headers().keys();
    if names.any(|name| name.as_str().starts_with(IMPERSONATE)) {
        return Err(Denied::Impersonation);
    }
    request.extensions_mut().insert(identity);
    Ok(())
}
