//! Explains the value of an object with the functions that compute it.

use std::collections::BTreeSet;

use apimachinery::time::millis;

use crate::counts::Counts;
use crate::dcgm::schemes;
use crate::devices::{DeviceReport, DeviceState, ExplainedReading, IdleTime};
use crate::grid::instant_time;
use crate::layout::ClaimId;
use crate::outcome::{OfDevice, Outcome, devices_of};
use crate::policy::Measure;
use crate::reading::{DeviceReading, Inputs, Span};
use crate::signal::SignalId;
use crate::snapshot::Snapshot;
use crate::tally::{Readings, Tallies};
use crate::window::window_ms;

use super::{Explanation, HOLDERS_UNNAMED, Instant, Question, Window, promql, seconds};

/// The most devices listed; further ones are counted.
pub(super) const MOST_DEVICES: usize = 256;

const NO_PROMQL: &str = "no PromQL is shown, because no short query computes this number";

impl Snapshot {
    /// Explains the value of an object, without its names and the value itself. Of the original
    /// exporter's number, in which objects have no part, nothing is explained.
    #[must_use]
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let (object, measure) = (question.object, question.measure);
        let mut explanation = Explanation::default();
        let devices = devices_of(object).map(|members| members[0].device);
        let behind = devices.map(|device| self.holdings.behind(device)).max();
        let Some(behind) = behind.filter(|_| *measure != Measure::OriginalAverage) else {
            return explanation;
        };
        let asked_ms = question.window.map(millis);
        let (span, inputs) = (self.span(asked_ms), Inputs::of(measure));
        let readings = Readings::of(self, Some(object), inputs, span);
        let mut tallies = Tallies::of(std::slice::from_ref(measure), span);
        self.tally(object, &readings, &mut tallies);
        // The devices of the cluster are not listed to users of one namespace.
        let most = match (object.is_place, &*object.name) {
            (true, "") => 0,
            _ => MOST_DEVICES,
        };
        let mut lag_ms = 0;
        self.each_device(object, &readings, |of, own| {
            explanation.device_count += 1;
            lag_ms = lag_ms.max(self.times(of.device).map_or(0, |it| it.lag_ms));
            if explanation.device_count <= most {
                let report = self.report(question, of, own);
                explanation.devices.push(report);
            }
        });
        let at = |instant| instant_time(instant - behind, self.frame.step_ms);
        let all = tallies.answering.iter().zip(tallies.numbers(0));
        let instants = span.instants().zip(all);
        let instants = instants.map(|(instant, (of, (counted, number)))| Instant {
            time: at(instant).date(),
            number,
            answering: of.valid,
            counted,
            missing: of.missing + of.missing_at_most,
        });
        explanation.instants = instants.collect();
        explanation.window = Some(Window {
            seconds: seconds(window_ms(&self.policy, asked_ms)),
            step_seconds: seconds(self.frame.step_ms),
            end: at(span.last).date(),
            lag_seconds: seconds(lag_ms),
        });
        let is_same = |it: &Instant| match measure {
            Measure::HeldCount => it.missing == 0,
            _ => it.number.is_some() || it.answering == 0,
        };
        if explanation.instants.iter().all(is_same) {
            explanation.promql = promql::same(question, self, span.last);
        }
        explanation.add_notes(self.unseen(object));
        explanation
    }

    fn report(
        &self,
        question: &Question<'_>,
        of: &OfDevice<'_>,
        own: &[DeviceReading],
    ) -> DeviceReport {
        let (device, inputs) = (of.device, of.inputs);
        let facts = &self.layout.devices[device as usize];
        let line = self.newest_line(device);
        let times = self.times(device);
        let holders = self.layout.claims_of(device);
        let holders = holders.filter(|claim| self.is_current(*claim, device));
        let holders: Vec<ClaimId> = holders.collect();
        let is_own = |claim: &&ClaimId| of.members.iter().any(|it| it.claim == Some(**claim));
        let named = holders
            .iter()
            .filter(|it| question.names_pods || is_own(it));
        let named = named.map(|claim| {
            let pod = self.layout.claims[*claim as usize].pod as usize;
            let pod = &self.layout.pods[pod].pod;
            format!("{}/{}", pod.namespace, pod.name)
        });
        let pods: BTreeSet<String> = named.collect();
        let model = line.and_then(|line| schemes::model(&line.labels));
        let shown = inputs.shown_by().next();
        let signal = shown.map(|value| self.signal_of(device, value));
        let owner = line.and_then(|line| line.claim.owner.as_ref());
        let (instance, profile) = (&facts.device.instance, facts.device.profile.as_deref());
        let instance = instance.as_ref();
        let outcomes = of.outcomes(own);
        DeviceReport {
            uuid: facts.device.uuid.to_string(),
            instance: instance.map(|id| format!("{} id {id}", profile.unwrap_or("MIG"))),
            model: model.map(str::to_owned),
            node: facts.node.as_deref().map(str::to_owned),
            shared_with: holders.len() - pods.len(),
            pods: pods.into_iter().collect(),
            field: signal.and_then(SignalId::series_name).map(str::to_owned),
            owner_labels: owner.map(|owner| format!("{} and {}", owner.by.namespace, owner.by.pod)),
            scrape_seconds: seconds(times.map_or(0, |it| it.scrape_ms)),
            fresh_seconds: seconds(times.map_or(0, |it| it.fresh_ms)),
            newest: times.map(|it| it.newest.date()),
            cause: times.and_then(|it| Some(it.cause()?.to_string())),
            idle_since: self.idle(device, question),
            readings: outcomes.map(|it| explained(it, question.measure)).collect(),
        }
    }

    /// How long a held device has not been in use, as far back as the longest window.
    fn idle(&self, device: u32, question: &Question<'_>) -> Option<IdleTime> {
        let (inputs, now) = (Inputs::of(question.measure), question.now);
        Counts::of(*question.measure).active?;
        let span = self.span(Some(millis(self.policy.max_window)));
        let (mut since, mut or_longer) = (None, true);
        for instant in span.instants().rev() {
            let seen = self.read(device, inputs, &mut Span::at(instant));
            if seen.is_missing() {
                break;
            }
            let of_source = instant - self.holdings.behind(device);
            let mut claims = self.layout.claims_of(device);
            let is_held = claims.any(|claim| self.holdings.holds(claim, of_source));
            if seen.is_active() || !is_held {
                or_longer = false;
                since = since.or(is_held.then_some(now));
                break;
            }
            since = Some(seen.at);
        }
        Some(IdleTime {
            seconds: now.since(since?).as_secs_f64(),
            or_longer,
        })
    }
}

