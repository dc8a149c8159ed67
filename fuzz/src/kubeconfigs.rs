//! Kubeconfigs with the credentials for Prometheus: no message and no log has a secret.

use configuration::Flags;
use prometheus_source::settings::{Auth, SecretSource};
use secrecy::ExposeSecret as _;

pub fn check(input: &[u8]) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), input).expect("a file");
    let flags = Flags {
        prometheus_auth_config: Some(file.path().to_owned()),
        prometheus_url: "http://prometheus:9090".parse().ok(),
        ..Flags::default()
    };
    let (config, _) = match flags.load() {
        Ok(read) => read,
        Err(error) => {
            let error = error.to_string();
            super::check_line(&error);
            let place = format!("--prometheus-auth-config: {}: ", file.path().display());
            assert!(error.starts_with(&place), "{error}");
            return;
        }
    };
    let settings = config.prometheus.expect("an address");
    let shown = format!("{settings:?}");
    let auth = match settings.auth {
        Auth::Bearer(source)
        | Auth::Basic {
            password: source, ..
        } => Some(source),
        Auth::None | Auth::Cloud(_) => None,
    };
    let pair = settings
        .tls
        .client
        .into_iter()
        .flat_map(|pair| [pair.cert, pair.key]);
    for source in auth.into_iter().chain(pair).chain(settings.tls.ca) {
        if let SecretSource::Inline(secret) = source
            && secret.expose_secret().len() > 20
        {
            assert!(!shown.contains(secret.expose_secret()), "{shown}");
        }
    }
}
