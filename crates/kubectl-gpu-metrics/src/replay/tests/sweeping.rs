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
fn a_target_is_a_share_of_each_gpu() {
    let sum = json!({"type": "Object", "object": {
        "metric": {"name": "gpu_memory_utilization_sum"},
        "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
        "target": {"type": "AverageValue", "averageValue": "50"},
    }});
    for (metric, target) in [(pods("50"), "70 per pod"), (sum, "140 per pod")] {
        let plan = plan(&metric, &Value::Null).with_target(70, 2.0);
        assert_eq!(plan.hpa.metrics[0].target.to_string(), target);
    }
}
