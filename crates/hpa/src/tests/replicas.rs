//! The proposal of one metric: the inputs and results of the controller's own tests
//! (`replica_calculator_test.go`), and further edge cases.

use super::super::metric::MetricOutcome;
use super::{Behavior, Case, cells};

/// Subject | current replicas | metric | tolerances down and up | pods | replicas, value
/// shown, percent; or words of the error.
const ROWS: &str = "
scale up | 3 | cpu 30% |  | 300 500 700 | 5 500 50%
one container: scale up | 3 | cpu@c 30% |  | 300 500 700 | 5 500 50%
scale up unready less scale | 3 | cpu 30% |  | 300u 500 700 | 4 600 60%
scale up overflow | 3 | object =1 of 9223372036854775807 |  | - - - | 2147483647 9223372036854775807
external per pod metric replica overflow | 1 | external /1 of 9223372036854775807 |  | - | 2147483647 9223372036854775807
external per pod metric usage overflow | 1 | external /9223372036854775807 of 9223372036854775807 |  | - | 1 9223372036854775807
scale hot cpu no scale | 3 | cpu 30% |  | 400 500uh 700uh | 3 400 40%
scale up ignores failed pods | 2 | cpu 30% |  | 500 700 -uF -uF | 4 600 60%
scale up ignores deletion pods | 2 | cpu 30% |  | 500 700 -uD -uD | 4 600 60%
scale up of pods unready hot cpu no less scale | 3 | pods 15000 |  | 50000 10000 30000uh | 6 30000
scale up shared object | 3 | object /5000 of 20000 |  | - - - | 4 6667
scale up object ignores unready pods | 3 | object =10000 of 50000 |  | -u - -u | 5 50000
scale down | 5 | cpu 50% |  | 100 300 500 250 250 | 3 280 28%
scale down of pods | 5 | pods 20000 |  | 12000 12000 12000 12000 12000 | 3 12000
scale down external | 5 | external =14334 of 8600 |  | - - - - - | 3 8600
scale down shared external | 5 | external /2867 of 8600 |  | - - - - - | 3 1720
scale down exclude unready pods | 5 | cpu 50% |  | 100 300 500 250u 250u | 2 300 30%
scale down exclude unscheduled pods | 5 | cpu 50% |  | 100 -uP -uP -uP -uP | 1 100 10%
tolerance | 3 | cpu 100% |  | 1010/900 1030 1020/1100 | 3 1020 102%
tolerance of pods | 3 | pods 20000 |  | 20000 21000 21000 | 3 20666
tolerance external | 3 | external =8888 of 8600 |  | - - - | 3 8600
tolerance shared external | 3 | external /2900 of 8600 |  | - - - | 3 2867
configurable tolerance | 3 | cpu 100% | 0.0 0.0 | 909/900 1010 1111/1100 | 4 1010 101%
configurable tolerance | 3 | cpu 100% | 2.0 0.08 | 1100/900 1080 1090/1100 | 4 1090 109%
configurable tolerance | 3 | cpu 100% | 0.34 0.1 | 660/900 640 650/1100 | 2 650 65%
configurable tolerance of pods | 3 | pods 20000 | 0.1 0.01 | 20000 21000 21000 | 4 20666
configurable tolerance external | 3 | external =8800 of 8900 | 0.1 0.01 | - - - | 4 8900
configurable tolerance shared external | 3 | external /2800 of 8600 | 0.1 0.01 | - - - | 4 2867
superfluous metrics | 4 | cpu 100% |  | 4000 9500 3000 7000 x3200 x2000 | 24 5875 587%
missing metrics | 4 | cpu 100% |  | 400 95 - - | 3 247 24%
empty metrics | 4 | cpu 100% |  | - - - | error unable to get metrics for resource cpu: no metrics returned from resource metrics API
empty processor request | 1 | cpu 100% |  | 200/none | error missing request for
missing metrics no change on target | 5 | pods 20000 |  | 20000 19000 21000 - - | 5 20000
missing metrics no change above target | 2 | cpu 100% |  | 1900 - | 2 1900 190%
missing metrics no change below target | 2 | cpu 100% |  | 600 - | 2 600 60%
missing metrics unready change | 3 | cpu 50% |  | 100u 450 - | 3 450 45%
missing metrics unready scale up | 3 | cpu 50% |  | 100u 2000 - | 4 2000 200%
missing metrics unready scale down | 4 | cpu 50% |  | 100u 100 100 - | 3 100 10%
missing metrics scale down target over 100 | 4 | cpu 300% |  | 200u 100 100/2000 -/2000 | 2 100 6%
during rolling update with max surge of pods | 2 | pods 17000 |  | 10000 10000 - | 2 10000
external metric usage overflow | 3 | external =9223372036854775807 of 4611686018427387904+4611686018427387904 |  | - - - | 3 9223372036854775807
two values summed | 3 | external =10000 of 8000+12000 |  | - - - | 6 20000
a sum shared by replicas | 3 | external /5000 of 8000+12000 |  | - - - | 4 6667
a negative external value reads as the largest | 1 | external /1000 of -5 |  | - | 2147483647 9223372036854775807
a negative external value of a whole target stays itself | 2 | external =1000 of -500 |  | - - | -1 -500
nobody ready, so nothing to multiply | 3 | object =10000 of 50000 |  | -u -u -u | 0 50000
a pod being deleted and still ready is multiplied | 2 | object =10000 of 20000 |  | - -D | 4 20000
a target of type Value from zero is the ratio itself | 0 | object =10000 of 35000 |  |  | 4 35000
a shared target from zero divides by nothing | 0 | external /10000 of 35000 |  |  | 4 -9223372036854775808
outside the tolerance with no pods | 2 | object =10000 of 35000 |  |  | error unable to calculate ready pods: no pods returned by selector
within the tolerance with no pods | 2 | object =10000 of 10500 |  |  | 2 10500
no pods at all | 2 | pods 10000 |  | x500 | error no pods returned by selector while calculating replica count
only pods that do not count | 2 | pods 10000 |  | 500P 700F | error did not receive metrics for targeted pods (pods might be unready)
an object without a value | 2 | object =10000 of nothing |  | - - | error server returned 0 results when we asked for exactly one
an external metric without values | 2 | external =10000 of nothing |  | - - | error no metrics returned from external metrics API
a mean is cut off, not rounded | 3 | pods 50000 |  | 66666 66667 66666 | 4 66666
the upper end of the tolerance belongs to it | 3 | pods 10000 |  | 11000 11000 11000 | 3 11000
a thousandth above it does not | 3 | pods 10000 |  | 11001 11001 11001 | 4 11001
the lower end of the tolerance belongs to it | 10 | pods 10000 |  | 9000 9000 9000 9000 9000 9000 9000 9000 9000 9000 | 10 9000
one of four missing holds a step up | 4 | pods 50000 |  | 62000 71500 66500 - | 4 66666
all four answer and it goes up | 4 | pods 50000 |  | 62000 71500 66500 66000 | 6 66500
a pod that ended and is still selected counts as missing | 3 | pods 10000 |  | 2000 2000 -S | 2 2000
a pod that ended keeps counting while it has a value | 2 | pods 10000 |  | 2000 2000S | 1 2000
a pending pod slows scaling up | 3 | pods 10000 |  | 14000 14000 -P | 3 14000
a pending pod does not slow scaling down | 3 | pods 10000 |  | 4000 4000 -P | 1 4000
readiness does not matter for pods metrics | 2 | pods 10000 |  | 20000u 20000uh | 4 20000
values of pods not selected count | 2 | pods 10000 |  | 10000 10000 x40000 | 4 20000
a raw amount of a resource | 2 | cpu 500 |  | 900 900 | 4 900
what is absurdly high turns negative on amd64 | 2 | pods 1 |  | 9000000000000000 9000000000000000 | -2147483648 9000000000000000
a shared object that is absurdly high turns negative | 2 | object /1 of 9000000000000000 |  | - - | -2147483648 4500000000000000
no value is scaled to nobody | 2 | pods 1000 |  | 0 0 | 0 0
the rounded number would go against the ratio | 3 | pods 10000 |  | 8000 8000 8000 8000 - | 3 8000
";

