//! The offered TLS versions, suites and protocols, with the names of the flags of
//! kube-apiserver's libraries (`k8s.io/component-base/cli/flag/ciphersuites_flag.go`).

use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

/// TLS 1.3 only.
pub const ONLY_TLS13: &[&SupportedProtocolVersion] = &[&TLS13];

/// The TLS settings offered to clients.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub http2: bool,
    /// The versions.
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// In order of preference.
    pub suites: Vec<SupportedCipherSuite>,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            http2: true,
            versions: ALL_VERSIONS,
            suites: ALL_CIPHER_SUITES.to_vec(),
        }
    }
}

impl TlsOptions {
    /// Restricts TLS 1.2 to the named suites. The suites of 1.3 cannot be chosen, as in Go.
    /// Returns the names that this server does not support: block modes and key exchange
    /// without forward secrecy.
    ///
    /// # Errors
    /// When a name is of no suite, or no suite is left.
    pub fn choose(&mut self, wanted: &[String]) -> Result<Vec<String>, String> {
        let known = ALL_CIPHER_SUITES.iter();
        let known = known.filter(|suite| suite.tls13().is_none());
        let known: Vec<&str> = known.filter_map(|it| it.suite().as_str()).collect();
        let known = known.join(", ");
        let mut unsupported = Vec::new();
        for name in wanted.iter().map(|name| name.trim()) {
            let mut all = (0..=u16::MAX).map(CipherSuite::from);
            let Some(suite) = all.find(|suite| is_named(*suite, name)) else {
                return Err(format!(
                    "{name:?} is no name of a TLS cipher suite: name one of {known}"
                ));
            };
            if !ALL_CIPHER_SUITES.iter().any(|it| it.suite() == suite) {
                unsupported.push(name.to_owned());
            }
        }
        self.suites.retain(|suite| {
            let mut wanted = wanted.iter();
            suite.tls13().is_some() || wanted.any(|name| is_named(suite.suite(), name.trim()))
        });
        let old = self.suites.iter().any(|suite| suite.tls13().is_none());
        if !old && self.versions.contains(&&TLS12) {
            return Err(format!(
                "none of these suites is offered: name one of {known}"
            ));
        }
        Ok(unsupported)
    }
}

/// Whether the suite has this IANA name, or the shorter name of older Go versions.
fn is_named(suite: CipherSuite, name: &str) -> bool {
    let Some(iana) = suite.as_str() else {
        return false;
    };
    let plain = iana.replacen("TLS13_", "TLS_", 1);
    plain == name || plain.strip_suffix("_SHA256") == Some(name) && name.ends_with("POLY1305")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(wanted: &[&str]) -> (Result<Vec<String>, String>, Vec<String>) {
        let mut offer = TlsOptions::default();
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        let said = offer.choose(&wanted);
        let names = offer.suites.iter();
        let names = names.filter(|suite| suite.tls13().is_none());
        let names = names.map(|suite| suite.suite().as_str().unwrap().to_owned());
        (said, names.collect())
    }

    /// The list of kube-prometheus
    /// (`jsonnet/kube-prometheus/components/prometheus-adapter.libsonnet`).
    #[test]
    fn the_suites_of_a_usual_manifest_are_supported_except_block_modes() {
        let (said, left) = choose(&[
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
            "TLS_AES_128_GCM_SHA256",
            "TLS_RSA_WITH_AES_256_CBC_SHA",
        ]);
        assert_eq!(said.unwrap(), ["TLS_RSA_WITH_AES_256_CBC_SHA"]);
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn a_list_without_a_supported_suite_and_misspelt_names_are_rejected() {
        let (said, _) = choose(&["TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_RC4_128_SHA"]);
        let text = said.unwrap_err();
        assert!(text.contains("TLS_ECDHE_ECDSA_WITH_AES_"), "{text}");
        let good = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        for wrong in ["AES", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265"] {
            let text = choose(&[good, wrong]).0.unwrap_err();
            let words = format!("{wrong:?} is no name of a TLS cipher suite");
            assert!(text.contains(&words), "{text}");
        }
    }

    #[test]
    fn tls_1_3_alone_needs_no_other_suite() {
        let mut offer = TlsOptions {
            versions: ONLY_TLS13,
            ..TlsOptions::default()
        };
        let aes = "TLS_AES_256_GCM_SHA384".to_owned();
        assert_eq!(offer.choose(&[aes]), Ok(Vec::new()));
    }
}
