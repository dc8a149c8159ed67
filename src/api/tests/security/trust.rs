use http::StatusCode;

use super::*;
use aggregated_apiserver::security::trust::TrustError;

#[tokio::test]
async fn s073_changed_authorities_apply_to_open_connections() {
    let scene = Scene::new().await;
    let next = authority("next");
    let old = scene.server.http2_as(Some(&scene.proxy()));
    let new = scene.server.http2_as(Some(&proxy_of(&next)));
    let bob = [("X-Remote-User", "bob")];
    let ask = async |client: &reqwest::Client| scene.over(client, VALUES, &bob).await.status();
    let key = "requestheader-client-ca-file";
    let (first, second) = (scene.proxies.certificate_pem(), next.certificate_pem());
    assert_eq!(ask(&old).await, StatusCode::OK);
    let address = scene.served().address;
    assert_eq!(ask(&new).await, StatusCode::UNAUTHORIZED);
    scene.set(key, &format!("{first}{second}"));
    assert_eq!(ask(&new).await, StatusCode::OK);
    assert_eq!(ask(&old).await, StatusCode::OK);
    assert_eq!(scene.served().address, address);
    scene.set(key, &second);
    assert_eq!(ask(&old).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&new).await, StatusCode::OK);
    refused(&scene.by_user("bob", VALUES).await, 401);
    scene.set(key, &first);
    assert_eq!(ask(&old).await, StatusCode::OK);
}

#[tokio::test]
async fn s074_an_invalid_key_delays_its_own_part_only() {
    let scene = Scene::new().await;
    let next = authority("next");
    let mut data = config_map("nonsense", &next.certificate_pem());
    data.insert("requestheader-group-headers".to_owned(), "[".to_owned());
    assert_eq!(scene.trust.load(&data).len(), 2);
    refused(
        &scene.ask(Some(&proxy_of(&next)), VALUES, &MASTER).await,
        401,
    );
    assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
    data = config_map("nonsense", &next.certificate_pem());
    assert_eq!(scene.trust.load(&data).len(), 1);
    let bob = [("X-Remote-User", "bob"), ("X-Remote-Group", "g")];
    let answer = scene.ask(Some(&proxy_of(&next)), VALUES, &bob).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        scene.served().identity.groups,
        ["g", "system:authenticated"]
    );
    refused(&scene.proxied(VALUES, &bob).await, 401);
    let problems = scene.trust.load(&BTreeMap::new());
    assert_eq!(problems.len(), 2);
    let is_missing = |it: &TrustError| matches!(it, TrustError::Missing(_));
    assert!(problems.iter().all(is_missing), "{problems:?}");
    let answer = scene.ask(Some(&proxy_of(&next)), VALUES, &bob).await;
    assert_eq!(answer.status, 200);
    let client = scene.client("bob");
    assert_eq!(scene.ask(Some(&client), VALUES, &[]).await.status, 200);
}

#[tokio::test]
async fn s074_before_the_first_load_no_certificate_counts() {
    let scene = Scene::unloaded(SecuritySettings::default()).await;
    assert!(scene.trust.current().is_none());
    refused(&scene.proxied(VALUES, &MASTER).await, 401);
    let bob = scene.client("bob");
    refused(&scene.ask(Some(&bob), VALUES, &[]).await, 401);
    assert_eq!(scene.direct("/livez", &[]).await.status, 200);
    refused(&scene.direct(VALUES, &MASTER).await, 403);
    // Invalid data establishes no trust.
    assert!(!scene.trust.load(&BTreeMap::new()).is_empty());
    assert!(scene.trust.load(&config_map("x", "y")).len() == 2);
    assert!(scene.trust.current().is_none());
    // A valid authority of client certificates counts without the front proxy's keys.
    let mut data = scene.data();
    data.insert("requestheader-allowed-names".to_owned(), "{".to_owned());
    assert_eq!(scene.trust.load(&data).len(), 1);
    refused(&scene.proxied(VALUES, &MASTER).await, 401);
    assert_eq!(scene.ask(Some(&bob), VALUES, &[]).await.status, 200);
    assert!(scene.trust.load(&scene.data()).is_empty());
    assert_eq!(scene.proxied(VALUES, &MASTER).await.status, 200);
}
