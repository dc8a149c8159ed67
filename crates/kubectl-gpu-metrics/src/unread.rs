//! Why GPU data is missing.

use findings::source::{self, UNSEEN};
use findings::{Finding, Report};

use crate::inspect::Look;

use super::check::live::data;
use super::cluster::Cluster;

/// The first part of the message that GPU data is missing; the cause follows.
pub(super) const UNREAD: &str = "GPU data cannot be read";

/// Why GPU data is missing, and the remedy; `None` also where the user may not know
/// it.
pub(super) async fn trouble(cluster: &Cluster) -> Option<(String, String)> {
    let mut look = Look::new(&cluster.client);
    data(&mut look, None).await.ok()?;
    cause(look.report)
}

/// Findings about the server itself are no cause.
fn cause(report: Report) -> Option<(String, String)> {
    let mut skipped = report.skipped.into_iter();
    let unseen = skipped.find(|it| it.what == UNSEEN)?;
    let is_of_data = |it: &Finding| source::CODES.iter().any(|code| code.id == it.code);
    let cause = report.findings.into_iter().find(is_of_data);
    Some(cause.map_or((unseen.reason, unseen.remedy), |it| (it.message, it.remedy)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use findings::codes::{GM105, GM301};

    #[test]
    fn a_finding_about_the_server_itself_is_no_cause() {
        let own = Finding::new(&GM105, "server", "the certificate ends", "renew it");
        let away = Finding::new(&GM301, "Prometheus", "no answer", "start it");
        let of = |findings: &[Finding]| {
            cause(Report {
                findings: findings.to_vec(),
                skipped: [source::unseen("no round has ended", "look again")].into(),
                ..Report::default()
            })
        };
        let said = |cause: &str, remedy: &str| Some((cause.to_owned(), remedy.to_owned()));
        assert_eq!(of(&[own.clone(), away]), said("no answer", "start it"));
        assert_eq!(of(&[own]), said("no round has ended", "look again"));
        assert_eq!(cause(Report::default()), None);
    }
}
