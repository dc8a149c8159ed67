//! Certificates of clients and authorities: only the genuine one is a front proxy's, and a
//! broken bundle changes nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use aggregated_apiserver::security::peer::Peer;
use aggregated_apiserver::security::trust::{
    ALLOWED_NAMES, CLIENT_CA, PROXY_CA, TrustError, TrustStore,
};
use aggregated_apiserver::x509::{Certificate, from_pem};
use rustls_pki_types::CertificateDer;

type Data = BTreeMap<String, String>;

/// What the ConfigMap of a cluster has, and the certificate of its front proxy.
static GENUINE: LazyLock<(Data, CertificateDer<'static>)> = LazyLock::new(|| {
    let data = serde_json::from_slice(include_bytes!("../corpus/certificates/configmap.json"));
    let chain = from_pem(include_bytes!("../corpus/certificates/front-proxy.pem"));
    (data.expect("JSON"), chain.expect("PEM").remove(0))
});

pub fn check(input: &[u8]) {
    let (genuine, front_proxy) = &*GENUINE;
    let store = TrustStore::default();
    assert!(store.load(genuine).is_empty());
    let trust = store.current().expect("a trust");
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    for chain in [
        from_pem(input).unwrap_or_default(),
        vec![input.to_vec().into()],
    ] {
        for certificate in &chain {
            let read = Certificate::read(certificate);
            let _ = read.map(|it| it.validity().is_old(now));
        }
        let peer = Peer::new(([127, 0, 0, 1], 443).into(), &chain);
        let is_genuine = chain.first() == Some(front_proxy);
        assert!(is_genuine || !peer.is_front_proxy(Some(&trust), now));
    }
    if let Ok(data) = serde_json::from_slice::<Data>(input) {
        check_load(&store, &data);
    }
}

/// Loads data over the genuine ones.
fn check_load(store: &TrustStore, data: &Data) {
    let former = store.current().expect("a trust");
    let faults = store.load(data);
    let now = store.current().expect("a trust");
    let is_of = |key: &str, fault: &TrustError| match fault {
        TrustError::Missing(of) | TrustError::Unusable(of, _) => {
            (*of == CLIENT_CA) == (key == CLIENT_CA)
        }
        TrustError::Overlap => false,
    };
    if faults.iter().any(|fault| is_of(CLIENT_CA, fault)) {
        assert_eq!(
            format!("{:?}", now.clients),
            format!("{:?}", former.clients)
        );
    }
    if let Some(proxy) = &now.proxy {
        if faults.iter().any(|fault| is_of(PROXY_CA, fault)) {
            assert_eq!(
                format!("{proxy:?}"),
                format!("{:?}", former.proxy.as_ref().expect("one"))
            );
        } else if proxy.allowed_names.is_empty() {
            assert_ne!(
                data.get(CLIENT_CA),
                data.get(PROXY_CA),
                "{ALLOWED_NAMES} is empty"
            );
        }
    }
}
