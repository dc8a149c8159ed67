use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::objects::{KeptObject, Object, WatchSettings, decode};
use super::super::pods::KeptPod;
use super::super::pool::Pool;
use super::fixture::raw;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Pod, PodPhase, Startup};

/// The kept fields of an object.
fn keep(object: &RawValue, settings: &WatchSettings) -> Result<KeptObject, String> {
    let object: Object = decode(object)?;
    let key = ("ml".into(), object.metadata.name.as_str().into());
    let mut pool = Pool::default();
    Ok(KeptObject::new(&key, object, &mut pool, settings))
}

fn kept_pod(value: &Value) -> KeptPod {
    let mut value = value.clone();
    if value["spec"].is_null() {
        value["spec"] = json!({});
    }
    let kept = keep(&raw(&value), &WatchSettings::default());
    *kept.unwrap().pod.unwrap()
}

fn pod(value: &Value) -> Pod {
    kept_pod(value).pod
}

fn gpus(spec: &Value) -> u32 {
    pod(&json!({"metadata": {"name": "p"}, "spec": spec})).gpus
}

/// A container that requests a number of devices.
fn with(devices: u32) -> Value {
    json!({"resources": {"limits": {"nvidia.com/gpu": devices.to_string()}}})
}

#[test]
fn devices_are_counted_and_shares_are_not() {
    let of = |limits: Value| gpus(&json!({"containers": [{"resources": {"limits": limits}}]}));
    for name in ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"] {
        assert_eq!(of(json!({name: "2"})), 2, "{name}");
        assert_eq!(of(json!({name: "0"})), 0, "{name}");
        assert_eq!(of(json!({name: "0Gi"})), 0, "{name}");
    }
    assert_eq!(of(json!({"nvidia.com/gpu": "4000000000"})), 4096);
    assert_eq!(of(json!({"cpu": "8", "amd.com/gpu": "1"})), 0);
    let limits = json!({"aliyun.com/gpu-mem": "8", "nvidia.com/gpu.shared": "2"});
    let spec = json!({"containers": [{"resources": {"limits": limits}}]});
    let sharing = pod(&json!({"metadata": {"name": "p"}, "spec": spec}));
    assert_eq!((sharing.gpus, sharing.uncounted), (0, true));
    assert_eq!(gpus(&json!({"containers": [{}, with(1), with(2)]})), 3);
}

#[test]
fn init_containers_count_as_the_scheduler_counts_them() {
    let of = |init: Value, apps: Value| gpus(&json!({"initContainers": init, "containers": apps}));
    let mut sidecar = with(1);
    sidecar["restartPolicy"] = "Always".into();
    assert_eq!(of(json!([with(1)]), json!([{}])), 1);
    assert_eq!(of(json!([with(4), with(1)]), json!([with(2)])), 4);
    assert_eq!(of(json!([with(1)]), json!([with(2), with(1)])), 3);
    assert_eq!(of(json!([sidecar]), json!([with(2)])), 3);
    assert_eq!(of(json!([sidecar, with(4)]), json!([with(2)])), 5);
    assert_eq!(of(json!([with(4), sidecar]), json!([with(2)])), 4);
}

#[test]
fn a_resource_claim_may_be_for_a_gpu_but_has_no_count() {
    let of = |spec: Value| pod(&json!({"metadata": {"name": "p"}, "spec": spec}));
    let claiming = of(json!({"resourceClaims": [{"name": "gpu"}]}));
    assert_eq!((claiming.gpus, claiming.uncounted), (0, true));
    assert!(!of(json!({"resourceClaims": []})).uncounted);
}

#[test]
fn a_pod_runs_since_the_first_of_its_running_containers() {
    let of = |statuses: Value| {
        let status = json!({"containerStatuses": statuses});
        pod(&json!({"metadata": {"name": "p"}, "status": status})).running_since
    };
    let since = |time: &str| json!({"state": {"running": {"startedAt": time}}});
    let (early, late) = ("2026-11-21T10:00:00Z", "2026-11-21T10:00:09Z");
    let first = Timestamp::from_secs(1_795_255_200);
    assert_eq!(of(json!([since(late), since(early)])), Some(first));
    let waiting = json!({"state": {"waiting": {}}});
    assert_eq!(of(json!([waiting, since(early), {}])), Some(first));
    let ended = json!({"state": {"terminated": {"startedAt": early}}});
    assert_eq!(of(json!([ended, {"state": null}])), None);
    assert_eq!(of(json!(null)), None);
}

#[test]
fn a_pod_starts_until_it_is_ready_for_the_first_time() {
    let (early, late) = ("2026-11-21T10:00:00Z", "2026-11-21T10:00:09Z");
    let of = |ready: &str, changed: &str, started: Option<&str>| {
        let state = started.map(|it| json!({"running": {"startedAt": it}}));
        let ready = json!({"type": "Ready", "status": ready, "lastTransitionTime": changed});
        let status = json!({"conditions": [{"type": "Initialized", "status": "True"}, ready],
                            "containerStatuses": [{"state": state}]});
        kept_pod(&json!({"metadata": {"name": "p"}, "status": status}))
    };
    let ready_at = |time: i64| Startup::ReadySince(Timestamp::from_secs(time));
    let loading = of("False", early, Some(late));
    let ready = of("True", late, Some(early));
    let overloaded = of("False", late, Some(early));
    assert_eq!(loading.pod.startup, Startup::Starting);
    assert_eq!(
        of("False", early, Some(early)).pod.startup,
        Startup::Starting
    );
    assert_eq!(ready.pod.startup, ready_at(1_795_255_239));
    let at_once = of("True", early, Some(early));
    assert_eq!(at_once.pod.startup, ready_at(1_795_255_200));
    assert_eq!(overloaded.pod.startup, Startup::Unknown);
    assert_eq!(of("False", early, None).pod.startup, Startup::Unknown);
    let bare = pod(&json!({"metadata": {"name": "p"}, "status": {}}));
    assert_eq!(bare.startup, Startup::Unknown);

    let after = |former: &KeptPod, now: &KeptPod| {
        let mut now = now.clone();
        now.keep_startup(former);
        now.pod.startup
    };
    let again = of("True", "2026-11-21T11:00:00Z", Some(early));
    assert_eq!(after(&ready, &overloaded), ready_at(1_795_255_239));
    assert_eq!(after(&ready, &again), ready_at(1_795_255_239));
    assert_eq!(after(&ready, &loading), Startup::Starting);
    assert_eq!(after(&loading, &again), ready_at(1_795_258_830));
}

