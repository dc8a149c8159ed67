//! Rows of `top`: from lists of the custom metrics API, one for each column, and from
//! objects that request GPUs and have no value.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};

use apimachinery::kinds::Kind;
use apimachinery::quantity::parse_milli;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use cluster_state::error::CallError;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::{Device, Explanation, State};

use crate::Failure;
use crate::cluster::{Cluster, encode};
use crate::explain::failure;
use crate::kinds;
use crate::values::{Item, List, names, of_object};

use super::objects::Objects;
use super::rows::{Idle, Row};
use super::{TopArgs, What};

/// Kinds that own pods.
const WORKLOADS: [&str; 5] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
];

/// Most rows of a namespace whose newest instant is read, each with a request. All
/// nodes are read, because their explanations count the GPUs.
const MOST_INSTANTS: usize = 100;

/// How many are read concurrently.
const SIDE_BY_SIDE: usize = 8;

/// A column: its metric, and the field that takes the value.
type Put = fn(&mut Row, f64);

const COLUMNS: [(&str, Put); 7] = [
    ("gpu_held_count", |row, number| row.held = Some(number)),
    ("gpu_active_count", |row, number| row.active = Some(number)),
    ("gpu_idle_count", |row, number| row.idle = Some(number)),
    (MEMORY_UTILIZATION, |row, number| {
        row.memory_utilization = Some(number);
    }),
    ("gpu_utilization", |row, number| {
        row.gpu_utilization = Some(number);
    }),
    ("gpu_memory_used", |row, number| {
        row.memory_used = Some(number);
    }),
    ("gpu_power_usage", |row, number| row.power = Some(number)),
];

impl What {
    /// The resources of the rows' objects, or of those that lead to them.
    const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Namespaces => &["namespaces"],
            Self::Nodes | Self::Gpus => &["nodes"],
            Self::Workloads => &WORKLOADS,
            Self::Pods => &["pods"],
        }
    }
}

/// The rows, and remarks on what is missing.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: BTreeSet<String>,
    /// Whether an explanation could not be read.
    pub(super) is_partial: bool,
    /// Why whole kinds have no rows.
    empty: BTreeSet<String>,
    /// What the user may not read.
    refused: BTreeSet<String>,
}

/// The requested rows, by namespace and name.
pub(crate) async fn rows(args: &TopArgs, cluster: &Cluster) -> Result<Found, Failure> {
    let objects = Objects::read(args, cluster).await?;
    let mut found = Found {
        notes: objects.notes.clone(),
        ..Found::default()
    };
    let namespaces: Vec<Option<String>> = match args.what.is_namespaced() {
        true => {
            let namespaces = found.namespaces(args, cluster, &objects).await?;
            namespaces.into_iter().map(Some).collect()
        }
        false => vec![None],
    };
    for namespace in &namespaces {
        for &kind in args.what.kinds() {
            found
                .add(args, cluster, (namespace.as_deref(), kind), &objects)
                .await?;
        }
    }
    if found.rows.is_empty()
        && let Some(refusal) = found.refused.pop_first()
    {
        return Err(Failure::Refused(refusal));
    }
    found.notes.append(&mut found.refused);
    if let (Some(name), true) = (&args.name, args.what != What::Gpus) {
        let is_it = |row: &Row| row.name == *name || row.name.ends_with(&format!("/{name}"));
        found.rows.retain(is_it);
        if found.rows.is_empty() {
            found.notes.insert(rowless(args, cluster, name).await?);
        }
    } else if found.rows.is_empty() {
        let namespaced = args.what.is_namespaced() && !args.all_namespaces;
        let namespace = namespaced.then_some(&*cluster.namespace);
        let said = nothing(namespace, args.selector.as_deref());
        found.notes.insert(said);
        found.notes.append(&mut found.empty);
    }
    found.newest(args.what, cluster).await;
    Ok(found)
}

