//! Access to the page: only the browser of the user that started it, and no other user of
//! the machine and no other site.
//!
//! The address does not protect the page: every user of the machine reaches it, and so
//! does every site in the browser, through a name that resolves to this address (DNS
//! rebinding) or through a link.

use std::sync::Mutex;
use std::sync::PoisonError;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use http::header::{COOKIE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::query::Query;

/// The site that a request comes from, as browsers report it (W3C Fetch Metadata).
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The secrets of one page.
#[derive(Debug)]
pub(super) struct Guard {
    /// `127.0.0.1:PORT`.
    host: String,
    /// The name of the cookie. It contains the port, because all ports of a host
    /// share cookies.
    cookie: String,
    /// `None` once it was exchanged.
    token: Mutex<Option<String>>,
    session: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Pass,
    /// The request has a token in its address, and is redirected to the address without
    /// it. The value is the cookie to set, if the browser has none.
    Enter(Option<String>),
    /// 403: the request has another host name, or comes from another site.
    Foreign,
    /// 401: the request has no token and no cookie.
    Unknown,
}

impl Guard {
    /// A guard for the listener at `host`, with a new token.
    pub(super) fn new(host: String) -> Option<Self> {
        let port = host.rsplit(':').next().unwrap_or_default();
        Some(Self {
            cookie: format!("gpu-metrics-page-{port}"),
            host,
            token: Mutex::new(Some(secret()?)),
            session: secret()?,
        })
    }

    /// The address with the token, which works once.
    pub(super) fn url(&self) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let token = token.as_deref().unwrap_or_default();
        format!("http://{}/?token={token}", self.host)
    }

    pub(super) fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Admission {
        let only = |name: HeaderName| only(headers, name);
        let origin = format!("http://{}", self.host);
        let is_ours = only(HOST) == (Some(self.host.as_bytes()), false)
            && [(None, false), (Some(origin.as_bytes()), false)].contains(&only(ORIGIN));
        if !is_ours || is_of_other_site(headers) {
            return Admission::Foreign;
        }
        let query = Query::of(uri);
        match (query.get("token"), self.is_known(headers)) {
            (None, true) => Admission::Pass,
            (None, false) => Admission::Unknown,
            // A used link still opens the page in the browser that used it.
            (Some(_), true) => Admission::Enter(None),
            (Some(token), false) => self.exchange(token),
        }
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.flat_map(|line| line.as_bytes().split(|it| *it == b';'));
        let mut values = cookies.filter_map(|it| {
            it.trim_ascii()
                .strip_prefix(self.cookie.as_bytes())?
                .strip_prefix(b"=")
        });
        values.any(|it| is_same(it, &self.session))
    }

    fn exchange(&self, token: &str) -> Admission {
        let mut known = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_deref() {
            Some(good) if is_same(token.as_bytes(), good) => {
                *known = None;
                let (name, session) = (&self.cookie, &self.session);
                Admission::Enter(Some(format!(
                    "{name}={session}; HttpOnly; SameSite=Strict; Path=/"
                )))
            }
            _ => Admission::Unknown,
        }
    }
}

/// The first line of a header, and whether there are more.
fn only(headers: &HeaderMap, name: HeaderName) -> (Option<&[u8]>, bool) {
    let mut all = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    (all.next(), all.next().is_some())
}

fn is_of_other_site(headers: &HeaderMap) -> bool {
    let site = only(headers, SITE).0;
    !matches!(site, None | Some(b"same-origin" | b"none"))
}

fn is_same(one: &[u8], other: &str) -> bool {
    verify_slices_are_equal(one, other.as_bytes()).is_ok()
}

/// 256 random bits.
fn secret() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST_OF_TESTS: &str = "127.0.0.1:4040";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn judged(guard: &Guard, path: &str, lines: &[(&'static str, &str)]) -> Admission {
        guard.judge(&path.parse().unwrap(), &headers(lines))
    }

    #[test]
    fn a_token_is_valid_once_and_its_cookie_until_the_end() {
        let guard = Guard::new(HOST_OF_TESTS.to_owned()).unwrap();
        let host = ("host", HOST_OF_TESTS);
        let url = guard.url();
        let path = url.strip_prefix("http://127.0.0.1:4040").unwrap();
        let wrong = "/?token=0123456789abcdef";
        let with = |path: &str, cookie: &str| judged(&guard, path, &[host, ("cookie", cookie)]);
        assert_eq!(judged(&guard, wrong, &[host]), Admission::Unknown);
        let Admission::Enter(Some(cookie)) = judged(&guard, path, &[host]) else {
            panic!("the token was refused");
        };
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"));
        assert_eq!(judged(&guard, path, &[host]), Admission::Unknown);
        assert_eq!(judged(&guard, "/?token=", &[host]), Admission::Unknown);
        let (session, _) = cookie.split_once(';').unwrap();
        for path in [path, wrong] {
            assert_eq!(with(path, session), Admission::Enter(None));
        }
        for line in [session, &format!("a=b; {session}; c=d")] {
            assert_eq!(with("/", line), Admission::Pass);
        }
        for line in [
            "",
            "gpu-metrics-page-4040=",
            &session.replace("4040", "4041"),
            &format!("x{session}"),
            &session[..session.len() - 1],
        ] {
            assert_eq!(with("/", line), Admission::Unknown);
        }
        assert_ne!(Guard::new(String::new()).unwrap().session, guard.session);
    }

    #[test]
    fn other_names_origins_and_sites_are_refused_with_any_cookie() {
        let guard = Guard::new(HOST_OF_TESTS.to_owned()).unwrap();
        let cookie = format!("{}={}", guard.cookie, guard.session);
        let with = |lines: &[(&'static str, &str)]| {
            let all = [&[("cookie", cookie.as_str())], lines].concat();
            judged(&guard, "/", &all)
        };
        let host = ("host", HOST_OF_TESTS);
        assert_eq!(with(&[host]), Admission::Pass);
        assert_eq!(
            with(&[host, ("origin", "http://127.0.0.1:4040")]),
            Admission::Pass
        );
        for lines in [
            &[][..],
            &[("host", "127.0.0.1")],
            &[("host", "localhost:4040")],
            &[("host", "evil.example:4040")],
            &[("host", "127.0.0.1:40400")],
            &[host, host],
            &[host, ("host", "evil.example")],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://evil.example")],
            &[host, ("origin", "https://127.0.0.1:4040")],
            &[host, ("origin", "http://127.0.0.1:4041")],
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
        ] {
            assert_eq!(with(lines), Admission::Foreign, "{lines:?}");
        }
        let url = guard.url();
        let (_, path) = url.split_once(HOST_OF_TESTS).unwrap();
        let foreign = [("host", "evil.example:4040")];
        assert_eq!(judged(&guard, path, &foreign), Admission::Foreign);
        assert_eq!(guard.url(), url, "a foreign request used the token up");
    }
}
