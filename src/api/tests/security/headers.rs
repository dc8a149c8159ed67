use http::HeaderName;

use super::*;

#[tokio::test]
async fn s063_header_names_ignore_case_and_the_first_line_counts() {
    let scene = Scene::new().await;
    for headers in [
        &[("x-REMOTE-user", "bob")][..],
        &[("X-Remote-User", "bob"), ("X_Remote_User", "mallory")],
        &[("X-Remote-User", "bob"), ("x-remote-user", "mallory")],
    ] {
        assert_eq!(scene.proxied(VALUES, headers).await.status, 200);
        assert_eq!(scene.served().who.user, "bob", "{headers:?}");
    }
    for headers in [
        &[("X_Remote_User", "bob")][..],
        &[("X-Remote-User", ""), ("X-Remote-User", "bob")],
        &[("X-Remote-Users", "bob")],
    ] {
        refused(&scene.proxied(VALUES, headers).await, 401);
    }
}

#[tokio::test]
async fn s064_a_user_may_have_500_groups() {
    let scene = Scene::new().await;
    let groups: Vec<String> = (0..500).map(|it| format!("oidc:group-{it}")).collect();
    let mut headers = vec![("X-Remote-User", "bob"), ("X-Remote-Group", "")];
    headers.extend(groups.iter().map(|it| ("X-Remote-Group", it.as_str())));
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 200);
    let mut wanted = groups.clone();
    wanted.push("system:authenticated".to_owned());
    assert_eq!(scene.reviewed().groups, wanted);
    let client = scene.server.http2_as(Some(&scene.proxy()));
    headers[0].1 = "eve";
    assert_eq!(scene.over(&client, VALUES, &headers).await.status(), 200);
    let who = scene.reviewed();
    assert_eq!((who.user.as_str(), who.groups), ("eve", wanted));
}

#[tokio::test]
async fn s065_extra_keys_are_decoded_once_and_invalid_ones_kept_raw() {
    let scene = Scene::new().await;
    let id = "X-Remote-Extra-authentication.kubernetes.io%2Fcredential-id";
    let headers = [
        ("X-Remote-User", "bob"),
        (id, "JTI=1"),
        ("X-Remote-Extra-Scopes", "a"),
        ("x-remote-extra-scopes", "b"),
        ("X-Remote-Extra-%zz", "raw"),
    ];
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 200);
    let extra: BTreeMap<String, Vec<String>> = [
        ("authentication.kubernetes.io/credential-id", &["JTI=1"][..]),
        ("scopes", &["a", "b"]),
        ("%zz", &["raw"]),
    ]
    .map(|(key, values)| (key.to_owned(), strings(values)))
    .into();
    assert_eq!(scene.reviewed().extra, extra);
}

#[tokio::test]
async fn s066_a_user_may_be_written_in_any_script_but_must_be_text() {
    let scene = Scene::new().await;
    assert_eq!(scene.by_user("Ḃøb 老師", VALUES).await.status, 200);
    assert_eq!(scene.reviewed().user, "Ḃøb 老師");
    for broken in [
        &b"X-Remote-User: bob\xff"[..],
        b"X-Remote-User: bob\r\nX-Remote-Group: \xff",
        b"X-Remote-User: bob\r\nX-Remote-Extra-a: \xc3\x28",
    ] {
        let head = format!("GET {VALUES} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        let request = [head.as_bytes(), broken, b"\r\n\r\n"].concat();
        let config = scene.config(Some(&scene.proxy()));
        refused(&scene.raw(config, &request).await, 401);
    }
    assert_eq!(scene.times_served(), 1);
}

#[tokio::test]
async fn s067_a_uid_counts_only_if_its_header_is_listed() {
    let scene = Scene::new().await;
    let headers = [("X-Remote-User", "bob"), ("X-Remote-Uid", "1000")];
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 200);
    assert_eq!(scene.reviewed().uid, None);
    assert!(!scene.served().headers.contains_key("x-remote-uid"));
    scene.set("requestheader-uid-headers", r#"["X-Remote-Uid"]"#);
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 200);
    assert_eq!(scene.reviewed().uid.as_deref(), Some("1000"));
}

