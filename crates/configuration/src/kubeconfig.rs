//! Connection settings for Prometheus from a kubeconfig (`--prometheus-auth-config`).
//!
//! It uses the current context's authority, client certificate, token and basic
//! authentication, as client-go reads them (`tools/clientcmd`, `transport`). The context's
//! `server` is not Prometheus and is ignored, as in prometheus-adapter. Unsupported
//! settings are rejected, because queries without them would have another identity.

use std::path::{Path, PathBuf};

use http::HeaderValue;
use k8s_openapi::ByteString;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError as ReadError};
use secrecy::{ExposeSecret, SecretString};

use limits::file::{self, yaml};
use prometheus_source::settings::{Auth, ClientPair, Credentials, Password, Pem, Secret, Tls};

/// The settings of a kubeconfig's current context. Files that it names are read again when
/// they change. Relative paths start at the folder of the kubeconfig.
///
/// # Errors
/// When it cannot be read or has unsupported settings; the error has the remedy.
pub(crate) fn credentials(path: &Path) -> Result<Credentials, String> {
    let read = Place(path).credentials();
    read.map_err(|reason| format!("{}: {reason}", path.display()))
}

fn no_kubeconfig(reason: &str) -> String {
    format!("this is no kubeconfig: {reason}: write one as kubectl does")
}

/// Cluster and user of the current context.
fn current(file: Kubeconfig) -> Result<(Cluster, AuthInfo), String> {
    let name = file.current_context.unwrap_or_default();
    let mut contexts = file.contexts.into_iter();
    let context = contexts
        .find(|context| context.name == name)
        .and_then(|context| context.context)
        .ok_or_else(|| {
            format!("current-context {name:?} is not among contexts: name one of them")
        })?;
    let missing = |what: &str, name: &str| {
        format!("the current context names {what} {name:?}, which does not exist: add it")
    };
    let name = context.cluster;
    let mut clusters = file.clusters.into_iter();
    let cluster = match clusters.find(|cluster| cluster.name == name) {
        None if !name.is_empty() => return Err(missing("cluster", &name)),
        found => found.and_then(|found| found.cluster).unwrap_or_default(),
    };
    let name = context.user.unwrap_or_default();
    let mut users = file.auth_infos.into_iter();
    let user = match users.find(|user| user.name == name) {
        None if !name.is_empty() => return Err(missing("user", &name)),
        found => found.and_then(|found| found.auth_info).unwrap_or_default(),
    };
    Ok((cluster, user))
}

/// A value that is set. An empty value counts as unset, as in client-go.
fn set(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|value| !value.is_empty())
}

/// A secret that is set. An empty one counts as unset.
fn secret(value: &Option<SecretString>) -> Option<&str> {
    let value = value.as_ref().map(ExposeSecret::expose_secret);
    value.filter(|value| !value.is_empty())
}

/// The path of the kubeconfig.
struct Place<'p>(&'p Path);

