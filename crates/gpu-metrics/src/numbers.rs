//! A list of readings in the fewest bytes that hold each of them exactly.
//!
//! Most readings are whole percents, whole mebibytes, or watts with three to six digits
//! after the point.

/// How many numbers a full list grows by: doubling would leave a third of it empty.
const GROWTH: usize = 32;

/// The factors of [`Numbers::Fixed`], smallest first.
const UNITS: [f64; 2] = [1e3, 1e6];

/// A list of numbers, any of which may be NaN.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// Whole numbers from 0 to 254. `u8::MAX` stands for NaN.
    Small(Vec<u8>),
    /// Fixed-point numbers: the value times the second field. `u32::MAX` stands for NaN.
    Fixed(Vec<u32>, f64),
    Exact(Vec<f64>),
}

impl Default for Numbers {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Numbers {
    #[inline]
    pub(super) fn get(&self, place: usize) -> f64 {
        match self {
            Self::Small(numbers) => of_small(numbers[place]),
            Self::Fixed(numbers, parts) => of_fixed(numbers[place], *parts),
            Self::Exact(numbers) => numbers[place],
        }
    }

    /// Replaces the number at a place.
    pub(super) fn set(&mut self, place: usize, value: f64) {
        self.widen(value);
        match self {
            Self::Small(numbers) => numbers[place] = small(value).unwrap_or(u8::MAX),
            Self::Fixed(numbers, parts) => {
                numbers[place] = fixed(value, *parts).unwrap_or(u32::MAX);
            }
            Self::Exact(numbers) => numbers[place] = value,
        }
    }

    /// Inserts a number before a place.
    pub(super) fn insert(&mut self, place: usize, value: f64) {
        self.widen(value);
        match self {
            Self::Small(numbers) => insert(numbers, place, small(value).unwrap_or(u8::MAX)),
            Self::Fixed(numbers, parts) => {
                insert(numbers, place, fixed(value, *parts).unwrap_or(u32::MAX));
            }
            Self::Exact(numbers) => insert(numbers, place, value),
        }
    }

    pub(super) fn remove(&mut self, place: usize) {
        match self {
            Self::Small(numbers) => {
                numbers.remove(place);
            }
            Self::Fixed(numbers, _) => {
                numbers.remove(place);
            }
            Self::Exact(numbers) => {
                numbers.remove(place);
            }
        }
    }

    /// Changes the form to the smallest one that also holds a value.
    #[inline]
    fn widen(&mut self, value: f64) {
        let holds = match self {
            Self::Small(_) => small(value).is_some(),
            Self::Fixed(_, parts) => fixed(value, *parts).is_some(),
            Self::Exact(_) => true,
        };
        if !holds {
            *self = self.wider(value);
        }
    }

    #[cold]
    fn wider(&self, value: f64) -> Self {
        let len = match self {
            Self::Small(numbers) => numbers.len(),
            Self::Fixed(numbers, _) => numbers.len(),
            Self::Exact(numbers) => numbers.len(),
        };
        let all = || (0..len).map(|place| self.get(place));
        let holds = |parts: &f64| {
            let mut all = all().chain([value]);
            all.all(|value| fixed(value, *parts).is_some())
        };
        let Some(parts) = UNITS.into_iter().find(holds) else {
            return Self::Exact(all().collect());
        };
        let numbers = all().map(|value| fixed(value, parts).unwrap_or(u32::MAX));
        Self::Fixed(numbers.collect(), parts)
    }
}

/// Inserts into a list. A full list grows by [`GROWTH`] elements.
pub(super) fn insert<T>(list: &mut Vec<T>, place: usize, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(GROWTH);
    }
    list.insert(place, item);
}

/// A number as one byte; `None`: one byte does not hold it exactly.
#[inline]
fn small(value: f64) -> Option<u8> {
    let number = if value.is_nan() { u8::MAX } else { value as u8 };
    is_same(of_small(number), value).then_some(number)
}

#[inline]
fn of_small(number: u8) -> f64 {
    match number {
        u8::MAX => f64::NAN,
        _ => f64::from(number),
    }
}

#[inline]
fn fixed(value: f64, parts: f64) -> Option<u32> {
    let number = match value.is_nan() {
        true => u32::MAX,
        false => (value * parts + 0.5) as u32,
    };
    is_same(of_fixed(number, parts), value).then_some(number)
}

/// The quotient is rounded to the nearest number, as the parser of decimal text does.
#[inline]
fn of_fixed(number: u32, parts: f64) -> f64 {
    match number {
        u32::MAX => f64::NAN,
        _ => f64::from(number) / parts,
    }
}

fn is_same(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            (0_u32..300).prop_map(f64::from),
            (0_u32..200_000).prop_map(f64::from),
            (0_u32..6_000_000).prop_map(|watts| f64::from(watts) / 1e3),
            (0_u32..).prop_map(|watts| f64::from(watts) / 1e6),
            Just(f64::NAN),
            Just(-0.0),
            any::<f64>(),
        ]
    }

    #[test]
    fn readings_of_each_kind_take_few_bytes() {
        let of = |values: &[f64]| {
            let mut numbers = Numbers::default();
            for value in values {
                numbers.insert(0, *value);
            }
            numbers
        };
        assert!(matches!(of(&[0.0, 100.0, f64::NAN]), Numbers::Small(_)));
        let memory = of(&[81_920.0, f64::NAN, 3.0]);
        assert!(matches!(memory, Numbers::Fixed(_, parts) if parts == 1e3));
        let watts = of(&[71.223, 371.224_567]);
        assert!(matches!(watts, Numbers::Fixed(_, parts) if parts == 1e6));
        assert!(matches!(of(&[1.0, 0.1 + 0.2]), Numbers::Exact(_)));
    }

    proptest! {
        #[test]
        fn each_number_comes_back_bit_by_bit(
            changes in prop::collection::vec((0_u8..4, any::<prop::sample::Index>(), number()), 0..100),
        ) {
            let (mut numbers, mut list) = (Numbers::default(), Vec::new());
            for (kind, place, value) in changes {
                match kind {
                    0 if !list.is_empty() => {
                        let place = place.index(list.len());
                        numbers.remove(place);
                        list.remove(place);
                    }
                    1 if !list.is_empty() => {
                        let place = place.index(list.len());
                        numbers.set(place, value);
                        list[place] = value;
                    }
                    _ => {
                        let place = place.index(list.len() + 1);
                        numbers.insert(place, value);
                        list.insert(place, value);
                    }
                }
                let mut all = list.iter().enumerate();
                prop_assert!(all.all(|(place, value)| is_same(numbers.get(place), *value)));
            }
        }
    }
}
