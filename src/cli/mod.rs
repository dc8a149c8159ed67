//! (cli)