impl Place<'_> {
    fn credentials(&self) -> Result<Credentials, String> {
        let unreadable = |why| format!("cannot be read: {why}: check the path");
        let bytes = file::read(self.0).map_err(unreadable)?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| unreadable("this is no text".to_owned()))?;
        let file = Kubeconfig::from_yaml(&text).map_err(|error| match &error {
            ReadError::Parse(error) => no_kubeconfig(&yaml::report(error)),
            error => no_kubeconfig(&error.to_string()),
        })?;
        let (cluster, user) = current(file)?;
        Ok(Credentials {
            tls: self.tls(&cluster, &user)?,
            auth: self.auth(&user)?,
        })
    }

    fn tls(&self, cluster: &Cluster, user: &AuthInfo) -> Result<Tls, String> {
        for (key, value) in [
            ("tls-server-name", &cluster.tls_server_name),
            ("proxy-url", &cluster.proxy_url),
        ] {
            if set(value).is_some() {
                return Err(format!(
                    "{key} is not supported: remove it, and use an address of Prometheus for which \
                     its certificate is valid"
                ));
            }
        }
        let unverified = cluster.insecure_skip_tls_verify.unwrap_or_default();
        let ca = self.pem(
            "certificate-authority",
            set(&cluster.certificate_authority),
            set(&cluster.certificate_authority_data),
        )?;
        if ca.is_some() && unverified {
            return Err(
                "has both an authority and insecure-skip-tls-verify: keep the authority".to_owned(),
            );
        }
        let cert = self.pem(
            "client-certificate",
            set(&user.client_certificate),
            set(&user.client_certificate_data),
        )?;
        let key = self.pem(
            "client-key",
            set(&user.client_key),
            secret(&user.client_key_data),
        )?;
        let client = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(ClientPair { cert, key }),
            _ => {
                return Err(
                    "has only one of client-certificate and client-key: set both".to_owned(),
                );
            }
        };
        Ok(Tls {
            ca,
            client,
            unverified,
        })
    }

    /// A token file takes precedence over a token, as in client-go.
    fn auth(&self, user: &AuthInfo) -> Result<Auth, String> {
        for (key, there) in [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("as", set(&user.impersonate).is_some()),
        ] {
            if there {
                return Err(format!(
                    "{key} is not supported: use tokenFile with a file whose token is renewed"
                ));
            }
        }
        let username = set(&user.username);
        let password = secret(&user.password);
        let basic = username.is_some() || password.is_some();
        Ok(match (secret(&user.token), set(&user.token_file)) {
            (None, None) if !basic => Auth::None,
            (None, None) => Auth::Basic {
                username: username.unwrap_or_default().to_owned(),
                password: Password::Inline(Secret(password.unwrap_or_default().to_owned())),
            },
            _ if basic => {
                return Err("has both a token and a username: keep one of them".to_owned());
            }
            (_, Some(file)) => Auth::BearerTokenFile(self.beside(file)),
            (Some(token), None) => {
                let token = token.trim().to_owned();
                if HeaderValue::try_from(&token).is_err() {
                    return Err(
                        "the token contains a control character: write it in one line".to_owned(),
                    );
                }
                Auth::BearerToken(Secret(token))
            }
        })
    }

    /// Inline data takes precedence over the file, as in client-go. `key` is the key of the file.
    fn pem(
        &self,
        key: &str,
        file: Option<&str>,
        data: Option<&str>,
    ) -> Result<Option<Pem>, String> {
        let Some(data) = data else {
            return Ok(file.map(|file| Pem::File(self.beside(file))));
        };
        // The decoder's error may contain bytes of a key, so it is not used.
        let ByteString(text) = serde_json::from_value(data.into())
            .map_err(|_| no_kubeconfig(&format!("{key}-data is not base64")))?;
        Ok(Some(Pem::Inline {
            text,
            from: self.0.to_owned(),
        }))
    }

    fn beside(&self, file: &str) -> PathBuf {
        let folder = self.0.parent().unwrap_or(Path::new(""));
        folder.join(file)
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
        let show = |pem: Option<Pem>| {
            pem.map(|pem| match pem {
                Pem::File(path) => Pem::File(path.strip_prefix(folder.path()).unwrap().into()),
                Pem::Inline { text, .. } => Pem::Inline {
                    text,
                    from: PathBuf::new(),
                },
            })
        };
        read.map(|mut read| {
            read.tls.ca = show(read.tls.ca);
            if let Auth::BearerTokenFile(path) = &mut read.auth {
                *path = path.strip_prefix(folder.path()).unwrap().into();
            }
            read
        })
    }

    #[test]
    fn the_current_context_gives_authority_certificate_and_identity() {
        let server = "{server: \"https://kube:6443\", certificate-authority: ca.pem}";
        let read = |user| read(server, user).unwrap();
        assert_eq!(read("{}").auth, Auth::None);
        assert_eq!(read("{}").tls.ca, Some(Pem::File("ca.pem".into())));
        assert_eq!(
            read("{token: abc}").auth,
            Auth::BearerToken(Secret("abc".to_owned()))
        );
        assert_eq!(
            read("{token: abc, tokenFile: run/token}").auth,
            Auth::BearerTokenFile("run/token".into())
        );
        let basic = Auth::Basic {
            username: "ali".to_owned(),
            password: Password::Inline(Secret("sesame".to_owned())),
        };
        assert_eq!(read("{username: ali, password: sesame}").auth, basic);
        let pair = "{client-certificate-data: YQ==, client-key-data: Yg==}";
        let client = read(pair).tls.client.unwrap();
        assert!(matches!(client.key, Pem::Inline { text, .. } if text == b"b"));
        assert!(matches!(client.cert, Pem::Inline { text, .. } if text == b"a"));
    }

    #[test]
    fn inline_data_takes_precedence_over_a_file_and_a_server_is_optional() {
        let both = "{certificate-authority: ca.pem, certificate-authority-data: YQ==}";
        let inline = Pem::Inline {
            text: b"a".to_vec(),
            from: PathBuf::new(),
        };
        assert_eq!(read(both, "{}").unwrap().tls.ca, Some(inline));
        let skips = read("{insecure-skip-tls-verify: true}", "{}").unwrap();
        assert!(skips.tls.unverified);
        let alone = "{current-context: a, contexts: [{name: a, context: {cluster: '', user: u}}], users: [{name: u, user: {token: t}}]}";
        assert!(of(alone).is_ok());
    }

    #[test]
    fn unsupported_settings_are_rejected_without_showing_a_secret() {
        for (cluster, user, words) in [
            (
                "{proxy-url: \"http://x\"}",
                "{}",
                "proxy-url is not supported",
            ),
            ("{tls-server-name: x}", "{}", "tls-server-name is not"),
            (
                "{insecure-skip-tls-verify: true, certificate-authority: a}",
                "{}",
                "keep the authority",
            ),
            ("{}", "{exec: {command: x}}", "exec is not supported"),
            ("{}", "{auth-provider: {name: x}}", "auth-provider is not"),
            ("{}", "{as: admin, token: hidden}", "as is not supported"),
            ("{}", "{token: hidden, username: u}", "keep one of them"),
            ("{}", "{token: \"hid\\nden\"}", "write it in one line"),
            ("{}", "{client-key: k}", "set both"),
            ("{}", "{token: [hidden]}", "no kubeconfig: "),
            ("{}", "{token: a, exec: hidden}", "no kubeconfig: "),
            ("{}", "{exec: {interactiveMode: hidden}}", "no kubeconfig: "),
            (
                "{}",
                "{client-certificate: a, client-key-data: \"!hidden\"}",
                "client-key-data is not base64",
            ),
            (
                "{certificate-authority-data: \"!hidden\"}",
                "{}",
                "no kubeconfig",
            ),
        ] {
            let error = read(cluster, user).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(error.contains("kubeconfig: "), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
        let error = of("{current-context: gone}").unwrap_err();
        assert!(error.contains("current-context \"gone\""), "{error}");
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
