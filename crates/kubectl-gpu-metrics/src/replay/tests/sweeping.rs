//! Targets of a sweep.

use serde_json::{Value, json};

use crate::replay::figures::Figures;
use crate::replay::sweep::best;

use super::{plan, pods};

#[test]
fn the_fewest_gpu_hours_within_the_shortage_are_the_best() {
    let rows = [(100.0, 600.0), (90.0, 0.0), (70.0, 240.0), (40.0, 3600.0)];
    let rows = rows.map(|(gpu_hours, shortage)| Figures {
        gpu_hours,
        shortage,
        ..Figures::default()
    });
    for (most, place) in [(0.0, Some(1)), (300.0, Some(2)), (3600.0, Some(3))] {
        assert_eq!(best(&rows, most), place, "{most}");
    }
    assert_eq!(best(&rows[..1], 300.0), None);
}

#[test]
fn a_target_is_a_share_of_each_gpu_and_its_patch_replaces_it() {
    let sum = json!({"type": "Object", "object": {
        "metric": {"name": "gpu_memory_utilization_sum"},
        "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
        "target": {"type": "AverageValue", "averageValue": "50"},
    }});
    for (metric, value, path) in [
        (pods("50"), "70", "/spec/metrics/0/pods/target/averageValue"),
        (sum, "140", "/spec/metrics/0/object/target/averageValue"),
    ] {
        let patch = plan(&metric, &Value::Null).with_target(70, 2.0).patch();
        let (command, operations) = patch.split_once(" --patch ").unwrap();
        assert_eq!(command, "kubectl patch hpa infer -n team --type json");
        let operations: Value = serde_json::from_str(operations.trim_matches('\'')).unwrap();
        let expected = json!([{"op": "replace", "path": path, "value": value}]);
        assert_eq!(operations, expected);
    }
}
