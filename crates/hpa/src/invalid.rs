//! Why a HorizontalPodAutoscaler is invalid.

/// Why a specification is invalid. The API server refuses such objects, but a file may
/// not have passed one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHpa {
    /// A field that the type of the metric needs.
    #[error("{0} is missing")]
    Missing(String),
    /// Not a quantity above zero.
    #[error("{place}: {text:?} is no quantity above zero")]
    Quantity {
        /// The field.
        place: String,
        /// The text.
        text: String,
    },
    /// Not a word of a closed set.
    #[error("{place}: {text:?} is not known; {allowed}")]
    Word {
        /// The field.
        place: String,
        /// The text.
        text: String,
        /// The allowed words.
        allowed: &'static str,
    },
}

/// The error of a word that is not of a closed set.
pub(super) fn unknown(place: String, text: &str, allowed: &'static str) -> InvalidHpa {
    InvalidHpa::Word {
        place,
        text: text.to_owned(),
        allowed,
    }
}
