//! A source without Prometheus, which scrapes exporters directly.
//!
//! For laptops and demonstrations. It labels series like a scrape configuration with
//! `honor_labels: false` (docs/exporter.md, "After the scrape") and keeps no history:
//! every fetch has only the newest scrape.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::decode::KeyHasher;
use super::exposition;
use super::query::SignalQuery;
use super::{Answered, Fetched};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample};

/// Scrape timeout: exporters are near, so one that takes longer hangs.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// An exporter to scrape.
#[derive(Clone, Debug)]
pub struct ExporterTarget {
    /// The URL of its metrics: `http://127.0.0.1:9400/metrics`.
    pub url: String,
    /// The target's own labels (`job`, `instance`, `namespace`, `pod`, …).
    pub labels: Vec<(String, String)>,
}

/// One sample, and the labels of its series as JSON text.
#[derive(Debug)]
struct Scraped {
    name: String,
    labels: String,
    sample: Sample,
}

/// Exporters scraped directly.
#[derive(Debug)]
pub struct Exporters {
    targets: Vec<ExporterTarget>,
    client: reqwest::Client,
    hasher: KeyHasher,
    scraped_at: Option<Timestamp>,
    scraped: Vec<Scraped>,
}

impl Exporters {
    /// A source over these targets.
    ///
    /// # Errors
    /// When no HTTP client can be built.
    pub fn new(targets: Vec<ExporterTarget>, hasher: KeyHasher) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(TIME_LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self {
            targets,
            client,
            hasher,
            scraped_at: None,
            scraped: Vec::new(),
        })
    }

    /// Answers queries from the scrape at their time; the first query with a new time
    /// scrapes. A target that does not answer has no samples.
    pub(crate) async fn fetch(
        &mut self,
        queries: &[SignalQuery<'_>],
        batches: &mut [Batch],
    ) -> Vec<Answered> {
        let mut answers = Vec::with_capacity(queries.len());
        for (query, batch) in queries.iter().zip(batches) {
            let asked = Instant::now();
            if self.scraped_at != Some(query.at) {
                self.scrape(query.at).await;
                self.scraped_at = Some(query.at);
            }
            answers.push(Answered {
                took: asked.elapsed(),
                outcome: Ok(self.answer(query, batch)),
            });
        }
        answers
    }

    /// The samples of one signal in the last scrape.
    fn answer(&self, query: &SignalQuery<'_>, batch: &mut Batch) -> Fetched {
        let spec = query.spec;
        let wanted = |name: &str| {
            spec.wire_names
                .iter()
                .any(|wire| wire.eq_ignore_ascii_case(name))
        };
        let chosen: Vec<&Scraped> = self
            .scraped
            .iter()
            .filter(|series| wanted(&series.name))
            .collect();
        let mut text = BytesMut::new();
        let mut ranges = Vec::with_capacity(chosen.len());
        for series in &chosen {
            let start = text.len();
            text.extend_from_slice(series.labels.as_bytes());
            ranges.push(start..text.len());
        }
        let text: Bytes = text.freeze();
        let bytes = text.len();
        batch.reset(spec.id, text);
        for (series, range) in chosen.iter().zip(ranges) {
            batch.begin_series(self.hasher.key(&series.labels), range);
            batch.push(series.sample);
        }
        Fetched {
            series: batch.series_len(),
            samples: batch.samples_len(),
            bytes,
            ..Fetched::default()
        }
    }

    async fn scrape(&mut self, at: Timestamp) {
        self.scraped.clear();
        let texts = futures_util::future::join_all(
            self.targets
                .iter()
                .map(|target| text_of(&self.client, &target.url)),
        );
        for (target, text) in self.targets.iter().zip(texts.await) {
            let Some(text) = text else {
                tracing::debug!(url = target.url, "exporter does not answer");
                continue;
            };
            for line in text.lines().filter_map(exposition::parse) {
                self.scraped.push(Scraped {
                    name: line.name.to_owned(),
                    labels: stored_labels(&line, &target.labels),
                    sample: Sample {
                        at,
                        value: line.value,
                    },
                });
            }
        }
    }
}

async fn text_of(client: &reqwest::Client, url: &str) -> Option<String> {
    let response = client.get(url).send().await.ok()?;
    response.error_for_status().ok()?.text().await.ok()
}

/// The labels as stored: the target's labels win, and the exporter's labels of the
/// same name become `exported_…`. Empty values are dropped.
fn stored_labels(line: &exposition::SampleLine<'_>, target: &[(String, String)]) -> String {
    let mut labels: BTreeMap<String, &str> = BTreeMap::new();
    labels.insert("__name__".to_owned(), line.name);
    for (name, value) in line.labels.iter().filter(|(_, value)| !value.is_empty()) {
        let collides = target.iter().any(|(own, _)| own == name);
        let name = if collides {
            format!("exported_{name}")
        } else {
            (*name).to_owned()
        };
        labels.insert(name, value);
    }
    for (name, value) in target {
        labels.insert(name.clone(), value);
    }
    serde_json::to_string(&labels).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_stored_as_a_scrape_stores_them() {
        let text = r#"DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="G",namespace="team-a",pod="p",container=""} 37"#;
        let line = exposition::parse(text).unwrap();
        let target = [
            ("namespace", "gpu-operator"),
            ("pod", "exp"),
            ("container", "e"),
            ("job", "dcgm"),
        ];
        let target: Vec<_> = target
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let labels = stored_labels(&line, &target);
        assert_eq!(
            labels,
            r#"{"UUID":"G","__name__":"DCGM_FI_DEV_MEM_COPY_UTIL","container":"e","exported_namespace":"team-a","exported_pod":"p","gpu":"0","job":"dcgm","namespace":"gpu-operator","pod":"exp"}"#
        );
    }
}