/// The namespace of a name, if it has one, and the name as in rows: `ml/train-0` of
/// pods; of workloads also `deploy/train` and `ml/deploy/train`.
pub(crate) fn named(what: What, name: &str) -> (Option<String>, String) {
    let own = || (None, name.to_owned());
    let Some((before, bare)) = name.rsplit_once('/') else {
        return own();
    };
    match what {
        What::Pods => (Some(before.to_owned()), bare.to_owned()),
        What::Workloads => {
            let (namespace, kind) = match before.rsplit_once('/') {
                Some((namespace, kind)) => (Some(namespace), kind),
                None => (None, before),
            };
            let known = kinds::known();
            let resource = known.of_request(kind).map(Kind::resource);
            match resource.filter(|it| WORKLOADS.contains(&&**it)) {
                Some(resource) => (namespace.map(str::to_owned), format!("{resource}/{bare}")),
                None => (Some(before.to_owned()), bare.to_owned()),
            }
        }
        What::Namespaces | What::Nodes | What::Gpus => own(),
    }
}

/// The text in place of an empty table; `namespace` is the one that was searched.
fn nothing(namespace: Option<&str>, selector: Option<&str>) -> String {
    let labels = selector.map_or_else(String::new, |it| format!(" with the labels {it}"));
    match namespace {
        Some(namespace) => format!(
            "nothing in namespace {namespace}{labels} holds GPUs that are reported, or asks for them: -A looks at all namespaces"
        ),
        None => {
            format!("nothing in the cluster{labels} holds GPUs that are reported, or asks for them")
        }
    }
}

/// Why a named object has no row. Fails if the object does not exist.
async fn rowless(args: &TopArgs, cluster: &Cluster, name: &str) -> Result<String, Failure> {
    let what = args.what;
    let (kind, bare) = name.split_once('/').unwrap_or(("", name));
    let place = match what.is_namespaced() {
        true => format!("namespaces/{}/", encode(&cluster.namespace)),
        false => String::new(),
    };
    let of = match (what.is_namespaced(), args.all_namespaces) {
        (false, _) => format!("{} {name}", what.singular()),
        (true, false) => format!(
            "{} {name} of namespace {}",
            what.singular(),
            cluster.namespace
        ),
        (true, true) => {
            return Err(Failure::Failed(format!(
                "no {} {name} of any namespace holds GPUs that are reported, or asks for them",
                what.singular()
            )));
        }
    };
    let kinds = what.kinds().iter();
    for kind in kinds.filter(|it| kind.is_empty() || **it == kind) {
        let path = match kind.split_once('.') {
            Some((plural, group)) => format!("/apis/{group}/v1/{place}{plural}"),
            None => format!("/api/v1/{place}{kind}"),
        };
        let path = format!("{path}/{}", encode(bare));
        match cluster.read::<serde_json::Value>(&path).await {
            Ok(_) => {
                return Ok(format!(
                    "{of} holds no GPU that is reported, and asks for none"
                ));
            }
            Err(CallError::NotFound(_)) => {}
            Err(error) => return Err(Failure::Failed(error.to_string())),
        }
    }
    Err(Failure::Failed(format!("{of} does not exist")))
}

impl Found {
    /// The namespaces to read: with all of them, those that hold or request GPUs.
    async fn namespaces(
        &mut self,
        args: &TopArgs,
        cluster: &Cluster,
        objects: &Objects,
    ) -> Result<BTreeSet<String>, Failure> {
        if !args.all_namespaces {
            return Ok([cluster.namespace.clone()].into());
        }
        let path = of_object(("namespaces", None), "*", "gpu_held_count");
        let holding = list(cluster, &path).await?.unwrap_or_else(|without| {
            match without {
                Without::NotFound(said) => self.empty.insert(said),
                Without::Refused(said) => self.refused.insert(said),
            };
            Vec::new()
        });
        let asking = objects.pods.iter().map(|pod| pod.namespace.clone());
        Ok(names(holding).into_iter().chain(asking).collect())
    }

