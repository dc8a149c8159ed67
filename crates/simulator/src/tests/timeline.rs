//! The timeline: determinism, hand-overs, rates.

use std::collections::BTreeMap;

use super::*;

fn everything(scenario: Scenario) -> String {
    let from = after(&scenario, 0);
    let fleet = Fleet::new(scenario);
    let mut out = Vec::new();
    fleet
        .openmetrics(from, from + Duration::from_secs(600), &mut out)
        .unwrap();
    let mut text = String::from_utf8(out).unwrap();
    for index in 0..fleet.exporters().len() {
        text.extend(fleet.exposition(index, from + Duration::from_secs(250)));
    }
    text
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let text = everything(Scenario::defects(8, 4, 7));
    assert_eq!(text, everything(Scenario::defects(8, 4, 7)));
    assert_ne!(text, everything(Scenario::defects(8, 4, 8)));
}

#[test]
fn a_gpu_handed_over_has_one_owner_at_each_scrape() {
    let mut scenario = Scenario::clean(2, 8, 5);
    scenario.workloads.handover_every = 2;
    let mut owners: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut changes = 0;
    for series in memory_copy(&Fleet::new(scenario), 600) {
        let uuid = label(&series, "UUID").unwrap().to_owned();
        let pod = label(&series, "exported_pod").map(str::to_owned);
        for (at, _) in series.samples {
            let of = owners.entry((uuid.clone(), at)).or_default();
            of.push(pod.clone());
        }
    }
    assert!(owners.values().all(|pods| pods.len() == 1));
    let owners: Vec<_> = owners.into_iter().collect();
    for pair in owners.windows(2) {
        if pair[0].0.0 == pair[1].0.0 && pair[0].1 != pair[1].1 {
            changes += 1;
            assert!(pair[1].1[0].is_some(), "no idle gap");
        }
    }
    assert!(changes >= 3, "{changes}");
}

#[test]
fn a_stateful_pod_comes_back_under_its_name_with_a_later_start() {
    let mut scenario = Scenario::clean(1, 8, 5);
    scenario.workloads.recreated_every = 2;
    let (first, last) = (after(&scenario, 0), after(&scenario, 600));
    let fleet = Fleet::new(scenario);
    let (old, new) = (fleet.inventory(first), fleet.inventory(last));
    let again = old.pods.iter().filter(|pod| {
        let other = new.pod(&pod.namespace, &pod.name).unwrap();
        other.started > pod.started
    });
    assert!(again.count() > 0);
}

#[test]
fn inventories_are_sorted_and_owners_lead_to_their_tops() {
    for secs in [0, 100, 300, 500, 900] {
        let fleet = Fleet::new(Scenario::defects(14, 8, 2));
        let inventory = fleet.inventory(after(fleet.scenario(), secs));
        let keys: Vec<_> = inventory
            .pods
            .iter()
            .map(|p| (&p.namespace, &p.name))
            .collect();
        assert!(keys.is_sorted_by(|left, right| left < right), "at {secs}");
        for pod in &inventory.pods {
            assert!(!pod.owners.is_empty());
            let kinds = pod.owners.iter();
            let kinds: Vec<_> = kinds
                .map(|&i| &*inventory.workloads[i as usize].kind.kind)
                .collect();
            let known: [&[&str]; 4] = [
                &["ReplicaSet", "Deployment"],
                &["StatefulSet"],
                &["Job"],
                &["DaemonSet"],
            ];
            assert!(known.contains(&kinds.as_slice()), "{kinds:?}");
        }
        let exporters = inventory.pods.iter().filter(|pod| !pod.requests_gpu());
        assert_eq!(exporters.count(), 14);
    }
}

/// The shares of valid, sentinel, NaN and zero-while-busy samples of MCU.
fn shares(scenario: Scenario) -> [f64; 3] {
    let fleet = Fleet::new(scenario);
    let samples = memory_copy(&fleet, 3600).flat_map(|series| series.samples);
    let samples: Vec<f64> = samples.map(|(_, value)| value).collect();
    let share = |wanted: &dyn Fn(f64) -> bool| {
        samples.iter().filter(|&&v| wanted(v)).count() as f64 / samples.len() as f64
    };
    [
        share(&|v| v > 1e18),
        share(&f64::is_nan),
        share(&|v| v == 0.0),
    ]
}

#[test]
fn sentinels_nan_and_zeros_come_at_their_rates() {
    let mut scenario = Scenario::clean(4, 8, 9).under(LoadClass::Constant(50.0));
    scenario.workloads.free_every = 0;
    assert_eq!(shares(scenario.clone()), [0.0; 3]);
    scenario.exporters.sentinel_rate = 0.05;
    scenario.exporters.nan_rate = 0.03;
    scenario.exporters.memory_zero_rate = 0.10;
    // 7,680 samples: a share of 5 % has a deviation of 0.25 points.
    for (share, rate) in shares(scenario).into_iter().zip([0.05, 0.03, 0.092]) {
        assert!((share - rate).abs() < 0.012, "{share} is not {rate}");
    }
}

#[test]
fn labels_drop_out_for_a_scrape_and_the_value_stays() {
    let mut scenario = Scenario::clean(1, 8, 9).under(LoadClass::Constant(50.0));
    scenario.workloads.free_every = 0;
    scenario.exporters.dropout_rate = 0.1;
    let fleet = Fleet::new(scenario);
    let bare = memory_copy(&fleet, 3600).filter(|it| label(it, "exported_pod").is_none());
    let bare: usize = bare.map(|series| series.samples.len()).sum();
    assert!(
        bare > 0 && bare.is_multiple_of(8),
        "{bare}: a node loses all labels at once"
    );
    assert!((10..=40).contains(&(bare / 8)), "{bare}");
}

#[test]
fn text_and_store_agree_at_one_time() {
    let fleet = Fleet::new(Scenario::clean(1, 8, 4));
    let from = after(fleet.scenario(), 0);
    let mut compared = 0;
    let fields = SignalId::BUILT_IN.iter().copied();
    for series in fleet.series(fields, from, from + Duration::from_secs(30)) {
        let (at, value) = series.samples[0];
        let name = label(&series, "__name__").unwrap();
        let uuid = label(&series, "UUID").unwrap();
        let text = fleet.exposition(0, at).unwrap();
        let mut lines = text.lines();
        let line = lines.find(|l| l.starts_with(&format!("{name}{{")) && l.contains(uuid));
        let printed: f64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        assert!((printed - value).abs() < 1e-9);
        compared += 1;
    }
    assert_eq!(compared, 8 * SignalId::BUILT_IN.len());
}
