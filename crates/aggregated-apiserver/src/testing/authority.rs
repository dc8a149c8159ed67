//! The TLS settings of a test's server.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rustls::{RootCertStore, ServerConfig};

use super::test_server::validity;
use crate::certificates::authority::CertificateAuthority;
use crate::serve::tls::{ClientAuth, server_config};

pub fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name, validity()).unwrap()
}

/// A store that contains only this authority.
pub fn roots(authority: &CertificateAuthority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).unwrap();
    roots
}

/// The TLS settings of a server on 127.0.0.1 without HTTP/2. With `clients`, it accepts only
/// client certificates of that authority.
pub fn server_of(
    authority: &CertificateAuthority,
    clients: Option<&CertificateAuthority>,
) -> Arc<ServerConfig> {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let issued = authority.serving(&[], &[localhost], validity()).unwrap();
    let clients = clients.map_or(ClientAuth::Asked, |authority| {
        ClientAuth::Required(roots(authority).into())
    });
    let chain = vec![issued.certificate.clone()];
    let config = server_config(chain, issued.key(), &clients).unwrap();
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols.clear();
    Arc::new(config)
}
