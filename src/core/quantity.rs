//! Kubernetes quantities: the exact text a value has on the wire.