#[test]
fn a_pod_that_has_finished_ended_with_the_last_of_its_containers() {
    let of = |phase: &str, statuses: Value| {
        let status = json!({"phase": phase, "containerStatuses": statuses});
        pod(&json!({"metadata": {"name": "p"}, "status": status})).ended
    };
    let at = |time: &str| json!({"state": {"terminated": {"finishedAt": time}}});
    let both = json!([at("2026-11-21T10:00:00Z"), at("2026-11-21T09:00:00Z")]);
    let last = Timestamp::from_secs(1_795_255_200);
    assert_eq!(of("Succeeded", both.clone()), Some(last));
    assert_eq!(of("Failed", both.clone()), Some(last));
    // The pod's containers start again.
    assert_eq!(of("Running", both), None);
    assert_eq!(of("Failed", json!([{"state": {"terminated": {}}}])), None);
}

#[test]
fn the_address_of_a_node_is_kept_where_gpus_may_be() {
    let of = |containers: Value| {
        let object = json!({"metadata": {"name": "p"}, "spec": {"containers": containers},
                            "status": {"hostIP": "10.0.0.7"}});
        kept_pod(&object).host
    };
    assert_eq!(of(json!([with(1)])), Some("10.0.0.7".into()));
    let exporter = json!([{"name": "main", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3"}]);
    assert_eq!(of(exporter), Some("10.0.0.7".into()));
    assert_eq!(of(json!([{}])), None);
}

#[test]
fn exporters_are_recognized_by_the_names_of_pod_container_and_image() {
    let of = |name: &str, container: Value| {
        let object = json!({"metadata": {"name": name}, "spec": {"containers": [container]},
                            "status": {"podIP": "10.0.0.1"}});
        kept_pod(&object).exporter.map(|exporter| exporter.address)
    };
    let address = Some(Some("10.0.0.1".into()));
    assert_eq!(of("nvidia-dcgm-exporter-9xk2f", json!({})), address);
    let image = json!({"name": "main", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3"});
    assert_eq!(of("gpu-metrics", image), address);
    assert_eq!(of("agent", json!({"name": "dcgm-exporter"})), address);
    // Many sidecars have this name.
    assert_eq!(of("redis-0", json!({"name": "exporter"})), None);
    assert_eq!(of("web-0", json!({"name": "web", "image": "nginx"})), None);
}

#[test]
fn absent_and_null_fields_are_no_errors() {
    for value in [
        json!({"metadata": {"name": "p"}}),
        json!({"metadata": {"name": "p", "labels": null, "ownerReferences": null, "deletionTimestamp": null},
               "spec": null, "status": null}),
        json!({"metadata": {"name": "p"}, "spec": {"containers": null, "nodeName": ""},
               "status": {"startTime": null}}),
    ] {
        let pod = pod(&value);
        assert_eq!(pod.phase, PodPhase::Pending);
        assert!(!pod.terminating && !pod.uncounted && pod.gpus == 0);
        assert_eq!((pod.node, pod.started), (None, None));
    }
}

#[test]
fn phases_and_termination_are_distinguished() {
    let of =
        |phase: &str| pod(&json!({"metadata": {"name": "p"}, "status": {"phase": phase}})).phase;
    assert_eq!(of("Succeeded"), PodPhase::Finished);
    assert_eq!(of("Failed"), PodPhase::Finished);
    assert_eq!(of("Unknown"), PodPhase::Pending);
    assert_eq!(of("Resting"), PodPhase::Pending);
    let ending = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(pod(&ending).terminating);
}

#[test]
fn an_invalid_object_is_rejected() {
    let texts = r#"null 1 [] {} {"metadata":{}} {"metadata":{"name":7}}"#;
    for text in texts.split(' ') {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let settings = WatchSettings::default();
        assert!(keep(raw, &settings).is_err(), "{text}");
    }
}

#[test]
fn only_the_controller_among_the_owners_counts() {
    let of = |references: Value| {
        let value = json!({"metadata": {"name": "p", "ownerReferences": references}});
        let kept = keep(&raw(&value), &WatchSettings::default());
        kept.unwrap().controller
    };
    let node = json!([{"apiVersion": "v1", "kind": "Node", "name": "n"}]);
    assert_eq!(of(node), None);
    let controller = of(json!([
        {"apiVersion": "v1", "kind": "Node", "name": "n", "controller": false},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]));
    let controller = controller.unwrap();
    let kind = &controller.kind;
    assert_eq!((&*kind.group, &*kind.kind), ("apps", "ReplicaSet"));
}
