use super::*;

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
    let sender = scene.reviewed();
    assert_eq!((sender.user.as_str(), sender.groups), ("eve", wanted));
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
    let users: Vec<String> = asked.map(|(sender, _)| sender.user).collect();
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
            assert_eq!(*served.identity, Identity::anonymous());
            if answer.is_ok_and(|answer| answer.status() == 200) {
                addresses.push(served.address);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let same = addresses.iter().all(|address| *address == addresses[0]);
        assert_eq!(same, stays, "{addresses:?}");
    }
}
