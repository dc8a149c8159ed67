//! The proposal of one metric: the inputs and results of the controller's own tests
//! (`replica_calculator_test.go`), and further edge cases.

use super::{Behavior, Case, Proposal, cells, rows};

#[test]
fn every_row_gives_the_replicas_that_the_controller_gives() {
    for text in rows(include_str!("replicas.txt")) {
        let [_, current, measure, tolerances, pods, expected] = cells(text);
        let mut case = Case::new(current.parse().unwrap(), (0, i32::MAX), measure, pods);
        if let Some((down, up)) = tolerances.split_once(' ') {
            let behavior = case.hpa.behavior.insert(Behavior::default());
            behavior.up.tolerance = Some(up.parse().unwrap());
            behavior.down.tolerance = Some(down.parse().unwrap());
        }
        let metric = &case.sync().metrics[0];
        let got = match metric.proposal {
            Proposal::Replicas { shown, replicas } => format!("{replicas} {}", shown.0),
            Proposal::Failed => "-".to_owned(),
            Proposal::NotComputed => panic!("{text}"),
        };
        assert_eq!(got, expected, "{text}: {:#?}", metric.steps);
    }
}
