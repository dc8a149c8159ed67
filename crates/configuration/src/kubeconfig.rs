//! Connection settings for Prometheus from a kubeconfig (`--prometheus-auth-config`).
//!
//! It uses the current context's authority, client certificate, token and basic
//! authentication, as client-go reads them (`tools/clientcmd`, `transport`). The context's
//! `server` is not Prometheus and is ignored, as in prometheus-adapter. Unsupported
//! settings are rejected, because queries without them would have another identity.

use std::path::Path;

use k8s_openapi::ByteString;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret as _, SecretString};

use limits::file::{self, yaml};
use prometheus_source::settings::{Auth, ClientPair, Credentials, SecretSource, Tls};

/// The settings of a kubeconfig's current context. Files that it names are read again when
/// they change.
///
/// # Errors
/// When it cannot be read or has unsupported settings; the error has the remedy.
pub(crate) fn credentials(path: &Path) -> Result<Credentials, String> {
    read(path).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn read(path: &Path) -> Result<Credentials, String> {
    // kube reads some binary files as text and panics.
    file::text(path).map_err(|why| format!("cannot be read: {why}: check the path"))?;
    let file = Kubeconfig::read_from(path).map_err(|error| match &error {
        KubeconfigError::Parse(error) => no_kubeconfig(&yaml::report(error)),
        error => no_kubeconfig(&error.to_string()),
    })?;
    let (cluster, user) = current(file)
        .ok_or("current-context does not lead to a cluster and a user: add them".to_owned())?;
    for (key, is_set) in [
        ("tls-server-name", set(cluster.tls_server_name.as_ref())),
        ("proxy-url", set(cluster.proxy_url.as_ref())),
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("as", set(user.impersonate.as_ref())),
    ] {
        if is_set {
            return Err(format!("{key} is not supported: remove it"));
        }
    }
    Ok(Credentials {
        tls: tls(cluster, &user)?,
        auth: auth(user),
    })
}

fn no_kubeconfig(reason: &str) -> String {
    format!("this is no kubeconfig: {reason}: write one as kubectl does")
}

fn current(file: Kubeconfig) -> Option<(Cluster, AuthInfo)> {
    let name = file.current_context?;
    let mut contexts = file.contexts.into_iter();
    let context = contexts.find(|it| it.name == name)?.context?;
    let mut clusters = file.clusters.into_iter();
    let cluster = clusters.find(|it| it.name == context.cluster)?.cluster?;
    let name = context.user?;
    let mut users = file.auth_infos.into_iter();
    let user = users.find(|it| it.name == name)?.auth_info?;
    Some((cluster, user))
}

/// Whether a value is set. An empty value counts as unset, as in client-go.
fn set(value: Option<&String>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

fn file(path: Option<&String>) -> Option<SecretSource> {
    let path = path.filter(|path| !path.is_empty());
    path.map(|path| SecretSource::File(path.into()))
}

fn secret(value: Option<SecretString>) -> Option<SecretString> {
    value.filter(|value| !value.expose_secret().is_empty())
}

fn tls(cluster: Cluster, user: &AuthInfo) -> Result<Tls, String> {
    let data = cluster.certificate_authority_data.map(Into::into);
    let ca = pem(
        "certificate-authority",
        cluster.certificate_authority.as_ref(),
        data,
    )?;
    let data = user.client_certificate_data.clone().map(Into::into);
    let cert = pem("client-certificate", user.client_certificate.as_ref(), data)?;
    let data = user.client_key_data.clone();
    let key = pem("client-key", user.client_key.as_ref(), data)?;
    let client = match (cert, key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some(ClientPair { cert, key }),
        _ => return Err("has only one of client-certificate and client-key: set both".to_owned()),
    };
    // An authority takes precedence over insecure-skip-tls-verify.
    let unverified = ca.is_none() && cluster.insecure_skip_tls_verify == Some(true);
    Ok(Tls {
        ca,
        client,
        unverified,
    })
}

/// Inline data, which takes precedence over a file, as in client-go.
fn pem(
    key: &str,
    path: Option<&String>,
    data: Option<SecretString>,
) -> Result<Option<SecretSource>, String> {
    let Some(data) = secret(data) else {
        return Ok(file(path));
    };
    // The decoder's error may contain bytes of a key, so it is not used.
    let ByteString(text) = serde_json::from_value(data.expose_secret().into())
        .map_err(|_| no_kubeconfig(&format!("{key}-data is not base64")))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Some(SecretSource::Inline(text.into())))
}

/// A token file takes precedence over a token, as in client-go, and both over a username.
fn auth(user: AuthInfo) -> Auth {
    let token = || Some(secret(user.token)?.expose_secret().trim().into());
    if let Some(token) =
        file(user.token_file.as_ref()).or_else(|| token().map(SecretSource::Inline))
    {
        return Auth::Bearer(token);
    }
    match (user.username, secret(user.password)) {
        (username, None) if !set(username.as_ref()) => Auth::None,
        (username, password) => Auth::Basic {
            username: username.unwrap_or_default(),
            password: SecretSource::Inline(password.unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cluster: &str, user: &str) -> Result<Credentials, String> {
        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: p, user: u}}}}],\n\
             clusters: [{{name: p, cluster: {cluster}}}],\nusers: [{{name: u, user: {user}}}]}}"
        );
        of(&text)
    }

    fn of(text: &str) -> Result<Credentials, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        let read = credentials(&path);
        let relative = |source: &mut SecretSource| {
            if let SecretSource::File(path) = source {
                *path = path.strip_prefix(folder.path()).unwrap().into();
            }
        };
        read.map(|mut read| {
            read.tls.ca.iter_mut().for_each(relative);
            if let Auth::Bearer(source) = &mut read.auth {
                relative(source);
            }
            read
        })
    }

    fn is_file(pem: Option<&SecretSource>, wanted: &str) -> bool {
        matches!(pem, Some(SecretSource::File(path)) if path == Path::new(wanted))
    }

    fn is_inline(pem: Option<&SecretSource>, wanted: &str) -> bool {
        matches!(pem, Some(SecretSource::Inline(text)) if text.expose_secret() == wanted)
    }

    #[test]
    fn the_current_context_gives_authority_certificate_and_identity() {
        let server = "{server: \"https://kube:6443\", certificate-authority: ca.pem}";
        let read = |user| read(server, user).unwrap();
        assert!(matches!(read("{}").auth, Auth::None));
        assert!(is_file(read("{}").tls.ca.as_ref(), "ca.pem"));
        let by_token = read("{token: abc}").auth;
        assert!(matches!(by_token, Auth::Bearer(token) if is_inline(Some(&token), "abc")));
        let by_file = read("{token: abc, tokenFile: run/token}").auth;
        assert!(matches!(by_file, Auth::Bearer(file) if is_file(Some(&file), "run/token")));
        let Auth::Basic {
            username,
            password: SecretSource::Inline(password),
        } = read("{username: ali, password: sesame}").auth
        else {
            panic!("no user");
        };
        assert_eq!([&*username, password.expose_secret()], ["ali", "sesame"]);
        let pair = "{client-certificate-data: YQ==, client-key-data: Yg==}";
        let client = read(pair).tls.client.unwrap();
        assert!(is_inline(Some(&client.key), "b") && is_inline(Some(&client.cert), "a"));
    }

    #[test]
    fn inline_data_takes_precedence_over_a_file_and_an_authority_over_none() {
        let both = "{certificate-authority: ca.pem, certificate-authority-data: YQ==}";
        assert!(is_inline(read(both, "{}").unwrap().tls.ca.as_ref(), "a"));
        let skips = |more: &str| {
            let cluster = format!("{{insecure-skip-tls-verify: true{more}}}");
            read(&cluster, "{}").unwrap().tls.unverified
        };
        assert!(skips("") && !skips(", certificate-authority: a"));
    }

    /// A cluster, a user, and words of the error.
    const REFUSED: &str = r#"
{proxy-url: "http://x"} | {} | proxy-url is not supported
{tls-server-name: x} | {} | tls-server-name is not
{} | {exec: {command: x}} | exec is not supported
{} | {auth-provider: {name: x}} | auth-provider is not
{} | {as: admin, token: hidden} | as is not supported
{} | {client-key: k} | set both
{} | {token: [hidden]} | no kubeconfig:
{} | {token: a, exec: hidden} | no kubeconfig:
{} | {exec: {interactiveMode: hidden}} | no kubeconfig:
{} | {client-certificate: a, client-key-data: "!hidden"} | client-key-data is not base64
{certificate-authority-data: "!hidden"} | {} | no kubeconfig
"#;

    #[test]
    fn unsupported_settings_are_rejected_without_showing_a_secret() {
        for row in REFUSED.trim().lines() {
            let cells: Vec<&str> = row.split(" | ").collect();
            let error = read(cells[0], cells[1]).unwrap_err();
            assert!(error.contains(cells[2]), "{error}");
            assert!(error.contains("kubeconfig: "), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
        let error = of("{current-context: gone}").unwrap_err();
        assert!(error.contains("current-context does not lead"), "{error}");
        let gone = credentials(Path::new("/no/such/file")).unwrap_err();
        assert!(
            gone.to_string()
                .starts_with("/no/such/file: cannot be read")
        );
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let read = read(
            "{}",
            "{token: hidden, client-certificate-data: aGlkZGVu, client-key-data: aGlkZGVu}",
        );
        let text = format!("{:?}", read.unwrap());
        assert!(
            !text.contains("hidden") && !text.contains("104, 105"),
            "{text}"
        );
    }
}
