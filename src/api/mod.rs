//! (api)
