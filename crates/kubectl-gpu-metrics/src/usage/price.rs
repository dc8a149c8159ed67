//! What a GPU costs in an hour.

use std::fs;

/// Prices by a word of the model; the empty word is of all models.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prices(Vec<(String, f64)>);

impl Prices {
    /// Parses `2.5`, `H100=2.5,A100=1.8`, or the path of a file with such lines.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_written = text.contains('=') || text.parse::<f64>().is_ok();
        let read;
        let text = match is_written {
            true => text,
            false => {
                let failed = |error| format!("{text}: {error}: write H100=2.5, or name a file");
                read = fs::read_to_string(text).map_err(failed)?;
                &read
            }
        };
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default());
        let entries = lines.flat_map(|line| line.split(',')).map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        let prices: Result<Vec<_>, _> = entries.map(price).collect();
        prices.map(Self)
    }

    /// The price of a model, by the longest word that is in its name; `None`: unknown.
    pub(super) fn of(&self, model: Option<&str>) -> Option<f64> {
        let model = model.unwrap_or_default().to_lowercase();
        let known = self.0.iter().filter(|(word, _)| model.contains(word));
        let longest = known.max_by_key(|(word, _)| word.len());
        longest.map(|(_, price)| *price)
    }
}

fn price(entry: &str) -> Result<(String, f64), String> {
    let (word, price) = entry.split_once('=').unwrap_or(("", entry));
    let number = price.trim().parse().ok();
    let number = number.filter(|it| (0.0..1e9).contains(it));
    let number = number.ok_or_else(|| format!("{entry}: write a number such as 2.5"))?;
    Ok((word.trim().to_lowercase(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_found_by_the_longest_word_of_the_model() {
        let prices = Prices::parse("H100=2.5, a100=1.8,A100-SXM4-40GB=1.2").unwrap();
        for (model, price) in [
            (Some("NVIDIA H100 80GB HBM3"), Some(2.5)),
            (Some("NVIDIA A100-SXM4-40GB"), Some(1.2)),
            (Some("NVIDIA A100-SXM4-80GB"), Some(1.8)),
            (Some("NVIDIA L4"), None),
            (None, None),
        ] {
            assert_eq!(prices.of(model), price, "{model:?}");
        }
        assert_eq!(Prices::parse("3").unwrap().of(None), Some(3.0));
        for wrong in ["H100=x", "H100=-1", "H100=NaN", "/nowhere/prices"] {
            assert!(Prices::parse(wrong).is_err(), "{wrong}");
        }
    }
}
