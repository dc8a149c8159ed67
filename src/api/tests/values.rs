use super::*;

async fn items(server: &TestServer, target: &str) -> Vec<Json> {
    let answer = server.get(target).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn s035_s036_served_quantities_read_back_as_the_value() {
    let (server, _) = server().await;
    let items = items(&server, &format!("{V2}/namespaces/large/pods/*/m")).await;
    assert_eq!(items.len(), 1000);
    for (index, item) in items.iter().enumerate() {
        let milli = apimachinery::quantity::parse_milli(item["value"].as_str().unwrap());
        let wanted = apimachinery::quantity::milli_from_f64(index as f64 / 7.0);
        assert_eq!(milli, wanted, "{item}");
    }
}

#[tokio::test]
async fn s037_s039_stale_values_and_values_that_are_no_numbers_are_absent_and_never_zero() {
    let (server, _) = server().await;
    let list = get(&server, "namespaces/broken/pods/*/m").await;
    assert_eq!(names(&list), ["good", "unset"]);
    assert!(!list.text().contains("\"0\""));
    for name in ["nan", "inf", "ninf", "huge", "stale"] {
        let answer = get(&server, &format!("namespaces/broken/pods/{name}/m")).await;
        assert_eq!(status(&answer)["code"], 404, "{name}");
    }
}

#[tokio::test]
async fn s040_the_window_is_present_when_there_is_one() {
    let (server, _) = server().await;
    for (version, key) in [(V1, "window"), (V2, "windowSeconds")] {
        let with = items(&server, &format!("{version}/namespaces/ns/pods/a/m")).await;
        assert_eq!(with[0][key], 60);
        let unset = format!("{version}/namespaces/broken/pods/unset/m");
        let without = items(&server, &unset).await;
        assert_eq!(without[0].get("window"), None);
        assert_eq!(without[0].get("windowSeconds"), None);
        let both = items(&server, &format!("{version}/namespaces/broken/pods/*/m")).await;
        assert_eq!((&both[0][key], both[1].get(key)), (&60.into(), None));
    }
}

#[tokio::test]
async fn s038_s041_s042_the_document_is_exactly_this() {
    let (server, _) = server().await;
    let new = server.get(&format!("{V2}/namespaces/ns/pods/a/m")).await;
    assert_eq!(
        new.text(),
        concat!(
            r#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","#,
            r#""metadata":{},"items":[{"describedObject":{"kind":"Pod","namespace":"ns","#,
            r#""name":"a","apiVersion":"v1"},"metric":{"name":"m","selector":null},"#,
            r#""timestamp":"2026-01-02T03:04:05Z","windowSeconds":60,"value":"37500m"}]}"#,
            "\n"
        )
    );
    let old = server.get(&format!("{V1}/namespaces/ns/pods/a/m")).await;
    assert_eq!(
        old.text(),
        concat!(
            r#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta1","#,
            r#""metadata":{},"items":[{"describedObject":{"kind":"Pod","namespace":"ns","#,
            r#""name":"a","apiVersion":"v1"},"metricName":"m","#,
            r#""timestamp":"2026-01-02T03:04:05Z","window":60,"value":"37500m","selector":null}]}"#,
            "\n"
        )
    );
}

/// An empty list would be a success without a value, so no list is ever empty.
#[tokio::test]
async fn s041_nothing_to_list_is_not_found_and_never_null() {
    let (server, _) = server().await;
    let answer = get(&server, "namespaces/empty/pods/*/m").await;
    assert_eq!(status(&answer)["code"], 404);
}

#[tokio::test]
async fn s043_pods_of_other_namespaces_never_appear() {
    let (server, _) = server().await;
    let list = pods(&server, "*/m?labelSelector=app%3Dx").await;
    assert_eq!(names(&list), ["a", "b"]);
    assert_eq!(status(&pods(&server, "d/m").await)["code"], 404);
}

#[tokio::test]
async fn s122_findings_are_listed_with_skipped_checks_and_cannot_be_watched() {
    let (server, _) = server().await;
    for version in [V1, V2] {
        let list = server.get(&format!("{version}/findings")).await.json();
        assert_eq!(list["kind"], "FindingList");
        assert_eq!(list["apiVersion"], version["/apis/".len()..]);
        let finding = &list["items"][0];
        assert_eq!(finding["code"], "GM408");
        assert_eq!(finding["severity"], "error");
        assert_eq!(finding["message"], "\"silent\"");
        assert_eq!(list["skipped"][0]["reason"], "so it is");
        let watched = server.get(&format!("{version}/findings?watch=1")).await;
        assert_eq!(status(&watched)["code"], 405);
        let below = server.get(&format!("{version}/findings/GM408")).await;
        assert_eq!(status(&below)["code"], 404);
    }
}

/// A field of a protobuf message: a string or a message of at most 127 bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

#[tokio::test]
async fn the_protobuf_document_has_the_field_numbers_of_upstream() {
    let (server, _) = server().await;
    let target = format!("{V2}/namespaces/ns/pods/a/m");
    let answer = server.send("GET", &target, &[("Accept", PROTOBUF)]).await;
    let object = [
        field(1, b"Pod"),
        field(2, b"ns"),
        field(3, b"a"),
        field(5, b"v1"),
    ];
    // 1767323045 seconds as a varint, and 0 nanoseconds.
    let timestamp = [0x08, 0xa5, 0xeb, 0xdc, 0xca, 0x06, 0x10, 0x00];
    let item = [
        field(1, &object.concat()),
        field(2, &field(1, b"m")),
        field(3, &timestamp),
        vec![4 << 3, 60],
        field(5, &field(1, b"37500m")),
    ];
    let list = [field(1, b""), field(2, &item.concat())];
    let type_meta = [
        field(1, b"custom.metrics.k8s.io/v1beta2"),
        field(2, b"MetricValueList"),
    ];
    let envelope = [
        b"k8s\0".to_vec(),
        field(1, &type_meta.concat()),
        field(2, &list.concat()),
        field(3, b""),
        field(4, b""),
    ];
    assert_eq!(answer.body, envelope.concat());
}
