//! (simulator)
