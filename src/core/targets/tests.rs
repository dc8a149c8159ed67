//! Horizons, lags, distances, silence.

use super::super::batch::Sample;
use super::super::signal::SignalId;
use super::super::time::Timestamp;
use super::super::timing::{ASSUMED, Overrides};
use super::{MOST_CADENCES, TargetId, Targets, View};

const POLL: i64 = 15_000;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + secs)
}

/// Targets of one source that are scraped every 15 s from time zero on.
struct Fleet {
    targets: Targets,
    ids: Vec<TargetId>,
}

impl Fleet {
    fn new(count: usize) -> Self {
        let mut targets = Targets::new(Overrides {
            scrape_interval: Some(std::time::Duration::from_secs(15)),
            exporter_interval: Some(std::time::Duration::from_secs(15)),
            freshness: None,
        });
        let register = |index| targets.register(0, &"".into(), &format!("t{index}").into());
        let ids = (0..count).map(register).collect();
        Self { targets, ids }
    }

    /// The newest scrape of each target is as given, read at `now`.
    fn read(&mut self, newest: &[i64], now: i64) {
        for (id, secs) in self.ids.iter().zip(newest) {
            let sample = Sample {
                at: at(*secs),
                value: 1.0,
            };
            self.targets.take(*id, &[sample]);
        }
        self.targets.advance(at(now), POLL);
    }

    fn view(&self, now: i64) -> View {
        self.targets.view(at(now), POLL, Timestamp::MIN)
    }

    fn horizon(&self) -> i64 {
        self.view(0).sources[0].horizon.secs() - 1_000_000
    }
}

#[test]
fn one_clock_that_is_ahead_moves_no_horizon_and_it_never_goes_back() {
    let mut fleet = Fleet::new(4);
    fleet.read(&[10, 11, 12, 50], 50);
    assert_eq!(fleet.horizon(), 12);
    fleet.read(&[25, 26, 27, 65], 65);
    assert_eq!(fleet.horizon(), 27);
    fleet.read(&[25, 26, 27, 80], 80);
    assert_eq!(fleet.horizon(), 27);
}

#[test]
fn targets_that_left_hold_back_nobody() {
    let mut fleet = Fleet::new(30);
    let mut newest = vec![0; 30];
    for now in (0..=90).step_by(15) {
        newest[0] = now;
        fleet.read(&newest, now);
    }
    assert_eq!(fleet.horizon(), 90);
    assert_eq!(fleet.view(90).sources[0].lag_ms, 0);
}

#[test]
fn a_store_that_is_late_is_usual_and_silences_nobody() {
    let mut fleet = Fleet::new(2);
    for now in (60..=150).step_by(15) {
        fleet.read(&[now - 60, now - 60], now);
    }
    let view = fleet.view(150);
    assert_eq!(view.sources[0].lag_ms, 60_000);
    // F + lag + poll after the horizon of second 90.
    assert!(!fleet.view(209).targets[0].silent);
    assert!(fleet.view(211).targets[0].silent);
}

#[test]
fn a_target_is_silent_once_it_is_f_and_its_usual_distance_behind() {
    let mut fleet = Fleet::new(3);
    for now in (20..=80).step_by(15) {
        fleet.read(&[now, now, now - 20], now);
    }
    assert_eq!(fleet.view(80).targets[2].distance_ms, 20_000);
    assert_eq!(fleet.view(80).targets[2].hold_ms(), 65_000);
    for now in (95..=110).step_by(15) {
        fleet.read(&[now, now, 60], now);
    }
    assert!(!fleet.view(110).targets[2].silent);
    // An instant at the horizon would hold its reading no more.
    fleet.read(&[125, 125, 60], 125);
    assert!(fleet.view(125).targets[2].silent);
    assert!(!fleet.view(125).targets[0].silent);
}

#[test]
fn who_is_back_first_after_an_outage_is_not_held_back_by_the_others() {
    let mut fleet = Fleet::new(3);
    fleet.read(&[0, 1, 2], 5);
    fleet.read(&[15, 16, 17], 20);
    // All were away, and come later than before.
    fleet.read(&[15, 16, 400], 480);
    assert_eq!(fleet.horizon(), 400);
    let view = fleet.view(480);
    assert!(view.targets[0].silent && view.targets[1].silent);
}

