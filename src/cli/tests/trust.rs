//! Authorities of clients in files, and clients with certificates.

use super::*;
use aggregated_apiserver::testing::authority::ClientCertificates as _;

const AS_ALICE: [(&str, &str); 2] = [("X-Remote-User", "alice"), ("X-Remote-Group", "staff")];

/// The cluster's ConfigMap differs; the flag takes precedence.
#[tokio::test]
async fn the_authority_in_a_file_replaces_the_clusters() {
    let scene = Scene::new().await;
    let [cluster, users] = ["cluster", "users"].map(|it| CertificateAuthority::new(it, validity()));
    let (cluster, users) = (cluster.unwrap(), users.unwrap());
    let data = json!({
        "client-ca-file": cluster.certificate_pem(),
        "requestheader-client-ca-file": cluster.certificate_pem(),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
    });
    let (namespace, name) = ("kube-system", "extension-apiserver-authentication");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let metadata = json!({"namespace": namespace, "name": name});
    scene
        .kube
        .document(&path, json!({"metadata": metadata, "data": data}));
    let file = scene.write("only.pem", &users.certificate_pem());
    let server = scene.serve(&[format!("--client-ca-file={file}")]).await;
    let proxy = cluster.client("front-proxy-client", None, validity());
    let proxy = proxy.unwrap();
    until("the ConfigMap is read", async || {
        get(&server, Some(&proxy), "/apis", &AS_ALICE).await.status == 200
    })
    .await;
    let heidi = users.client("heidi", None, validity()).unwrap();
    let answer = get(&server, Some(&heidi), "/apis", &[]).await;
    let reviewed = scene.reviewed();
    assert_eq!((answer.status, reviewed.as_deref()), (200, Some("heidi")));
    let ivan = cluster.client("ivan", None, validity()).unwrap();
    assert_eq!(get(&server, Some(&ivan), "/apis", &[]).await.status, 401);
}
