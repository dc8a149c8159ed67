//! (serve)
