//! Connection settings for Prometheus from a kubeconfig (`--prometheus-auth-config`).
//!
//! The current context's authority, client certificate, token and basic
//! authentication, as client-go reads them (`tools/clientcmd`, `transport`). Its
//! `server` is not Prometheus and is ignored, as in prometheus-adapter. Unsupported
//! settings are refused, because without them queries would have another identity.

use std::path::{Path, PathBuf};

use http::HeaderValue;
use k8s_openapi::ByteString;
use serde::Deserialize;

use super::credentials::{Auth, ClientPair, Credentials, Password, Pem, Secret, Tls};
use limits::file::yaml;

/// Why a kubeconfig cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct KubeconfigError {
    path: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    current_context: String,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    #[serde(default)]
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    certificate_authority: String,
    certificate_authority_data: ByteString,
    insecure_skip_tls_verify: bool,
    tls_server_name: String,
    proxy_url: String,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate: String,
    client_certificate_data: ByteString,
    client_key: String,
    client_key_data: ByteString,
    token: String,
    #[serde(rename = "tokenFile")]
    token_file: String,
    username: String,
    password: String,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
    #[serde(rename = "as")]
    impersonate: String,
}

impl Credentials {
    /// The settings of a kubeconfig's current context. Files that it names are read
    /// again as they change; relative paths begin at its own folder.
    ///
    /// # Errors
    /// When it cannot be read or has unsupported settings; the error has the remedy.
    pub fn of_kubeconfig(path: &Path) -> Result<Self, KubeconfigError> {
        let wrong = |reason: String| KubeconfigError {
            path: path.display().to_string(),
            reason,
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot be read: {error}: check the path")))?;
        let file: File = serde_saphyr::from_str(&text).map_err(|error| {
            let report = yaml::report(&error);
            wrong(format!(
                "this is no kubeconfig: {report}: write one as kubectl does"
            ))
        })?;
        let (cluster, user) = current(file).map_err(wrong)?;
        let place = Place(path);
        Ok(Self {
            tls: place.tls(&cluster, &user).map_err(wrong)?,
            auth: place.auth(user).map_err(wrong)?,
        })
    }
}

/// Cluster and user of the current context.
fn current(file: File) -> Result<(Cluster, User), String> {
    let name = file.current_context;
    let mut contexts = file.contexts.unwrap_or_default().into_iter();
    let context = contexts
        .find(|context| context.name == name)
        .map(|context| context.context)
        .ok_or_else(|| {
            format!("current-context {name:?} is not among contexts: name one of them")
        })?;
    let missing = |what: &str, name: &str| {
        format!("the current context names {what} {name:?}, which is not there: add it")
    };
    let mut clusters = file.clusters.unwrap_or_default().into_iter();
    let cluster = clusters.find(|cluster| cluster.name == context.cluster);
    let cluster = match (cluster, context.cluster.is_empty()) {
        (Some(cluster), _) => cluster.cluster,
        (None, true) => Cluster::default(),
        (None, false) => return Err(missing("cluster", &context.cluster)),
    };
    let mut users = file.users.unwrap_or_default().into_iter();
    let user = users.find(|user| user.name == context.user);
    let user = match (user, context.user.is_empty()) {
        (Some(user), _) => user.user,
        (None, true) => User::default(),
        (None, false) => return Err(missing("user", &context.user)),
    };
    Ok((cluster, user))
}

/// The path of the kubeconfig.
struct Place<'p>(&'p Path);

impl Place<'_> {
    fn tls(&self, cluster: &Cluster, user: &User) -> Result<Tls, String> {
        for (key, value) in [
            ("tls-server-name", &cluster.tls_server_name),
            ("proxy-url", &cluster.proxy_url),
        ] {
            if !value.is_empty() {
                return Err(format!(
                    "{key} is not supported: take it out, and ask Prometheus by an address that \
                     its certificate is for"
                ));
            }
        }
        let ca = self.pem(
            &cluster.certificate_authority,
            &cluster.certificate_authority_data,
        );
        if ca.is_some() && cluster.insecure_skip_tls_verify {
            return Err(
                "has both an authority and insecure-skip-tls-verify: keep the authority".to_owned(),
            );
        }
        let cert = self.pem(&user.client_certificate, &user.client_certificate_data);
        let key = self.pem(&user.client_key, &user.client_key_data);
        let client = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(ClientPair { cert, key }),
            _ => {
                return Err("has one of client-certificate and client-key: give both".to_owned());
            }
        };
        Ok(Tls {
            ca,
            client,
            unverified: cluster.insecure_skip_tls_verify,
        })
    }

    /// A token file wins over a token, as in client-go, which starts with the token
    /// and then reads the file.
    fn auth(&self, user: User) -> Result<Auth, String> {
        for (key, there) in [
            ("exec", user.exec.is_some()),
            ("auth-provider", user.auth_provider.is_some()),
            ("as", !user.impersonate.is_empty()),
        ] {
            if there {
                return Err(format!(
                    "{key} is not supported: give a token by tokenFile, which something renews"
                ));
            }
        }
        let token = !user.token.is_empty() || !user.token_file.is_empty();
        let basic = !user.username.is_empty() || !user.password.is_empty();
        Ok(match (token, basic) {
            (false, false) => Auth::None,
            (true, true) => {
                return Err("has both a token and a username: keep one of them".to_owned());
            }
            (true, false) if user.token_file.is_empty() => {
                let token = user.token.trim().to_owned();
                if HeaderValue::try_from(&token).is_err() {
                    return Err(
                        "the token holds a control character: write it in one line".to_owned()
                    );
                }
                Auth::BearerToken(Secret(token))
            }
            (true, false) => Auth::BearerTokenFile(self.beside(&user.token_file)),
            (false, true) => Auth::Basic {
                username: user.username,
                password: Password::Inline(Secret(user.password)),
            },
        })
    }

    /// The data wins over the file, as in client-go.
    fn pem(&self, file: &str, ByteString(text): &ByteString) -> Option<Pem> {
        if !text.is_empty() {
            return Some(Pem::Inline {
                text: text.clone(),
                from: self.0.to_owned(),
            });
        }
        (!file.is_empty()).then(|| Pem::File(self.beside(file)))
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
        let read = Credentials::of_kubeconfig(&path).map_err(|error| error.to_string());
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
    fn authority_certificate_and_identity_of_the_current_context_are_taken() {
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
    fn data_wins_over_a_file_and_a_server_is_not_needed() {
        let both = "{certificate-authority: ca.pem, certificate-authority-data: YQ==}";
        let inline = Pem::Inline {
            text: b"a".to_vec(),
            from: PathBuf::new(),
        };
        assert_eq!(read(both, "{}").unwrap().tls.ca, Some(inline));
        let skips = read("{insecure-skip-tls-verify: true}", "{}").unwrap();
        assert!(skips.tls.unverified);
        let alone = "{current-context: a, contexts: [{name: a, context: {user: u}}], users: [{name: u, user: {token: t}}]}";
        assert!(of(alone).is_ok());
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_no_secret_is_told() {
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
            ("{}", "{client-key: k}", "give both"),
            ("{}", "{token: [hidden]}", "no kubeconfig: "),
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
        let gone = Credentials::of_kubeconfig(Path::new("/no/such/file")).unwrap_err();
        assert!(
            gone.to_string()
                .starts_with("/no/such/file: cannot be read")
        );
    }

    #[test]
    fn nothing_secret_shows_in_debug_output() {
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
