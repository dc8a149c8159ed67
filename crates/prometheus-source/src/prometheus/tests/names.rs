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
    let fetched = probe.fetch().await.unwrap();
    assert_eq!((fetched.series, fetched.samples), (2, 4));
    assert_eq!(labels(&probe), [r#"{"UUID":"a"}"#, r#"{"UUID":"b"}"#]);
    assert_eq!(
        fake.requests().len(),
        1 + 5,
        "the refusal, and five spellings"
    );
    // The client remembers that names match only by equality, and which have series.
    probe.fetch().await.unwrap();
    assert_eq!(labels(&probe).len(), 2);
    let queries: Vec<_> = fake.requests()[6..]
        .iter()
        .map(|request| request.param("query").unwrap())
        .collect();
    assert_eq!(
        queries,
        [
            format!(r#"{{__name__="{NAME}"}}[1m]"#),
            format!(r#"{{__name__="{LOWER}"}}[1m]"#)
        ]
    );
}

#[tokio::test]
async fn a_failure_of_one_spelling_is_a_failure_of_the_signal() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&fake.url());
    settings.name_matching = NameMatching::Exact;
    let mut probe = Probe::new(settings);
    let broken = r#"{"status":"success","data":null}"#;
    fake.match_names_exactly(&[(NAME, &answer("a")), (LOWER, broken)]);
    probe.fails(ErrorKind::NullData).await;
    assert_eq!(fake.requests().len(), 5, "no pattern is tried");
    fake.match_names_exactly(&[(NAME, &answer("a"))]);
    assert_eq!(probe.fetch().await.unwrap().series, 1);
}

#[tokio::test]
async fn the_limit_is_on_all_spellings_together() {
    let fake = FakePrometheus::start().await;
    let mut settings = settings(&fake.url());
    settings.name_matching = NameMatching::Exact;
    settings.max_body_bytes = 2000;
    let mut probe = Probe::new(settings);
    fake.match_names_exactly(&[(NAME, &answer("a")), (LOWER, &answer(&"b".repeat(300)))]);
    probe.fails(ErrorKind::TooLarge).await;
}

#[tokio::test]
async fn concurrent_queries_fill_their_own_batches() {
    let (fake, mut probe) = probe().await;
    let specs = fields::built_in();
    fake.match_names_exactly(&[(NAME, &answer("a"))]);
    let (now, range) = (now(), Duration::from_secs(60));
    let queries = [0, 1].map(|index| query(&specs[index], DeviceSelection::All, now, range));
    let mut batches = queries.map(|query| Batch::new(query.spec.id, Bytes::new()));
    let answers = probe.source.fetch(&queries, now, &mut batches).await;
    let series = answers
        .iter()
        .map(|answer| answer.outcome.as_ref().unwrap());
    assert_eq!(
        series.map(|fetched| fetched.series).collect::<Vec<_>>(),
        [1, 0]
    );
    assert_eq!(
        batches.map(|batch| batch.signal),
        [specs[0].id, specs[1].id]
    );
    let patterns = fake.requests().into_iter().filter(|request| {
        let query = request.param("query").unwrap();
        query.contains("=~")
    });
    assert_eq!(patterns.count(), 2, "both were refused, and asked again");
}
