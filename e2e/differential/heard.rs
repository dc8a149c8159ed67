//! Where the targets of a snapshot's devices stand.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_metrics_apiserver::core::snapshot::Snapshot;
use gpu_metrics_apiserver::core::targets::TargetView;

use super::reference::{self, Heard};

/// Where the target of each row stands: of several the one that is heard, and of
/// those the first by name, as in the server.
pub(super) fn heard(snapshot: &Snapshot) -> BTreeMap<reference::RowKey, Heard> {
    let view = snapshot.frame().view();
    let text = |text: &Arc<str>| text.to_string();
    let mut heard = BTreeMap::new();
    for facts in snapshot.layout().facts().flatten() {
        let row = &facts.row;
        let targets = || row.targets.iter().map(|id| &view.targets[id.0 as usize]);
        let Some(target) = targets().min_by_key(|target| (target.silent, target.rank)) else {
            continue;
        };
        let device = &row.device;
        let device = (
            text(&device.uuid),
            device.instance.as_ref().map(text),
            device.profile.as_ref().map(text),
        );
        let owner = row.owner.as_ref();
        let owner = owner.map(|of| {
            (
                text(&of.namespace),
                text(&of.pod),
                of.container.as_ref().map(text),
            )
        });
        let source = view.sources[usize::from(target.source)];
        let others = targets().filter(|other| !other.silent);
        let late = |of: &TargetView| {
            let source = view.sources[usize::from(of.source)];
            of.distance_ms + source.lag_ms
        };
        let others = others.map(late);
        let stands = Heard {
            source: target.source,
            horizon: source.horizon.millis(),
            lag_ms: source.lag_ms,
            distance_ms: target.distance_ms,
            latest_ms: others.fold(late(target), i64::max),
            newest: target.newest.millis(),
            silent: target.silent,
        };
        heard.insert((device, owner), stands);
    }
    heard
}
