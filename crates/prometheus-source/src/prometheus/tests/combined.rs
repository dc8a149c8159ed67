//! Several signals in one query.

use super::*;
use gpu_metrics::signal::SignalSpec;

/// A series of memory utilisation under its lower-case name, and one of memory in use.
const TWO: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"UUID":"GPU-1","__name__":"dcgm_fi_dev_mem_copy_util","pod":"\"__name__\":\"x\""},"values":[[1700000000.123,"46"],[1700000015.123,"0"]]},
    {"metric":{"UUID":"GPU-1","__name__":"DCGM_FI_DEV_FB_USED"},"values":[[1700000000.123,"1024"]]}]}}"#;

/// The signal, labels and number of samples of each series.
type Found = Vec<(SignalId, String, usize)>;

/// Queries several signals of a store with this answer.
async fn ask(body: &str, specs: &[&SignalSpec]) -> (FakePrometheus, Result<Found, Error>) {
    let fake = FakePrometheus::start().await;
    fake.answer(body.to_owned());
    let source = Prometheus::new(settings(&fake.url()), KeyHasher::new()).unwrap();
    let query = SeriesQuery {
        specs,
        at: now(),
        range: Duration::from_secs(60),
    };
    let mut found = Vec::new();
    let mut take = |batch: &Batch| {
        for series in batch.iter() {
            found.push((batch.signal, series.labels.to_owned(), series.samples.len()));
        }
    };
    let fetched = source.fetch(&query, now(), &mut take).await;
    (fake, fetched.map(|_| found))
}

#[tokio::test]
async fn one_query_has_all_names_and_its_answer_is_divided_by_name() {
    let specs = fields::built_in();
    let (fake, found) = ask(TWO, &[&specs[0], &specs[4]]).await;
    let found = found.unwrap();
    let of = |it: &(SignalId, String, usize)| (it.0, it.2);
    assert_eq!(of(&found[0]), (SignalId(0), 2));
    assert_eq!(of(&found[1]), (SignalId(4), 1));
    assert_eq!(
        found[1].1,
        r#"{"UUID":"GPU-1","__name__":"DCGM_FI_DEV_FB_USED"}"#
    );
    let query = fake.last_request().param("query").unwrap();
    for name in [
        "DCGM_FI_DEV_MEM_COPY_UTIL|",
        "|dcgm_fb_used|",
        "dcgm_fi_dev_fb_used",
    ] {
        assert!(query.contains(name), "{query}");
    }
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn a_large_answer_is_handed_on_in_parts_and_completely() {
    let series = |number: usize| {
        let name = ["DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FB_USED"][number % 2];
        format!(r#"{{"metric":{{"UUID":"GPU-{number}","__name__":"{name}"}},"values":[[1,"1"]]}}"#)
    };
    let series: Vec<String> = (0..40_000).map(series).collect();
    let list = series.join(",");
    let body =
        format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{list}]}}}}"#);
    let specs = fields::built_in();
    let (_fake, found) = ask(&body, &[&specs[0], &specs[4]]).await;
    let mut numbers: Vec<usize> = Vec::new();
    for (signal, labels, samples) in found.unwrap() {
        let number = labels.split(['-', '"']).nth(4).unwrap().parse().unwrap();
        assert_eq!((signal.0, samples), (4 * (number % 2) as u16, 1));
        numbers.push(number);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..40_000));
}

#[tokio::test]
async fn series_without_a_known_name_are_a_fault_of_the_query() {
    let specs = fields::built_in();
    let (_fake, found) = ask(ONE, &[&specs[0], &specs[4]]).await;
    let error = found.unwrap_err();
    assert!(error.is_of_query, "{error}");
}

#[tokio::test]
async fn after_a_refusal_each_name_has_its_own_query_for_ten_minutes() {
    let fake = FakePrometheus::start().await;
    let mut source = Prometheus::new(settings(&fake.url()), KeyHasher::new()).unwrap();
    let refusal = Error::refused("http://p", 422, "too many samples".to_owned());
    assert!(source.combines(now()));
    source.separate(&refusal, now());
    assert!(!source.combines(now()));
    assert!(source.combines(now() + Duration::from_secs(601)));
    assert!(
        source.combines(now() - Duration::from_secs(1)),
        "the clock was set back"
    );
}
