//! Real servers and authorities for tests: the network fails, and is not mocked.

pub(crate) mod fake_prometheus;