#[test]
fn one_that_comes_as_late_as_ever_is_heard_though_its_leader_has_gone() {
    let mut fleet = Fleet::new(2);
    for now in (60..=150).step_by(15) {
        fleet.read(&[now, now - 60], now);
    }
    assert_eq!(fleet.view(150).targets[1].distance_ms, 60_000);
    for now in (165..=210).step_by(15) {
        fleet.read(&[150, now - 60], now);
    }
    // F and a poll after the newest of the two.
    let view = fleet.view(212);
    assert!(view.targets[0].silent && !view.targets[1].silent);
}

#[test]
fn a_horizon_that_stands_brings_nobody_nearer() {
    let mut fleet = Fleet::new(2);
    for now in (120..=240).step_by(15) {
        fleet.read(&[now, now - 110], now);
    }
    // Its leader has gone; it needs seven scrapes to come up with it.
    for now in (255..=345).step_by(15) {
        fleet.read(&[240, now - 110], now);
        assert_eq!(fleet.horizon(), 240);
        assert_eq!(fleet.view(now).targets[1].distance_ms, 110_000);
        assert!(!fleet.view(now).targets[1].silent, "{now}");
    }
    fleet.read(&[240, 250], 360);
    assert_eq!(fleet.horizon(), 250);
}

#[test]
fn a_clock_that_is_ahead_in_a_late_store_does_not_lead_whenever_the_others_come_near() {
    let mut fleet = Fleet::new(3);
    for now in (60..=600).step_by(15) {
        fleet.read(&[now - 10, now - 52, now - 52], now);
        // It was alone at first, and the horizon never goes back.
        assert_eq!(fleet.horizon(), 50.max(now - 52));
    }
}

#[test]
fn what_comes_late_after_an_outage_leads_nobody() {
    let mut fleet = Fleet::new(3);
    for now in (0..=60).step_by(15) {
        fleet.read(&[now, now, now], now);
    }
    // Of before the outage, read after it.
    fleet.read(&[61, 60, 60], 160);
    assert_eq!(fleet.horizon(), 60);
}

#[test]
fn what_a_stall_held_back_is_no_usual_distance() {
    let mut fleet = Fleet::new(3);
    for now in (15..=60).step_by(15) {
        fleet.read(&[now, now, now], now);
    }
    // The first stopped in the midst of it.
    fleet.read(&[180, 300, 300], 300);
    let view = fleet.view(300);
    assert_eq!(view.targets[0].distance_ms, 0);
    assert!(view.targets[0].silent && !view.targets[1].silent);
}

#[test]
fn a_sample_that_is_no_number_is_no_scrape() {
    let mut fleet = Fleet::new(1);
    fleet.read(&[0], 0);
    let sample = |secs, value| Sample {
        at: at(secs),
        value,
    };
    let lost = |secs| sample(secs, f64::NAN);
    fleet.targets.take(fleet.ids[0], &[lost(15), lost(30)]);
    assert_eq!(fleet.view(30).targets[0].newest, at(0));
    // Nor does one hide the scrape before it.
    let scraped = sample(45, 1.0);
    fleet.targets.take(fleet.ids[0], &[scraped, lost(60)]);
    assert_eq!(fleet.view(60).targets[0].newest, at(45));
}

#[test]
fn two_outages_of_one_length_are_no_rhythm() {
    let mut targets = Targets::new(Overrides::default());
    let id = targets.register(0, &"".into(), &"t".into());
    let outage = |scrape: i64| 300 * i64::from(scrape > 5) + 300 * i64::from(scrape > 10);
    let sample = |scrape: i64| Sample {
        at: at(15 * scrape + outage(scrape)),
        value: 1.0,
    };
    targets.take(id, &(0..15).map(sample).collect::<Vec<_>>());
    targets.learn();
    assert_eq!(targets.fresh_ms(id), 75_000);
}

#[test]
fn what_was_first_seen_says_nothing_of_lag() {
    let mut fleet = Fleet::new(1);
    fleet.read(&[0], 100);
    assert_eq!(fleet.view(100).sources[0].lag_ms, 0);
    assert!(!fleet.targets.have_advanced(1));
    fleet.read(&[15], 101);
    assert_eq!(fleet.view(101).sources[0].lag_ms, 86_000);
    assert!(fleet.targets.have_advanced(1));
}

