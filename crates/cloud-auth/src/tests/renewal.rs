//! Renewal of secrets; times are arguments.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::*;
use crate::renewal::{Issued, Renewed};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn failure() -> CloudAuthError {
    CloudAuthError::NoRegion
}

/// Gets the secret at a time in seconds; `issued` is the issuer's answer.
async fn get(
    renewed: &Renewed<u32>,
    second: u64,
    issued: Result<(u32, u64), CloudAuthError>,
) -> Result<u32, CloudAuthError> {
    let issue = || async {
        issued.map(|(secret, end)| Issued {
            secret,
            end: Some(at(end)),
        })
    };
    renewed
        .get(|| at(second), issue)
        .await
        .map(|held| held.secret)
}

#[tokio::test]
async fn a_secret_is_renewed_ahead_of_its_end_and_kept_until_then_if_that_fails() {
    let renewed = Renewed::default();
    assert_eq!(get(&renewed, 0, Ok((1, 3600))).await, Ok(1));
    assert_eq!(get(&renewed, 3299, Ok((2, 9999))).await, Ok(1), "not due");
    assert_eq!(get(&renewed, 3300, Err(failure())).await, Ok(1));
    // It is tried again after 30 s.
    assert_eq!(get(&renewed, 3329, Ok((2, 9999))).await, Ok(1));
    assert_eq!(get(&renewed, 3330, Err(failure())).await, Ok(1));
    assert_eq!(get(&renewed, 3599, Err(failure())).await, Ok(1));
    let ended = get(&renewed, 3600, Err(failure())).await;
    assert_eq!(ended, Err(failure()));
    assert_eq!(get(&renewed, 3601, Ok((2, 9999))).await, Ok(2));
}

#[tokio::test]
async fn secrets_that_expire_soon_are_requested_every_half_minute() {
    let renewed = Renewed::default();
    assert_eq!(get(&renewed, 0, Ok((1, 100))).await, Ok(1));
    assert_eq!(get(&renewed, 79, Ok((2, 100))).await, Ok(1));
    assert_eq!(get(&renewed, 80, Ok((2, 100))).await, Ok(2));
    assert_eq!(get(&renewed, 89, Ok((3, 100))).await, Ok(2));
    assert_eq!(get(&renewed, 100, Ok((3, 200))).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_share_one_renewal_and_its_failure() {
    for fails in [false, true] {
        let (renewed, issued) = (Renewed::default(), AtomicU32::new(0));
        let issue = || async {
            issued.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            match fails {
                true => Err(failure()),
                false => Ok(Issued {
                    secret: 7_u32,
                    end: None,
                }),
            }
        };
        let get = || renewed.get(|| at(0), issue);
        let (one, other, third) = tokio::join!(get(), get(), get());
        for result in [one, other, third] {
            assert_eq!(result.is_err(), fails);
        }
        assert_eq!(issued.into_inner(), 1);
    }
}

#[tokio::test]
async fn a_refused_secret_is_renewed_if_it_is_old() {
    let renewed = Renewed::default();
    assert_eq!(get(&renewed, 0, Ok((1, 3600))).await, Ok(1));
    renewed.refused(at(299));
    assert_eq!(get(&renewed, 299, Ok((2, 3600))).await, Ok(1));
    renewed.refused(at(300));
    assert_eq!(get(&renewed, 300, Ok((2, 3600))).await, Ok(2));
}
