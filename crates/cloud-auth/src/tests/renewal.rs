//! Renewal of secrets; times are arguments, or of the paused clock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use http::HeaderValue;

use super::*;
use crate::authenticator::Credential;
use crate::renewal::{Issued, Renewed};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn failure() -> CloudAuthError {
    CloudAuthError::new("issuer", "refuses")
}

/// A token with a number for its text.
fn issued(number: u64, end: SystemTime) -> Issued {
    let credential = Credential::Token(HeaderValue::from(number));
    Issued { credential, end }
}

fn number(credential: Credential) -> u64 {
    match credential {
        Credential::Token(value) => value.to_str().unwrap().parse().unwrap(),
        Credential::Keys(_) => panic!("keys"),
    }
}

/// At a second: what the issuer answers, as a number and its end, and what a request gets;
/// `None`: a failure.
type Row = (u64, Option<(u64, u64)>, Option<u64>);

/// Checks what requests get if the wall clock shows the time `clock(second)`.
async fn assert_renewed(clock: impl Fn(u64) -> u64, rows: &[Row]) {
    let (renewed, start) = (Renewed::default(), Instant::now());
    for (second, answer, wanted) in rows {
        let then = start + Duration::from_secs(*second);
        tokio::time::advance(then - Instant::now()).await;
        let answer = answer.map(|(number, end)| issued(number, at(end)));
        let issue = async { answer.ok_or_else(failure) };
        let got = renewed.get(at(clock(*second)), issue).await.map(number);
        assert_eq!(got, wanted.ok_or_else(failure), "at {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_renewed_ahead_of_its_end_and_kept_until_then_if_that_fails() {
    let rows = [
        (0, Some((1, 3600)), Some(1)),
        (3299, Some((2, 9999)), Some(1)),
        (3300, None, Some(1)),
        // It is tried again after 30 s.
        (3329, Some((2, 9999)), Some(1)),
        (3330, None, Some(1)),
        (3599, None, Some(1)),
        (3600, Some((2, 9999)), None),
        (3629, None, None),
        (3630, Some((2, 9999)), Some(2)),
    ];
    assert_renewed(|second| second, &rows).await;
}

#[tokio::test(start_paused = true)]
async fn secrets_that_expire_soon_are_requested_every_half_minute() {
    let rows = [
        (0, Some((1, 100)), Some(1)),
        (79, Some((2, 100)), Some(1)),
        (80, Some((2, 100)), Some(2)),
        (89, Some((3, 100)), Some(2)),
        (100, Some((3, 200)), Some(3)),
    ];
    assert_renewed(|second| second, &rows).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_no_renewal_and_no_further_attempt() {
    let of_failure = [(0, None, None), (1, Some((1, 3600)), Some(1))];
    let due = [
        (0, Some((1, 3600)), Some(1)),
        (3300, Some((2, 9999)), Some(2)),
    ];
    for rows in [of_failure, due] {
        assert_renewed(|_| 0, &rows).await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_share_one_renewal_and_its_failure() {
    for fails in [false, true] {
        let (renewed, attempts) = (Renewed::default(), AtomicU32::new(0));
        let issue = || async {
            attempts.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            match fails {
                true => Err(failure()),
                false => Ok(issued(7, at(3600))),
            }
        };
        let get = || renewed.get(at(0), issue());
        let (one, other, third) = tokio::join!(get(), get(), get());
        for result in [one, other, third] {
            assert_eq!(result.is_err(), fails);
        }
        assert_eq!(attempts.into_inner(), 1);
    }
}
