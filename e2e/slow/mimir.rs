//! Mimir as a single process.

use std::path::Path;

use crate::prometheus::free_port;
use crate::store::{Place, Store};

/// Starts it on the loopback interface only.
pub(crate) async fn start(program: &Path) -> Store {
    let name = "Mimir 3";
    let place = Place::new(name);
    let (port, grpc, gossip) = (free_port(), free_port(), free_port());
    let ring = "{kvstore: {store: inmemory}, instance_addr: 127.0.0.1}";
    let replicated =
        "{kvstore: {store: inmemory}, instance_addr: 127.0.0.1, replication_factor: 1}";
    let config = format!(
        "multitenancy_enabled: false
usage_stats: {{enabled: false}}
frontend: {{address: 127.0.0.1}}
server: {{http_listen_address: 127.0.0.1, http_listen_port: {port}, grpc_listen_address: 127.0.0.1, grpc_listen_port: {grpc}, log_level: warn}}
memberlist: {{bind_addr: [127.0.0.1], bind_port: {gossip}}}
common: {{storage: {{backend: filesystem, filesystem: {{dir: common}}}}}}
blocks_storage: {{filesystem: {{dir: blocks}}, tsdb: {{dir: tsdb}}, bucket_store: {{sync_dir: sync}}}}
ruler_storage: {{backend: filesystem, filesystem: {{dir: rules}}}}
alertmanager_storage: {{backend: filesystem, filesystem: {{dir: alerts}}}}
compactor: {{data_dir: compactor, sharding_ring: {ring}}}
distributor: {{ring: {ring}}}
ingester: {{ring: {replicated}}}
store_gateway: {{sharding_ring: {replicated}}}
"
    );
    let file = place.write("mimir.yml", &config);
    let base = format!("http://127.0.0.1:{port}");
    let arguments = [format!("-config.file={}", file.display())];
    let process = place.start(program, arguments, format!("{base}/ready"));
    Store::new(name, format!("{base}/prometheus"), vec![process.await])
}

/// Its remote-write address.
pub(crate) fn remote_write(mimir: &Store) -> String {
    let base = mimir.url.trim_end_matches("/prometheus");
    format!(
        "remote_write:\n- url: {base}/api/v1/push\n  queue_config: {{batch_send_deadline: 500ms}}\n"
    )
}
