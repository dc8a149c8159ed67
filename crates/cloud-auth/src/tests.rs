//! Tests with issuers on loopback that record their requests.

mod amazon;
mod azure;
mod google;
mod issuer;
mod oauth2;
mod renewal;
mod signatures;

use reqwest::Request;

use super::*;
use issuer::{Asked, FakeIssuer};

/// A request to a store, without credentials.
fn request() -> Request {
    let url = "http://store.example/api/v1/query?query=up+1";
    Request::new(http::Method::GET, url.parse().unwrap())
}

/// The value of `Authorization` that a method adds.
async fn authorization(authenticator: &Authenticator) -> Result<String, String> {
    let mut request = request();
    let authorized = authenticator.authorize(&mut request).await;
    authorized.map_err(|error| error.to_string())?;
    let value = request.headers().get("authorization").unwrap();
    assert!(value.is_sensitive(), "a secret that logs may show");
    Ok(value.to_str().unwrap().to_owned())
}

/// Exactly these environment variables.
fn environment<const N: usize>(variables: [(&'static str, String); N]) -> Variables {
    let variables = std::collections::HashMap::from(variables);
    Box::new(move |name| variables.get(name).cloned())
}

fn authenticator<const N: usize>(
    method: AuthMethod,
    variables: [(&'static str, String); N],
) -> Authenticator {
    let store = "http://store.example".parse().unwrap();
    Authenticator::new(method, &store, environment(variables)).unwrap()
}

fn file(content: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> String {
    file.path().to_str().unwrap().to_owned()
}