    /// Adds the objects of one kind.
    async fn add(
        &mut self,
        args: &TopArgs,
        cluster: &Cluster,
        (namespace, kind): (Option<&str>, &str),
        objects: &Objects,
    ) -> Result<(), Failure> {
        let of = |name: &str| Row {
            namespace: namespace.map(str::to_owned),
            name: match kind {
                "pods" | "nodes" | "namespaces" => name.to_owned(),
                workload => format!("{workload}/{name}"),
            },
            path: Some(of_object((kind, namespace), name, MEMORY_UTILIZATION)),
            ..Row::default()
        };
        let without = asking(args, objects, namespace, kind);
        let mut rows: BTreeMap<String, Row> = without
            .into_iter()
            .map(|name| (name.clone(), of(&name)))
            .collect();
        let lists = COLUMNS.map(|(metric, _)| {
            let path = of_object((kind, namespace), "*", metric);
            async move { list(cluster, &format!("{path}{}", args.labels())).await }
        });
        let (mut missing, mut refused) = (None, None);
        for ((_, put), list) in COLUMNS.iter().zip(join_all(lists).await) {
            let items = match list? {
                Ok(items) => items,
                Err(Without::NotFound(said)) => {
                    missing.get_or_insert(said);
                    continue;
                }
                Err(Without::Refused(said)) => {
                    refused.get_or_insert(said);
                    continue;
                }
            };
            for item in items {
                let name = item.described_object.map_or_else(String::new, |of| of.name);
                let row = rows.entry(name.clone()).or_insert_with(|| of(&name));
                if let Some(milli) = parse_milli(&item.value) {
                    put(row, milli as f64 / 1000.0);
                }
                if let Some(age) = item.timestamp.as_deref().and_then(age) {
                    row.age_seconds = Some(row.age_seconds.map_or(age, |known| known.min(age)));
                }
            }
        }
        self.refused.extend(refused);
        // A part of the cluster without GPUs is no error.
        let is_part = namespace.is_some() || args.selector.is_some();
        let is_mere =
            |said: &String| is_part && said.starts_with("the server could not find the metric");
        if rows.is_empty() {
            self.empty.extend(missing.filter(|said| !is_mere(said)));
        }
        self.rows.extend(rows.into_values().map(|row| Row {
            hpas: namespace.map_or_else(Vec::new, |it| objects.hpas(it, &row.name).to_vec()),
            ..row
        }));
        Ok(())
    }

    /// Reads the value of each row at the newest instant, or why it has none.
    async fn newest(&mut self, what: What, cluster: &Cluster) {
        let most = match what {
            What::Nodes | What::Gpus => usize::MAX,
            What::Pods | What::Workloads | What::Namespaces => MOST_INSTANTS,
        };
        if self.rows.len() > most {
            self.notes.insert(format!(
                "NOW%, IDLE-SINCE and WINDOW are asked for the first {most} rows"
            ));
        }
        let asked = self.rows.iter_mut().take(most).map(|row| async move {
            let Some(path) = &row.path else {
                return Ok(None);
            };
            let path = format!("{path}?explain=true");
            match cluster.read::<Explanation>(&path).await {
                Ok(mut explanation) => {
                    // Without a value, the newest instant is not current.
                    if explanation.value.is_some() {
                        let instants = explanation.instants.iter();
                        row.instants = instants.map(|it| it.number).collect();
                        row.now = row.instants.last().copied().flatten();
                        let all_listed = explanation.devices.len() == explanation.device_count;
                        let devices = all_listed.then_some(&*explanation.devices);
                        row.idle_since = devices.and_then(idle);
                    }
                    let why = explanation.no_value.clone();
                    // With thousands of nodes, only the shown readings are kept.
                    for device in &mut explanation.devices {
                        let before = device.readings.len().saturating_sub(1);
                        device.readings.drain(..before);
                    }
                    row.explanation = Some(Box::new(explanation));
                    Ok(why.filter(|_| what != What::Gpus))
                }
                Err(CallError::NotFound(said)) => Ok(Some(said)),
                Err(error) => Err(error.to_string()),
            }
        });
        let asked: Vec<_> = asked.collect();
        let told: Vec<_> = stream::iter(asked)
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        self.is_partial = told.iter().any(Result::is_err);
        let told = told.into_iter().filter_map(|it| it.unwrap_or_else(Some));
        self.notes.extend(told);
    }
}

