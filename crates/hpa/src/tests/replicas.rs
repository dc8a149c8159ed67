//! The proposal of one metric: the inputs and results of the controller's own tests
//! (`replica_calculator_test.go`), and further edge cases.

use super::{Behavior, Case, Proposal, cells};

/// Subject | current replicas | metric | tolerances down and up | pods | replicas and the
/// value shown, or `-` if the metric fails.
const ROWS: &str = "
scale up overflow | 3 | object =1 of 9223372036854775807 |  | - - - | 2147483647 9223372036854775807
external per pod metric replica overflow | 1 | external /1 of 9223372036854775807 |  | - | 2147483647 9223372036854775807
external per pod metric usage overflow | 1 | external /9223372036854775807 of 9223372036854775807 |  | - | 1 9223372036854775807
scale up of pods unready hot cpu no less scale | 3 | pods 15000 |  | 50000 10000 30000u | 6 30000
scale up shared object | 3 | object /5000 of 20000 |  | - - - | 4 6667
scale up object ignores unready pods | 3 | object =10000 of 50000 |  | -u - -u | 5 50000
scale down of pods | 5 | pods 20000 |  | 12000 12000 12000 12000 12000 | 3 12000
scale down external | 5 | external =14334 of 8600 |  | - - - - - | 3 8600
scale down shared external | 5 | external /2867 of 8600 |  | - - - - - | 3 1720
tolerance of pods | 3 | pods 20000 |  | 20000 21000 21000 | 3 20666
tolerance external | 3 | external =8888 of 8600 |  | - - - | 3 8600
tolerance shared external | 3 | external /2900 of 8600 |  | - - - | 3 2867
configurable tolerance of pods | 3 | pods 20000 | 0.1 0.01 | 20000 21000 21000 | 4 20666
configurable tolerance external | 3 | external =8800 of 8900 | 0.1 0.01 | - - - | 4 8900
configurable tolerance shared external | 3 | external /2800 of 8600 | 0.1 0.01 | - - - | 4 2867
missing metrics no change on target | 5 | pods 20000 |  | 20000 19000 21000 - - | 5 20000
during rolling update with max surge of pods | 2 | pods 17000 |  | 10000 10000 - | 2 10000
external metric usage overflow | 3 | external =9223372036854775807 of 4611686018427387904+4611686018427387904 |  | - - - | 3 9223372036854775807
two values summed | 3 | external =10000 of 8000+12000 |  | - - - | 6 20000
a sum shared by replicas | 3 | external /5000 of 8000+12000 |  | - - - | 4 6667
a negative external value of a whole target stays itself | 2 | external =1000 of -500 |  | - - | -1 -500
nobody ready, so nothing to multiply | 3 | object =10000 of 50000 |  | -u -u -u | 0 50000
a pod being deleted and still ready is multiplied | 2 | object =10000 of 20000 |  | - -D | 4 20000
a target of type Value from zero is the ratio itself | 0 | object =10000 of 35000 |  |  | 4 35000
a shared target from zero divides by nothing | 0 | external /10000 of 35000 |  |  | 4 -9223372036854775808
outside the tolerance with no pods | 2 | object =10000 of 35000 |  |  | -
within the tolerance with no pods | 2 | object =10000 of 10500 |  |  | 2 10500
no pods at all | 2 | pods 10000 |  | x500 | -
only pods that do not count | 2 | pods 10000 |  | 500P 700F | -
an object without a value | 2 | object =10000 of nothing |  | - - | -
an external metric without values | 2 | external =10000 of nothing |  | - - | -
a mean is cut off, not rounded | 3 | pods 50000 |  | 66666 66667 66666 | 4 66666
the upper end of the tolerance belongs to it | 3 | pods 10000 |  | 11000 11000 11000 | 3 11000
a thousandth above it does not | 3 | pods 10000 |  | 11001 11001 11001 | 4 11001
the lower end of the tolerance belongs to it | 10 | pods 10000 |  | 9000 9000 9000 9000 9000 9000 9000 9000 9000 9000 | 10 9000
one of four missing holds a step up | 4 | pods 50000 |  | 62000 71500 66500 - | 4 66666
all four answer and it goes up | 4 | pods 50000 |  | 62000 71500 66500 66000 | 6 66500
a pod that ended and is still selected counts as missing | 3 | pods 10000 |  | 2000 2000 -S | 2 2000
a pod that ended keeps counting while it has a value | 2 | pods 10000 |  | 2000 2000S | 1 2000
a pending pod counts as zero above the target | 2 | pods 10000 |  | 11500 11500 -P | 2 11500
a pending pod does not count at the target | 3 | pods 10000 |  | 10000 10000 -P | 3 10000
a pending pod does not count below the target | 3 | pods 10000 |  | 9500 9500 -P | 3 9500
readiness does not matter for pods metrics | 2 | pods 10000 |  | 20000u 20000u | 4 20000
values of pods not selected count | 2 | pods 10000 |  | 10000 10000 x40000 | 4 20000
no value is scaled to nobody | 2 | pods 1000 |  | 0 0 | 0 0
the rounded number would go against the ratio | 3 | pods 10000 |  | 8000 8000 8000 8000 - | 3 8000
";

#[test]
fn every_row_gives_the_replicas_that_the_controller_gives() {
    for text in ROWS.lines().filter(|line| !line.is_empty()) {
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
