//! Bounds on external input: the size of a file and the time to read it, and the parallel
//! work of one user.
//!
//! The server and its commands use it wherever they read or count external input. It is
//! independent of metrics and Kubernetes.

pub mod file;
pub mod permits;