fn row(row: &str) -> (Case, String) {
    let [_, current, measure, tolerances, pods, expected] = cells(row);
    let mut case = Case::new(current.parse().unwrap(), (0, i32::MAX), measure, pods);
    if let Some((down, up)) = tolerances.split_once(' ') {
        let behavior = case.hpa.behavior.insert(Behavior::default());
        behavior.up.tolerance = Some(up.parse().unwrap());
        behavior.down.tolerance = Some(down.parse().unwrap());
    }
    (case, expected.to_owned())
}

#[test]
fn every_row_gives_the_replicas_that_the_controller_gives() {
    for text in ROWS.lines().filter(|line| !line.is_empty()) {
        let (case, expected) = row(text);
        let trace = case.sync();
        let metric = &trace.metrics[0];
        if let MetricOutcome::Invalid(invalid) = &metric.outcome {
            let words = expected.strip_prefix("error ");
            let words = words.unwrap_or_else(|| panic!("{text}: {invalid:?}"));
            assert!(invalid.error.contains(words), "{text}: {invalid:?}");
            assert!(invalid.message.contains(words), "{text}: {invalid:?}");
            continue;
        }
        let (replicas, shown) = (metric.replicas().unwrap(), metric.shown().unwrap().0);
        let mut got = format!("{replicas} {shown}");
        if let MetricOutcome::Pods(step) = &metric.outcome
            && let Some(percent) = step.mean.percent
        {
            got += &format!(" {percent}%");
        }
        assert_eq!(got, expected, "{text}: {:#?}", trace.sentences());
    }
}
