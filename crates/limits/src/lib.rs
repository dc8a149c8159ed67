//! Bounds on what others can cause: the size of a file and the time that reading
//! it takes, how much one user may do at a time, how many lines are logged.
//!
//! The server and its commands use it wherever something from outside is read or
//! counted. It knows no metric and no Kubernetes.
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
pub mod line_limit;
pub mod permits;
