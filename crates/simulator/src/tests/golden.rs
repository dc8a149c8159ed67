//! Lines of exporters and series of the store as they were recorded, after `gpu_metrics::dcgm`,
//! "Lines" and "After the scrape". With `UPDATE_GOLDEN` set, the files are written instead.

use std::fmt::Write;
use std::path::Path;

use super::*;

fn assert_recorded(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden");
    let path = folder.join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert!(known == text, "{name} differs:\n{text}");
}

/// A GPU of this generation that is 62 % busy.
fn one_gpu(profile: Profile, change: impl FnOnce(&mut Scenario)) -> Fleet {
    let mut scenario = Scenario::clean(1, 1, 1).under(LoadClass::Constant(62.0));
    scenario.exporters.profiles = vec![profile];
    change(&mut scenario);
    Fleet::new(scenario)
}

#[test]
fn each_generation_prints_its_lines() {
    let mut text = String::new();
    let fields = [
        "MEM_COPY_UTIL{",
        "GPU_UTIL{",
        "DRAM_ACTIVE{",
        "FB_RESERVED{",
    ];
    for profile in Profile::ALL {
        for (gpus, fleet) in [
            ("one held and one free", held_and_free(profile)),
            (
                "shared",
                one_gpu(profile, |it| it.hardware.shared_every = 1),
            ),
            ("MIG", one_gpu(profile, |it| it.hardware.mig_every = 1)),
            (
                "MIG and its card",
                one_gpu(profile, |it| {
                    it.hardware.mig_every = 1;
                    it.exporters.mig_parent_lines = true;
                }),
            ),
        ] {
            writeln!(text, "\n# {profile:?}: {gpus}").unwrap();
            let printed = fleet.exposition(0, after(fleet.scenario(), 60)).unwrap();
            for line in printed.lines() {
                if fields.iter().any(|field| line.contains(field)) {
                    writeln!(text, "{line}").unwrap();
                }
            }
        }
    }
    assert_recorded("lines.txt", &text);
}

/// The series of a fleet in a minute.
fn stored(scenario: Scenario) -> String {
    let (at, minute) = (after(&scenario, 120), Duration::from_secs(60));
    let names = ["DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_PROF_DRAM_ACTIVE"];
    let answer = Fleet::new(scenario).prometheus_json(&names, at, minute);
    answer.replace("{\"metric\"", "\n{\"metric\"")
}

#[test]
fn each_scheme_gives_series_their_labels_values_and_times() {
    let mut text = String::new();
    for profile in [Profile::V2_1, Profile::V4_5_3] {
        for scheme in LabelScheme::ALL
            .into_iter()
            .chain([LabelScheme::RhoaiRatio])
        {
            let mut scenario = held_and_free(profile).scenario().clone();
            scenario.scrape.schemes = vec![scheme];
            writeln!(text, "# {profile:?}, {scheme:?}\n{}\n", stored(scenario)).unwrap();
        }
    }
    let mut scenario = Scenario::clean(1, 1, 1);
    scenario.scrape.replicas = 2;
    scenario.scrape.second_job = Some(LabelScheme::EndpointsAnnotation);
    writeln!(
        text,
        "# a pair of Prometheus, and two jobs\n{}",
        stored(scenario)
    )
    .unwrap();
    assert_recorded("store.txt", &text);
}
