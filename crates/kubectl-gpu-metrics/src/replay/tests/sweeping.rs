//! Recommendations of a sweep.

use serde_json::{Value, json};

use crate::replay::figures::Figures;
use crate::replay::sweep::{Sweep, VariantFigures, variants};

use super::{object, plan, pods};

fn row(fit: (f64, f64), score: (f64, f64)) -> VariantFigures {
    let figures = |(gpu_hours, overload_minutes)| Figures {
        gpu_hours,
        overload_minutes,
        ..Figures::default()
    };
    VariantFigures {
        target: None,
        window: None,
        stabilisation: None,
        fit: figures(fit),
        score: figures(score),
        is_on_front: false,
    }
}

#[test]
fn the_cheapest_variant_without_more_overload_is_recommended_if_confirmed() {
    let as_it_is = row((100.0, 10.0), (50.0, 5.0));
    let judge = |rows: Vec<VariantFigures>| Sweep::judge(as_it_is.clone(), rows, None);
    let dear = row((90.0, 0.0), (45.0, 0.0));
    let best = row((70.0, 9.0), (35.0, 5.0));
    let harsh = row((40.0, 60.0), (20.0, 30.0));
    let useless = row((95.0, 20.0), (48.0, 9.0));
    let sweep = judge(vec![dear.clone(), best, harsh, useless]);
    assert_eq!(sweep.best, Some(1));
    let front: Vec<bool> = sweep.rows.iter().map(|row| row.is_on_front).collect();
    assert_eq!(front, [true, true, true, false]);
    // The best on the first two thirds, which the last third does not confirm.
    let lucky = row((60.0, 9.0), (30.0, 6.0));
    let said = judge(vec![dear.clone(), lucky]).none_because.unwrap();
    assert!(
        said.contains("more overload than the current one"),
        "{said}"
    );
    let said = judge(vec![row((99.0, 11.0), (1.0, 0.0))])
        .none_because
        .unwrap();
    assert!(
        said.contains("every other setting has more overload"),
        "{said}"
    );
    let withheld = Sweep::judge(as_it_is, vec![dear], Some("because".to_owned()));
    assert_eq!(withheld.best, None);
    assert_eq!(withheld.none_because.as_deref(), Some("because"));
}

#[test]
fn a_patch_has_the_whole_metric_and_the_stabilisation() {
    let (object, plan) = (
        object(&pods("50"), &Value::Null),
        plan(&pods("50"), &Value::Null),
    );
    let all = variants(&plan, 1.0);
    assert_eq!(all.len(), 45);
    let rows = vec![row((1.0, 0.0), (1.0, 0.0)); 45];
    let sweep = Sweep::judge(row((9.0, 0.0), (9.0, 0.0)), rows, None).with_patch(&object, &all);
    let patch = sweep.patch.unwrap();
    let metric = &patch["spec"]["metrics"][0]["pods"];
    assert_eq!(metric["target"]["averageValue"], "40");
    assert_eq!(
        metric["metric"]["selector"],
        json!({"matchLabels": {"window": "1m"}})
    );
    let down = &patch["spec"]["behavior"]["scaleDown"];
    assert_eq!(down["stabilizationWindowSeconds"], 60);
}
