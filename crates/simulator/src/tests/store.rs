//! Label sets in the store against the tables of `gpu_metrics::dcgm`, "After the
//! scrape".

use super::*;

/// The labels about owners, of a held and of a free GPU.
fn owner_labels(profile: Profile, scheme: LabelScheme) -> [String; 2] {
    let mut scenario = held_and_free(profile).scenario().clone();
    scenario.scrape.schemes = vec![scheme];
    let fleet = Fleet::new(scenario);
    let at = after(fleet.scenario(), 60);
    let holder = fleet.holders(0, at)[0];
    let exporter = &fleet.exporters()[0];
    let letter = |value: &str| match value {
        v if v == holder.pod => "P".to_owned(),
        v if v == holder.namespace => "N".to_owned(),
        v if v == holder.container => "C".to_owned(),
        v if v == exporter.pod => "xp".to_owned(),
        "gpu-operator" => "xn".to_owned(),
        "nvidia-dcgm-exporter" => "xc".to_owned(),
        v => v.to_owned(),
    };
    let words = ["pod", "namespace", "container"];
    [0, 1].map(|index| {
        let device = &fleet.devices()[index];
        let mut series = fleet.scraped(at, at + Duration::from_secs(15));
        let series = series.find(|series| {
            let name = series.labels.get("__name__").unwrap().to_ascii_lowercase();
            series.labels.get_ignore_case("uuid") == Some(&device.uuid) && name.contains("mem_copy")
        });
        let labels = series.unwrap().labels;
        let owners = labels
            .iter()
            .filter(|(name, _)| words.iter().any(|word| name.contains(word)))
            .map(|(name, value)| format!("{name}={}", letter(value)));
        owners.collect::<Vec<_>>().join(" ")
    })
}

#[test]
fn each_scheme_gives_the_labels_of_the_table() {
    use LabelScheme::*;
    let exported =
        "container=xc exported_container=C exported_namespace=N exported_pod=P namespace=xn pod=xp";
    let target = "container=xc namespace=xn pod=xp";
    let bare = "container=C namespace=N pod=P";
    let table = [
        (HonorFalse, exported, target),
        (AzureLowercase, exported, target),
        (RhoaiRatio, exported, target),
        // A free GPU has the exporter's own pod, which is easily mistaken for a holder.
        (HonorTrue, bare, target),
        (
            EndpointsAnnotation,
            "container=C exported_namespace=N namespace=xn pod=P",
            "namespace=xn",
        ),
        (
            PodsAnnotation,
            "container=C exported_namespace=N exported_pod=P namespace=xn pod=xp",
            "namespace=xn pod=xp",
        ),
        (
            OldAnnotation,
            "container=C kubernetes_namespace=xn kubernetes_pod_name=xp namespace=N pod=P",
            "kubernetes_namespace=xn kubernetes_pod_name=xp",
        ),
        (Gmp, bare, ""),
    ];
    for (scheme, held, free) in table {
        assert_eq!(
            owner_labels(Profile::V4_5_3, scheme),
            [held, free],
            "{scheme:?}"
        );
    }
}

#[test]
fn empty_labels_of_old_exporters_hide_the_target_only_where_honoured() {
    let target = "container=xc namespace=xn pod=xp";
    assert_eq!(
        owner_labels(Profile::V2_1, LabelScheme::HonorFalse)[1],
        target
    );
    assert_eq!(owner_labels(Profile::V2_1, LabelScheme::HonorTrue)[1], "");
}

/// The labels of the first series.
fn labels_of(scenario: Scenario) -> Labels {
    let at = after(&scenario, 60);
    let fleet = Fleet::new(scenario);
    let mut series = fleet.scraped(at, at + Duration::from_secs(15));
    series.next().unwrap().labels
}

#[test]
fn schemes_set_the_other_labels_of_the_table_too() {
    let mut scenario = Scenario::clean(1, 1, 1);
    scenario.scrape.schemes = vec![LabelScheme::Gmp];
    let labels = labels_of(scenario.clone());
    assert_eq!(labels.get("instance"), Some("gpu-node-00000:metrics"));
    for name in ["project_id", "location", "cluster", "job"] {
        assert!(labels.get(name).is_some(), "{name}");
    }
    scenario.scrape.schemes = vec![LabelScheme::AzureLowercase];
    let labels = labels_of(scenario.clone());
    for (name, _) in labels.iter() {
        assert_eq!(name.to_ascii_lowercase(), name.as_ref());
    }
    assert!(labels.get("uuid").is_some() && labels.get("modelname").is_some());
    scenario.scrape.schemes = vec![LabelScheme::EndpointsAnnotation];
    scenario.scrape.replicas = 2;
    let labels = labels_of(scenario);
    assert_eq!(labels.get("node"), Some("gpu-node-00000"));
    assert_eq!(labels.get("prometheus_replica"), Some("prometheus-k8s-0"));
}

#[test]
fn the_rescaling_collector_divides_percents_and_leaves_ratios() {
    let mut scenario = held_and_free(Profile::V4_5_3).scenario().clone();
    scenario.scrape.schemes = vec![LabelScheme::RhoaiRatio];
    let fleet = Fleet::new(scenario);
    let from = after(fleet.scenario(), 60);
    for series in fleet.scraped(from, from + Duration::from_secs(60)) {
        let name = series.labels.get("__name__").unwrap();
        if name.contains("MEM_COPY") || name.contains("DRAM") {
            assert!(series.samples.iter().all(|&(_, v)| v == 0.46 || v == 0.0));
        }
    }
}

#[test]
fn an_ha_pair_and_a_second_job_see_each_gpu_at_different_times() {
    let mut scenario = Scenario::clean(1, 1, 1);
    scenario.scrape.replicas = 2;
    scenario.scrape.second_job = Some(LabelScheme::EndpointsAnnotation);
    let series = memory_copy(scenario, 60);
    assert_eq!(series.len(), 4);
    let firsts: std::collections::BTreeSet<_> = series.iter().map(|s| s.samples[0].0).collect();
    assert_eq!(firsts.len(), 4, "each target has its own phase");
}