#[tokio::test]
async fn s068_header_names_are_those_of_the_config_map() {
    let scene = Scene::new().await;
    let mut data = scene.data();
    for (key, value) in [
        ("requestheader-username-headers", r#"["X-First", "X-User"]"#),
        ("requestheader-group-headers", r#"["X-Group", "X-Team"]"#),
        ("requestheader-extra-headers-prefix", r#"["X-More-"]"#),
    ] {
        data.insert(key.to_owned(), value.to_owned());
    }
    assert!(scene.trust.load(&data).is_empty());
    refused(&scene.by_user("bob", VALUES).await, 401);
    let headers = [
        ("X-User", "eve"),
        ("X-Team", "t"),
        ("X-Group", "g"),
        ("X-More-Colour", "red"),
        ("X-Remote-User", "mallory"),
        ("X-Remote-Group", "system:masters"),
        ("X-Remote-Extra-Colour", "blue"),
        ("Authorization", "Bearer secret"),
        ("X-Kept", "1"),
    ];
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 200);
    let who = scene.reviewed();
    assert_eq!(who.user, "eve");
    assert_eq!(who.groups, ["g", "t", "system:authenticated"]);
    let red = ("colour".to_owned(), strings(&["red"]));
    assert_eq!(who.extra, BTreeMap::from([red]));
    let served = scene.served();
    let left: Vec<&str> = served.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(left, ["host", "connection", "x-kept"]);
}

#[tokio::test]
async fn s075_impersonation_is_refused() {
    let scene = Scene::new().await;
    let bob = scene.client("bob");
    for name in [
        "Impersonate-User",
        "Impersonate-Group",
        "impersonate-extra-a",
    ] {
        let answer = scene.ask(Some(&bob), VALUES, &[(name, "eve")]).await;
        let message = refused(&answer, 403);
        assert!(message.contains("impersonation"), "{message}");
    }
    assert_eq!(scene.times_served(), 0);
}

#[tokio::test]
async fn s076_each_request_of_a_connection_has_its_own_user() {
    let scene = Scene::new().await;
    scene.reviewer.rule(|identity, _| match &*identity.user {
        "bob" => AccessVerdict::Allowed(()),
        _ => AccessVerdict::Refused(String::new()),
    });
    let client = scene.server.http2_as(Some(&scene.proxy()));
    let ask = async |user: &'static str| {
        let headers = [("X-Remote-User", user)];
        let answer = scene.over(&client, VALUES, &headers).await;
        answer.status().as_u16()
    };
    assert_eq!(ask("bob").await, 200);
    let (first, second) = tokio::join!(ask("eve"), ask("bob"));
    assert_eq!((first, second), (403, 200));
    assert_eq!(ask("bob").await, 200);
    let served = scene.served.lock().unwrap().clone();
    assert!(served.iter().all(|one| one.address == served[0].address));
    let asked = scene.reviewer.asked().into_iter();
    let users: Vec<String> = asked.map(|(who, _)| who.user).collect();
    assert_eq!(users, ["bob", "eve"]);
}

#[tokio::test]
async fn s077_an_anonymous_request_closes_a_direct_connection_and_not_the_proxys() {
    let scene = Scene::new().await;
    scene.reviewer.rule(|_, _| AccessVerdict::Allowed(()));
    let anonymous = [
        ("X-Remote-User", "system:anonymous"),
        ("X-Remote-Group", "system:unauthenticated"),
    ];
    let proxy = scene.proxy();
    for (client, stays) in [
        (scene.server.http2_as(Some(&proxy)), true),
        (scene.server.http2(), false),
    ] {
        let mut addresses = Vec::new();
        for _ in 0..5 {
            let mut request = client.get(scene.server.url("/apis"));
            for (name, value) in anonymous {
                request = request.header(name, value);
            }
            // The connection may close during a request, which is then not served.
            let answer = request.send().await;
            let served = scene.served();
            assert_eq!(*served.who, Identity::anonymous());
            if answer.is_ok_and(|answer| answer.status() == 200) {
                addresses.push(served.address);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let same = addresses.iter().all(|address| *address == addresses[0]);
        assert_eq!(same, stays, "{addresses:?}");
    }
}