#[test]
fn a_new_target_has_the_commonest_cadence_of_its_job() {
    let mut targets = Targets::new(Overrides::default());
    for (index, scrape) in [60, 60, 15].into_iter().enumerate() {
        let id = targets.register(0, &"".into(), &format!("t{index}").into());
        let sample = |scrapes: i64| Sample {
            at: at(scrapes * scrape),
            value: 1.0,
        };
        targets.take(id, &(0..5).map(sample).collect::<Vec<_>>());
    }
    targets.learn();
    assert!(targets.have_changed() && !targets.have_changed());
    let id = targets.register(0, &"".into(), &"new".into());
    assert_eq!(targets.timing_of(id).scrape_ms, 60_000);
    assert!(!targets.is_known(id));
    let other = targets.register(1, &"".into(), &"new".into());
    assert_eq!(targets.timing_of(other), ASSUMED);
    // Known before anything was common.
    let early = Sample {
        at: at(0),
        value: 1.0,
    };
    targets.take(other, &[early]);
    let slow = targets.register(1, &"".into(), &"slow".into());
    let sample = |scrapes: i64| Sample {
        at: at(scrapes * 60),
        value: 1.0,
    };
    targets.take(slow, &(0..5).map(sample).collect::<Vec<_>>());
    targets.learn();
    assert_eq!(targets.timing_of(other).scrape_ms, 60_000);
}

#[test]
fn at_most_eight_cadences_of_a_job_are_told_of() {
    let mut targets = Targets::new(Overrides::default());
    for scrape in 1..=20 {
        let id = targets.register(0, &"".into(), &format!("t{scrape}").into());
        let sample = |scrapes: i64| Sample {
            at: at(scrapes * scrape * 10),
            value: 1.0,
        };
        targets.take(id, &(0..5).map(sample).collect::<Vec<_>>());
    }
    targets.learn();
    assert_eq!(targets.cadences(0).len(), MOST_CADENCES);
}

#[test]
fn readings_that_stand_still_while_a_gpu_is_busy_are_unknown() {
    let mut fleet = Fleet::new(1);
    let id = fleet.ids[0];
    fleet.read(&[0], 0);
    let frozen = |fleet: &Fleet, now| fleet.view(now).targets[0].frozen_since;
    fleet
        .targets
        .movement(id)
        .unwrap()
        .moved(SignalId::POWER_USAGE, at(0));
    fleet.targets.busy(id, at(590));
    fleet.read(&[590], 590);
    let power_read = |fleet: &mut Fleet, second| {
        let movement = fleet.targets.movement(id).unwrap();
        movement.read(SignalId::POWER_USAGE, at(second));
    };
    power_read(&mut fleet, 0);
    assert_eq!(frozen(&fleet, 590), None);
    fleet.read(&[600], 600);
    assert_eq!(frozen(&fleet, 600), None, "nobody reads its power");
    power_read(&mut fleet, 590);
    fleet.read(&[605], 605);
    assert_eq!(frozen(&fleet, 605), Some(at(0)));
    assert!(fleet.view(605).targets[0].silent);
    fleet
        .targets
        .movement(id)
        .unwrap()
        .moved(SignalId::FB_USED, at(620));
    fleet.read(&[620], 620);
    assert_eq!(frozen(&fleet, 620), None);
}

#[test]
fn sources_are_told_apart_however_many_there_are_and_their_places_used_again() {
    let mut targets = Targets::new(Overrides::default());
    let external =
        |number: u32| -> std::sync::Arc<str> { format!("dcgm{{cluster={number}}}").into() };
    let instance = "node:9400".into();
    let signal = SignalId::GPU_UTIL;
    let ids: Vec<TargetId> = (0..20_000)
        .map(|number| targets.register(0, &external(number), &instance))
        .collect();
    targets.report(ids[7], signal, at(0));
    let reports = |targets: &Targets, number| {
        let id = targets.find(0, &external(number), &instance);
        id.is_some_and(|id| targets.reports(id, signal, at(0)))
    };
    assert!(reports(&targets, 7) && !reports(&targets, 8));
    assert_eq!(targets.register(0, &external(7), &instance), ids[7]);
    targets.release(ids[7]);
    targets.release(ids[7]);
    assert!(!reports(&targets, 7));
    targets.register(0, &external(20_000), &instance);
    let view = targets.view(at(0), POLL, at(0));
    assert_eq!(view.sources.len(), 20_000);
}
