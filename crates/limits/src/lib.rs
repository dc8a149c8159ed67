//! Bounds on external input: the size of a file and the time to read it, and the parallel
//! work of one user.
//!
//! The server and its commands use it wherever they read or count external input. It is
//! independent of metrics and Kubernetes.
//!
//! ```
//! use limits::permits::Permits;
//!
//! let permits = Permits::new(2);
//! let held = permits.try_take("system:serviceaccount:ml:train");
//! assert!(held.is_some());
//! // One user has half of the permits at most.
//! assert!(permits.try_take("system:serviceaccount:ml:train").is_none());
//! ```

pub mod file;
pub mod permits;
