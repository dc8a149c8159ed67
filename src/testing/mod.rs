//! Real servers and authorities for tests: the network fails, and is not mocked.

pub(crate) mod authority;
pub(crate) mod fake_kube;
pub(crate) mod fake_prometheus;
pub(crate) mod fake_registry;
pub(crate) mod fake_reviewer;
pub(crate) mod log;
pub(crate) mod test_server;
