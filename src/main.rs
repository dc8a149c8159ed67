//! The thin binary: see [`gpu_metrics_apiserver::cli`].

fn main() {}
