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

struct Scene {
    renewed: Renewed,
    start: Instant,
}

impl Scene {
    fn new() -> Self {
        Self {
            renewed: Renewed::default(),
            start: Instant::now(),
        }
    }

    /// Gets the secret at a time in seconds; `issued` is the issuer's answer.
    async fn get(
        &self,
        second: u64,
        issued: Result<(u64, u64), CloudAuthError>,
    ) -> Result<u64, CloudAuthError> {
        self.get_with_clock(second, at(second), issued).await
    }

    async fn get_with_clock(
        &self,
        second: u64,
        clock: SystemTime,
        answer: Result<(u64, u64), CloudAuthError>,
    ) -> Result<u64, CloudAuthError> {
        let then = self.start + Duration::from_secs(second);
        tokio::time::advance(then - Instant::now()).await;
        let issue = async { answer.map(|(number, end)| issued(number, at(end))) };
        self.renewed.get(clock, issue).await.map(number)
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_renewed_ahead_of_its_end_and_kept_until_then_if_that_fails() {
    let scene = Scene::new();
    assert_eq!(scene.get(0, Ok((1, 3600))).await, Ok(1));
    assert_eq!(scene.get(3299, Ok((2, 9999))).await, Ok(1), "not due");
    assert_eq!(scene.get(3300, Err(failure())).await, Ok(1));
    // It is tried again after 30 s.
    assert_eq!(scene.get(3329, Ok((2, 9999))).await, Ok(1));
    assert_eq!(scene.get(3330, Err(failure())).await, Ok(1));
    assert_eq!(scene.get(3599, Err(failure())).await, Ok(1));
    let ended = scene.get(3600, Ok((2, 9999))).await;
    assert_eq!(ended, Err(failure()));
    assert_eq!(scene.get(3629, Err(failure())).await, Err(failure()));
    assert_eq!(scene.get(3630, Ok((2, 9999))).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn secrets_that_expire_soon_are_requested_every_half_minute() {
    let scene = Scene::new();
    assert_eq!(scene.get(0, Ok((1, 100))).await, Ok(1));
    assert_eq!(scene.get(79, Ok((2, 100))).await, Ok(1));
    assert_eq!(scene.get(80, Ok((2, 100))).await, Ok(2));
    assert_eq!(scene.get(89, Ok((3, 100))).await, Ok(2));
    assert_eq!(scene.get(100, Ok((3, 200))).await, Ok(3));
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

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_no_renewal_and_no_further_attempt() {
    let back = SystemTime::UNIX_EPOCH;
    let scene = Scene::new();
    assert_eq!(scene.get(0, Err(failure())).await, Err(failure()));
    let next = scene.get_with_clock(1, back, Ok((1, 3600))).await;
    assert_eq!(next, Ok(1));
    let scene = Scene::new();
    assert_eq!(scene.get(0, Ok((1, 3600))).await, Ok(1));
    let due = scene.get_with_clock(3300, back, Ok((2, 9999))).await;
    assert_eq!(due, Ok(2));
}
