//! Stores that refuse a query for several names.

use super::*;

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
    let refusal = probe.fetch().await.unwrap_err();
    assert!(refusal.is_of_query, "{refusal}");
    probe.source.separate(&refusal, now());
    probe.fetch().await.unwrap();
    assert_eq!(probe.sizes(), (2, 4));
    assert_eq!(labels(&probe), [r#"{"UUID":"a"}"#, r#"{"UUID":"b"}"#]);
    let asked = fake.requests().len();
    assert_eq!(asked, 1 + 5, "the refusal, and five spellings");
    let query = fake.requests()[1].param("query").unwrap();
    assert_eq!(query, format!(r#"{{__name__="{NAME}"}}[1m]"#));
    let broken = r#"{"status":"success","data":null}"#;
    fake.match_names_exactly(&[(NAME, &answer("a")), (LOWER, broken)]);
    // A failure of one spelling is a failure of the signal.
    probe.fails(ErrorKind::NotAnAnswer).await;
}