impl Explanation {
    /// Adds what was left out, and why. `unseen` GPUs of the object are named by no series.
    fn add_notes(&mut self, unseen: usize) {
        let unlisted = self.device_count - self.devices.len();
        if unlisted > 0 {
            let note = format!("devices counted and not listed: {unlisted}");
            self.notes.push(note);
        }
        if unseen > 0 {
            self.notes.push(format!(
                "{unseen} GPUs that pods request are named by no series: check dcgm-exporter on the nodes of these pods"
            ));
        }
        if self.devices.iter().any(|device| device.shared_with > 0) {
            self.notes.push(HOLDERS_UNNAMED.to_owned());
        }
        if self.promql.is_none() {
            self.notes.push(NO_PROMQL.to_owned());
        }
    }
}

fn explained(outcome: Outcome, measure: &Measure) -> ExplainedReading {
    let Outcome::Answers { reading, is_held } = outcome else {
        let mut nothing = ExplainedReading::default();
        if outcome == Outcome::Missing {
            nothing.state = DeviceState::Missing;
        }
        return nothing;
    };
    let counts = Counts::of(*measure);
    ExplainedReading {
        number: Some(reading.value),
        state: match reading.is_active() {
            _ if !is_held => DeviceState::Free,
            _ if counts.active.is_none() => DeviceState::Held,
            true => DeviceState::Active,
            false => DeviceState::Idle,
        },
        counted: counts.includes(&reading, is_held),
    }
}
