//! Authorities of clients in files, and clients with certificates.

use super::*;

/// Authorities of clients and of front proxies, and a server that reads them from
/// files.
struct Clients {
    scene: Scene,
    users: CertificateAuthority,
    proxies: CertificateAuthority,
}

impl Clients {
    async fn new() -> Self {
        Self {
            scene: Scene::new().await,
            users: CertificateAuthority::new("users", validity()).unwrap(),
            proxies: CertificateAuthority::new("proxies", validity()).unwrap(),
        }
    }

    async fn serve(&self, flags: &[&str]) -> TestServer {
        let users = self.scene.write("users.pem", &self.users.certificate_pem());
        let proxies = self
            .scene
            .write("proxies.pem", &self.proxies.certificate_pem());
        let mut all = vec![
            format!("--client-ca-file={users}"),
            format!("--requestheader-client-ca-file={proxies}"),
        ];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let server = self.scene.serve(&all).await;
        let bob = self.user("bob");
        until("the authorities are read", async || {
            get(&server, Some(&bob), "/version", &[]).await.status == 200
        })
        .await;
        server
    }

    fn user(&self, name: &str) -> Issued {
        self.users.client(name, Some("staff"), validity()).unwrap()
    }

    fn proxy(&self, name: &str) -> Issued {
        self.proxies.client(name, None, validity()).unwrap()
    }

    /// The status of a request, and the user of the last review.
    async fn ask(
        &self,
        server: &TestServer,
        who: &Issued,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let answer = get(server, Some(who), "/apis", headers).await;
        (answer.status, self.scene.reviewed().unwrap())
    }
}

const AS_ALICE: [(&str, &str); 2] = [("X-Remote-User", "alice"), ("X-Remote-Group", "staff")];

#[tokio::test]
async fn a_certificate_of_the_named_authority_is_its_user_and_another_one_is_nobody() {
    let clients = Clients::new().await;
    let server = clients
        .serve(&["--requestheader-allowed-names=front-proxy-client"])
        .await;
    let (status, who) = clients.ask(&server, &clients.user("carol"), &[]).await;
    assert_eq!((status, who.as_str()), (200, "carol"));
    // A client cannot take another user's name by a header.
    let (status, who) = clients.ask(&server, &clients.user("dave"), &AS_ALICE).await;
    assert_eq!((status, who.as_str()), (200, "dave"));
    let strangers = CertificateAuthority::new("users", validity()).unwrap();
    let mallory = strangers.client("mallory", None, validity()).unwrap();
    let (status, who) = clients.ask(&server, &mallory, &[]).await;
    assert_eq!((status, who.as_str()), (401, "dave"), "nothing is reviewed");
    // A certificate of the front proxies' authority is no user's.
    let (status, _) = clients.ask(&server, &clients.proxy("erin"), &[]).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn allowed_names_narrow_who_may_speak_for_users() {
    let clients = Clients::new().await;
    let (named, other) = (clients.proxy("front-proxy-client"), clients.proxy("other"));
    let narrow = clients
        .serve(&["--requestheader-allowed-names=front-proxy-client,x"])
        .await;
    let (status, who) = clients.ask(&narrow, &named, &AS_ALICE).await;
    assert_eq!((status, who.as_str()), (200, "alice"));
    let (status, _) = clients.ask(&narrow, &other, &AS_ALICE).await;
    assert_eq!(status, 401);
    // Without names, any certificate of the authority is accepted, as in the
    // reference.
    let wide = clients.serve(&[]).await;
    let (status, who) = clients
        .ask(&wide, &other, &[("X-Remote-User", "frank")])
        .await;
    assert_eq!((status, who.as_str()), (200, "frank"));
}

#[tokio::test]
async fn headers_that_are_named_take_the_place_of_the_usual_ones() {
    let clients = Clients::new().await;
    let server = clients
        .serve(&["--requestheader-username-headers=X-Who"])
        .await;
    let proxy = clients.proxy("p");
    let (status, _) = clients.ask(&server, &proxy, &AS_ALICE).await;
    assert_eq!(status, 401, "no user is named");
    let (status, who) = clients.ask(&server, &proxy, &[("X-Who", "grace")]).await;
    assert_eq!((status, who.as_str()), (200, "grace"));
}

/// The cluster's ConfigMap differs; the flags count.
#[tokio::test]
async fn the_authority_in_a_file_takes_the_place_of_the_clusters() {
    let clients = Clients::new().await;
    let cluster = CertificateAuthority::new("cluster", validity()).unwrap();
    let data = json!({
        "client-ca-file": cluster.certificate_pem(),
        "requestheader-client-ca-file": cluster.certificate_pem(),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
    });
    let path = "/api/v1/namespaces/kube-system/configmaps";
    clients.scene.kube.put(
        path,
        json!({"metadata": {"namespace": "kube-system", "name": "extension-apiserver-authentication"},
               "data": data}),
    );
    let users = clients
        .scene
        .write("only.pem", &clients.users.certificate_pem());
    let server = clients
        .scene
        .serve(&[format!("--client-ca-file={users}")])
        .await;
    let proxy = cluster
        .client("front-proxy-client", None, validity())
        .unwrap();
    until("the ConfigMap is read", async || {
        get(&server, Some(&proxy), "/apis", &AS_ALICE).await.status == 200
    })
    .await;
    let (status, who) = clients.ask(&server, &clients.user("heidi"), &[]).await;
    assert_eq!((status, who.as_str()), (200, "heidi"));
    let of_cluster = cluster.client("ivan", None, validity()).unwrap();
    assert_eq!(clients.ask(&server, &of_cluster, &[]).await.0, 401);
}
