//! Certificates by the name that a client requests (SNI).
//!
//! The order is that of kube-apiserver's library (apiserver
//! `pkg/server/dynamiccertificates/named_certificates.go`, Go `crypto/tls`,
//! `getCertificate`): an exact name before a pattern, configured names before the names of
//! a certificate, earlier pairs before later ones.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::Serving;
use super::files::Files;
use super::pair::Pair;

/// A pair of files, and the names it is served for.
#[derive(Clone, Debug)]
pub struct NamedFiles {
    /// The pair.
    pub files: Files,
    /// DNS names, and patterns such as `*.example.com`, in lower case; empty: the names of
    /// the certificate.
    pub names: Vec<String>,
}

/// A pair in force, and the names it is served for.
#[derive(Clone, Debug)]
pub struct Named {
    /// As in [`NamedFiles`].
    pub names: Vec<String>,
    /// The pair.
    pub serving: Serving,
}

/// Named pairs, and the pair for all other names and for clients that send none.
#[derive(Debug)]
pub struct ByName {
    named: Vec<Named>,
    default: Serving,
}

impl ByName {
    /// Named pairs before a default one.
    pub const fn new(named: Vec<Named>, default: Serving) -> Self {
        Self { named, default }
    }

    /// The named pair for a name; `None`: the default one.
    fn pair(&self, name: &str) -> Option<Pair> {
        let name = name.to_ascii_lowercase();
        let pattern = match name.split_once('.') {
            Some((_, parent)) => format!("*.{parent}"),
            None => "*".to_owned(),
        };
        self.exactly(&name).or_else(|| self.exactly(&pattern))
    }

    fn exactly(&self, name: &str) -> Option<Pair> {
        let given = self.named.iter().filter(|it| has(&it.names, name));
        let mut given = given.filter_map(|it| it.serving.pair());
        given.next().or_else(|| {
            let nameless = self.named.iter().filter(|it| it.names.is_empty());
            let mut pairs = nameless.filter_map(|it| it.serving.pair());
            pairs.find(|pair| has(pair.names(), name))
        })
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|it| it.eq_ignore_ascii_case(name))
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.pair(name));
        match named {
            Some(pair) => Some(pair.certified()),
            None => self.default.resolve(hello),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::authority::CertificateAuthority;
    use crate::certificates::serving;
    use crate::testing::test_server::validity;

    fn in_force(names: &[&str]) -> Serving {
        let authority = CertificateAuthority::new("test", validity()).unwrap();
        let issued = authority.serving(names, &[], validity()).unwrap();
        let texts = (issued.certificate_pem.as_bytes(), issued.key_pem.as_bytes());
        let pair = Pair::read((texts.0, "a"), (texts.1, "b")).unwrap();
        let (publisher, serving) = serving();
        publisher.serve(pair);
        serving
    }

    fn named(names: &[&str], of_certificate: &[&str]) -> Named {
        Named {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            serving: in_force(of_certificate),
        }
    }

    #[test]
    fn exact_configured_and_earlier_names_come_first() {
        let pairs = ByName::new(
            vec![
                named(&[], &["one.example.com", "*.example.com", "both.test"]),
                named(&["*.example.com", "both.test"], &["given"]),
                named(&["two.example.com"], &["two"]),
                named(&["two.example.com"], &["never"]),
                named(&["*"], &["single"]),
                named(&[], &["*.read.test"]),
            ],
            in_force(&["default"]),
        );
        for (asked, shown) in [
            ("one.example.com", Some("one.example.com")),
            ("two.example.com", Some("two")),
            ("TWO.Example.com", Some("two")),
            ("both.test", Some("given")),
            ("three.example.com", Some("given")),
            ("a.b.example.com", None),
            ("example.com", None),
            ("host", Some("single")),
            ("a.read.test", Some("*.read.test")),
            ("other.test", None),
        ] {
            let first = pairs.pair(asked).map(|pair| pair.names()[0].clone());
            assert_eq!(first.as_deref(), shown, "{asked}");
        }
    }

    #[test]
    fn names_of_a_pair_without_a_certificate_use_other_pairs() {
        let late = Named {
            names: vec!["a.test".to_owned()],
            serving: serving().1,
        };
        let pairs = ByName::new(vec![late, named(&[], &["a.test"])], in_force(&["x"]));
        assert_eq!(pairs.pair("a.test").unwrap().names(), ["a.test"]);
        assert!(pairs.pair("b.test").is_none());
    }
}
