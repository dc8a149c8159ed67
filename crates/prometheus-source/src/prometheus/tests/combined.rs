//! Several signals in one query.

use super::*;

/// A series of memory utilisation under its lower-case name, and one of memory in use.
const TWO: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"UUID":"GPU-1","__name__":"dcgm_fi_dev_mem_copy_util","pod":"\"__name__\":\"x\""},"values":[[1700000000.123,"46"],[1700000015.123,"0"]]},
    {"metric":{"UUID":"GPU-1", "__name__": "DCGM_FI_DEV_FB_USED"},"values":[[1700000000.123,"1024"]]}]}}"#;

/// A store, its client, and three batches, of which two queries use the first two.
struct Poll {
    fake: FakePrometheus,
    source: Prometheus,
    batches: Vec<Batch>,
}

impl Poll {
    async fn of(body: &str) -> Self {
        let fake = FakePrometheus::start().await;
        fake.answer(body.to_owned());
        Self {
            source: Prometheus::new(settings(&fake.url()), KeyHasher::new()).unwrap(),
            fake,
            batches: [7; 3]
                .map(|id| Batch::new(SignalId(id), Bytes::new()))
                .into(),
        }
    }

    /// Queries memory utilisation and memory in use.
    async fn ask(&mut self) -> Option<Vec<Answered>> {
        let (specs, now) = (fields::built_in(), now());
        let range = Duration::from_secs(60);
        let queries = [0, 4].map(|at| query(&specs[at], DeviceSelection::All, now, range));
        let batches = &mut self.batches;
        self.source.fetch_combined(&queries, now, batches).await
    }

    fn labels(&self, place: usize) -> Vec<&str> {
        let series = self.batches[place].iter();
        series.map(|series| series.labels).collect()
    }
}

#[tokio::test]
async fn one_query_has_all_names_and_its_answer_is_divided_by_name() {
    let mut poll = Poll::of(TWO).await;
    let answers = poll.ask().await.unwrap();
    let fetched = answers.iter().map(|it| it.outcome.as_ref().unwrap());
    let fetched = fetched.map(|it| (it.series, it.samples, it.bytes));
    let wanted = [(1, 2, TWO.len()), (1, 1, TWO.len())];
    assert_eq!(fetched.collect::<Vec<_>>(), wanted);
    let query = poll.fake.last_request().param("query").unwrap();
    for name in [
        "DCGM_FI_DEV_MEM_COPY_UTIL|",
        "|dcgm_fb_used|",
        "dcgm_fi_dev_fb_used",
    ] {
        assert!(query.contains(name), "{query}");
    }
    assert_eq!(poll.fake.requests().len(), 1);
    assert!(poll.labels(0)[0].contains(r#""dcgm_fi_dev_mem_copy_util""#));
    let labels = r#"{"UUID":"GPU-1", "__name__": "DCGM_FI_DEV_FB_USED"}"#;
    assert_eq!(poll.labels(1), [labels]);
    let signals = poll.batches.iter().map(|batch| batch.signal);
    assert_eq!(signals.collect::<Vec<_>>(), [0, 4, 7].map(SignalId));
}

#[tokio::test]
async fn a_divided_series_keeps_its_key_and_the_text_its_memory() {
    let mut poll = Poll::of(TWO).await;
    poll.ask().await.unwrap();
    let key = poll.batches[1].iter().next().unwrap().key;
    let memory = poll.labels(1)[0].as_ptr();
    poll.ask().await.unwrap();
    assert_eq!(poll.labels(1)[0].as_ptr(), memory);
    let (specs, now) = (fields::built_in(), now());
    let minute = Duration::from_secs(60);
    let query = query(&specs[4], DeviceSelection::All, now, minute);
    poll.source.fetch(&[query], now, &mut poll.batches).await;
    let mut found = poll.batches[0].iter();
    let found = found.find(|it| it.labels.contains("FB_USED"));
    assert_eq!(found.unwrap().key, key);
}

#[tokio::test]
async fn a_refused_query_for_several_signals_is_not_repeated_for_ten_minutes() {
    let mut poll = Poll::of(TWO).await;
    assert!(poll.source.accepts_combined(now()));
    for (status, error) in [
        (
            422,
            "query processing would load too many samples into memory",
        ),
        (503, "query timed out in expression evaluation"),
        (400, "=~ is an unsupported matchtype for the __name__ label"),
        (414, "too long"),
    ] {
        let body = format!(r#"{{"status":"error","errorType":"execution","error":"{error}"}}"#);
        poll.fake.answer_with(status, &[], body);
        assert!(poll.ask().await.is_none(), "{error}");
        assert!(!poll.source.accepts_combined(now()));
        assert!(
            poll.source
                .accepts_combined(now() + Duration::from_secs(601))
        );
        poll.fake.answer(TWO);
        poll.ask().await.unwrap();
        assert!(poll.source.accepts_combined(now()));
    }
}

#[tokio::test]
async fn after_a_partial_answer_or_series_without_a_name_each_signal_is_queried_separately() {
    let part = TWO.replace(r#""data""#, r#""warnings":["a limit was hit"],"data""#);
    for body in [ONE, &part] {
        let mut poll = Poll::of(body).await;
        assert!(poll.ask().await.is_none());
        assert!(!poll.source.accepts_combined(now()));
    }
}

#[tokio::test]
async fn a_failure_of_the_store_fails_each_signal() {
    let mut poll = Poll::of(TWO).await;
    poll.ask().await.unwrap();
    for (status, kind) in [
        (500, ErrorKind::ServerError),
        (403, ErrorKind::Denied),
        (404, ErrorKind::Rejected),
        (429, ErrorKind::Rejected),
    ] {
        poll.fake.answer_with(status, &[], "no");
        let answers = poll.ask().await.unwrap();
        let kinds = answers
            .iter()
            .map(|it| it.outcome.as_ref().unwrap_err().kind());
        assert_eq!(kinds.collect::<Vec<_>>(), [kind, kind]);
        assert!(poll.source.accepts_combined(now()));
        assert!(poll.labels(0).is_empty() && poll.labels(1).is_empty());
    }
}

#[tokio::test]
async fn signals_that_share_a_name_are_queried_separately() {
    let mut poll = Poll::of(TWO).await;
    let (mut specs, now) = (fields::built_in(), now());
    let common = specs[0].wire_names[0].clone();
    specs[1].wire_names.push(common);
    let queries = [&specs[0], &specs[1]].map(|spec| {
        let minute = Duration::from_secs(60);
        query(spec, DeviceSelection::All, now, minute)
    });
    let answers = poll
        .source
        .fetch_combined(&queries, now, &mut poll.batches)
        .await;
    assert!(answers.is_none() && !poll.source.accepts_combined(now));
}