/// How long all held devices have been idle; `None`: none is held, or it is not
/// known.
pub(super) fn idle(devices: &[Device]) -> Option<Idle> {
    let (mut since, mut unknown) = (None, false);
    for device in devices {
        let Some(last) = device.readings.last() else {
            continue;
        };
        match (last.state, last.held) {
            (State::Counted, Some(true)) => return Some(Idle::IN_USE),
            (State::Idle, Some(true)) => {
                let idle = device.idle.as_ref();
                let of_device =
                    idle.and_then(|it| Some((Timestamp::from_date(&it.since)?, it.or_longer)));
                unknown |= of_device.is_none();
                since = since.max(of_device);
            }
            (State::Missing | State::Lost | State::ActivityUnknown, _) => unknown = true,
            _ => {}
        }
    }
    let (since, or_longer) = since.filter(|_| !unknown)?;
    Some(Idle {
        seconds: clock::now().since(since).as_secs_f64(),
        or_longer,
    })
}

/// The objects of a kind that request GPUs. Labels of pods select only pods.
fn asking(
    args: &TopArgs,
    objects: &Objects,
    namespace: Option<&str>,
    kind: &str,
) -> BTreeSet<String> {
    let pods = objects
        .pods
        .iter()
        .filter(|pod| namespace.is_none_or(|it| pod.namespace == it));
    match kind {
        "pods" => pods.map(|pod| pod.name.clone()).collect(),
        "nodes" if args.selector.is_some() => objects.nodes.clone(),
        "nodes" => pods
            .filter_map(|pod| pod.node.clone())
            .chain(objects.nodes.iter().cloned())
            .collect(),
        _ if args.selector.is_some() => BTreeSet::new(),
        "namespaces" => pods.map(|pod| pod.namespace.clone()).collect(),
        workload => {
            let owners = pods.filter_map(|pod| pod.owner.as_deref()?.split_once('/'));
            let owners = owners.filter(|(owner, _)| *owner == workload);
            owners.map(|(_, name)| name.to_owned()).collect()
        }
    }
}

/// The server's error in place of a list.
enum Without {
    NotFound(String),
    /// The user may not read it.
    Refused(String),
}

/// A list's items, or the server's error in their place.
async fn list(cluster: &Cluster, path: &str) -> Result<Result<Vec<Item>, Without>, Failure> {
    match cluster.read::<List<Item>>(path).await {
        Ok(list) => Ok(Ok(list.items)),
        Err(CallError::NotFound(said)) => Ok(Err(Without::NotFound(said))),
        Err(error @ CallError::Forbidden { .. }) => {
            Ok(Err(Without::Refused(failure(&error).to_string())))
        }
        Err(error) => Err(failure(&error)),
    }
}

/// Seconds since a time, by the clock of this machine.
fn age(timestamp: &str) -> Option<f64> {
    let at = Timestamp::from_date(timestamp)?;
    Some(clock::now().since(at).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_its_namespace_and_its_kind() {
        let (pods, workloads) = (What::Pods, What::Workloads);
        for (what, name, namespace, own) in [
            (pods, "train-0", None, "train-0"),
            (pods, "ml/train-0", Some("ml"), "train-0"),
            (workloads, "ml/train", Some("ml"), "train"),
            (
                workloads,
                "deployment/train",
                None,
                "deployments.apps/train",
            ),
            (workloads, "ml/job/train", Some("ml"), "jobs.batch/train"),
            (
                workloads,
                "deployments.apps/train",
                None,
                "deployments.apps/train",
            ),
            (What::Nodes, "a/b", None, "a/b"),
        ] {
            let wanted = (namespace.map(str::to_owned), own.to_owned());
            assert_eq!(named(what, name), wanted, "{name}");
        }
    }

    #[test]
    fn in_place_of_a_table_it_is_said_where_was_looked() {
        let one = nothing(Some("default"), Some("app=x"));
        for part in ["namespace default", "labels app=x", "-A"] {
            assert!(one.contains(part), "{one}");
        }
        assert!(!nothing(None, None).contains("-A"));
    }
}
