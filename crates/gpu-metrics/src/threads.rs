//! Work on several threads, with the same result as on one.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// Fewer rows are computed on one thread, because starting another takes longer.
const FEW_ROWS: usize = 4_096;

/// The number of threads for a number of rows.
pub(crate) fn for_rows(rows: usize) -> usize {
    match rows {
        FEW_ROWS.. => available_parallelism().map_or(1, usize::from),
        _ => 1,
    }
}

/// The result of `compute` for each of `items`, in their order. The calling thread takes
/// part.
pub(crate) fn map<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    compute: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else {
                return done;
            };
            done.push((place, compute(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn few_rows_need_no_second_thread() {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!([0, 4095, 4096].map(super::for_rows), [1, 1, all]);
    }

    #[test]
    fn results_are_in_the_order_of_the_items_on_any_number_of_threads() {
        let items: Vec<u32> = (0..10_000).collect();
        let expected: Vec<u32> = (1..=10_000).collect();
        for threads in [1, 2, 7] {
            assert_eq!(super::map(&items, threads, |item| item + 1), expected);
        }
    }
}
