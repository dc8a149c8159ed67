//! Stores that match metric names only by equality.

use super::*;
use crate::settings::NameMatching;

const NAME: &str = "DCGM_FI_DEV_MEM_COPY_UTIL";
const LOWER: &str = "dcgm_fi_dev_mem_copy_util";

fn answer(name: &str) -> String {
    ONE.replace("\"UUID\":\"GPU-1\"", &format!("\"UUID\":\"{name}\""))
}

fn labels(probe: &Probe) -> Vec<String> {
    let series = probe.batch.iter();
    series.map(|series| series.labels.to_owned()).collect()
}

#[tokio::test]
async fn a_store_that_refuses_patterns_gets_a_query_for_each_spelling() {
    let (fake, mut probe) = probe().await;
    fake.match_names_exactly(&[(NAME, &answer("a")), (LOWER, &answer("b"))]);
    probe.fails(ErrorKind::Rejected).await;
    let fetched = probe.fetch().await.unwrap();
    assert_eq!((fetched.series, fetched.samples), (2, 4));
    assert_eq!(labels(&probe), [r#"{"UUID":"a"}"#, r#"{"UUID":"b"}"#]);
    let asked = fake.requests().len();
    assert_eq!(asked, 1 + 5, "the refusal, and five spellings");
    // The client remembers that names match only by equality.
    probe.fetch().await.unwrap();
    assert_eq!(labels(&probe).len(), 2);
    assert_eq!(fake.requests().len(), 6 + 5);
    let query = fake.requests()[6].param("query").unwrap();
    assert_eq!(query, format!(r#"{{__name__="{NAME}"}}[1m]"#));
}

#[tokio::test]
async fn a_failure_of_one_spelling_is_a_failure_of_the_signal() {
    let (fake, mut probe) = probe_with(|it| it.name_matching = NameMatching::Exact).await;
    let broken = r#"{"status":"success","data":null}"#;
    fake.match_names_exactly(&[(NAME, &answer("a")), (LOWER, broken)]);
    probe.fails(ErrorKind::NotAnAnswer).await;
    assert_eq!(fake.requests().len(), 3, "no pattern is tried");
    fake.match_names_exactly(&[(NAME, &answer("a"))]);
    assert_eq!(probe.fetch().await.unwrap().series, 1);
}
