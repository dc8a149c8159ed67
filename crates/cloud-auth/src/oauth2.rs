//! Access tokens by the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4), as
//! `oauth2` in Prometheus' `http_config`.

use std::path::PathBuf;
use std::time::SystemTime;

use url::Url;

use crate::error::{CloudAuthError, Issuer};
use crate::issuer::{Http, Secret, access_token, form, read};
use crate::renewal::Issued;

/// How tokens are requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth2Settings {
    pub client_id: String,
    /// The file of the client secret, read for each token.
    pub client_secret_file: PathBuf,
    /// The token endpoint.
    pub token_url: Url,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// Further parameters of the request.
    pub endpoint_params: Vec<(String, String)>,
}

/// Requests an access token. The client authenticates by HTTP basic authentication. If the
/// server refuses that, it authenticates by parameters, as in Go's `oauth2`.
pub(crate) async fn token(
    settings: &OAuth2Settings,
    http: &Http,
    now: SystemTime,
) -> Result<Issued<Secret>, CloudAuthError> {
    let secret = read(&settings.client_secret_file).await?;
    let encoded =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let (id, password) = (encoded(&settings.client_id), encoded(&secret));
    let scopes = settings.scopes.join(" ");
    let request = |with_client: bool| {
        let scopes = Some(("scope", &*scopes)).filter(|(_, scopes)| !scopes.is_empty());
        let further = settings.endpoint_params.iter();
        let client = [
            ("client_id", &*settings.client_id),
            ("client_secret", &*secret),
        ];
        let client = with_client.then_some(client).into_iter().flatten();
        let pairs = std::iter::once(("grant_type", "client_credentials"))
            .chain(scopes)
            .chain(further.map(|(name, value)| (&**name, &**value)))
            .chain(client);
        let request = form(&http.internet, settings.token_url.clone(), pairs);
        match with_client {
            true => request,
            false => request.basic_auth(&id, Some(&password)),
        }
    };
    let secrets = [&*secret, &*password];
    let answer = access_token(Issuer::OAuth2, request(false), (&secrets, now)).await;
    match answer {
        Err(CloudAuthError::Refused {
            status: 400 | 401, ..
        }) => access_token(Issuer::OAuth2, request(true), (&secrets, now)).await,
        answer => answer,
    }
}
