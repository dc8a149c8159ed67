//! `top`: the holders of GPUs, and the load.

pub(super) mod fetch;
pub(super) mod objects;
pub(super) mod rows;
mod screen;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::check::live::{UNREAD, trouble};
use super::cluster::{Cluster, ClusterArgs};
use super::interrupts::Signals;
use super::terminal::{print, shown};
use super::{Failure, table};
use cluster_checks::paths::encode;
use fetch::{Found, of_no_node};
use rows::{GPU_COLUMNS, OF_GPUS, OF_ROWS, Row, SPARE, gpu_cells};
use screen::squeezed;

const EVERY: Duration = Duration::from_secs(5);

/// The most notes that are printed below the table; the others are counted.
const MOST_NOTES: usize = 4;

/// The note below a row of sums over holders.
const SHARED: &str =
    "a GPU that several objects hold counts in the row of each, and several times in SUM";

/// GPUs by pod, workload, namespace or node, or one by one. On a terminal it is
/// drawn again every 5 seconds until Ctrl-C; into a pipe it is printed once.
#[derive(Debug, Default, Args)]
#[command(after_long_help = rows::help())]
pub struct TopArgs {
    /// Kind of the rows
    #[arg(value_enum, default_value = "pods")]
    what: What,
    /// One object: NAME or NAMESPACE/NAME; for workloads also KIND/NAME; for gpus a UUID
    name: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Label selector of the objects
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Sort by a column, largest first
    #[arg(long, value_enum, value_name = "COLUMN")]
    sort_by: Option<Column>,
    /// Add a row with the sums of held, active and idle GPUs, memory and power
    #[arg(long)]
    sum: bool,
    /// Print no column headings
    #[arg(long)]
    no_headers: bool,
    /// Print once, also on a terminal
    #[arg(long)]
    once: bool,
    /// Output format: a table or JSON
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum What {
    /// Pods
    #[default]
    #[value(alias = "pod", alias = "po")]
    Pods,
    /// Deployments, StatefulSets, Jobs and other owners of pods
    #[value(alias = "workload")]
    Workloads,
    /// Namespaces
    #[value(alias = "namespace", alias = "ns")]
    Namespaces,
    /// Nodes
    #[value(alias = "node", alias = "no")]
    Nodes,
    /// GPUs and MIG instances
    #[value(alias = "gpu")]
    Gpus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Column {
    Held,
    Active,
    Idle,
    Mem,
    Now,
    Gpu,
    Vram,
    Watt,
    IdleSince,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Table,
    Json,
}

impl What {
    pub(super) const fn is_namespaced(self) -> bool {
        matches!(self, Self::Pods | Self::Workloads)
    }

    pub(super) const fn singular(self) -> &'static str {
        match self {
            Self::Pods => "pod",
            Self::Workloads => "workload",
            Self::Namespaces => "namespace",
            Self::Nodes => "node",
            Self::Gpus => "GPU",
        }
    }
}

impl TopArgs {
    /// All rows of a kind, of all namespaces or of the default one.
    pub(super) fn all(what: What, all_namespaces: bool) -> Self {
        Self {
            what,
            all_namespaces,
            ..Self::default()
        }
    }

    /// Moves the namespace out of the name, and refuses flags without effect.
    fn read(&mut self) -> Result<(), Failure> {
        let (of_all, of_gpus) = (!self.what.is_namespaced(), self.what == What::Gpus);
        let flags = [
            (of_all && self.cluster.namespace.is_some(), "--namespace"),
            (of_gpus && self.all_namespaces, "--all-namespaces"),
            (of_gpus && self.sort_by.is_some(), "--sort-by"),
            (of_gpus && self.sum, "--sum"),
        ];
        if let Some((_, flag)) = flags.iter().find(|(is_set, _)| *is_set) {
            return Err(Failure::Usage(format!(
                "{flag} does not apply here: {}s of the whole cluster are shown: remove it",
                self.what.singular()
            )));
        }
        if let Some(name) = &self.name {
            let (namespace, name) = fetch::named(self.what, name);
            if let Some(namespace) = namespace {
                self.all_namespaces = false;
                self.cluster.namespace = Some(namespace);
            }
            self.name = Some(name);
        }
        Ok(())
    }

    /// The namespace of the rows; `None`: all namespaces, or rows without a namespace.
    fn namespace<'c>(&self, cluster: &'c Cluster) -> Option<&'c str> {
        let is_one = self.what.is_namespaced() && !self.all_namespaces;
        is_one.then_some(&*cluster.namespace)
    }

    /// The query parameter that selects the rows' objects by their labels.
    fn labels(&self) -> String {
        let selector = self.selector.as_deref().unwrap_or_default();
        format!("labelSelector={}", encode(selector))
    }
}

struct Page {
    json: String,
    /// The table, its heading first.
    cells: Vec<Vec<String>>,
    /// The columns that narrow terminals leave out, in this order.
    spare: &'static [&'static str],
    notes: BTreeSet<String>,
    /// Why the page is incomplete, if something could not be read.
    failed: Option<String>,
}

/// Prints the table once, or redraws it on a terminal.
pub async fn run(mut args: TopArgs) -> Result<(), Failure> {
    args.read()?;
    let cluster = args.cluster.connect().await?;
    if args.output == Output::Table && io::stdout().is_terminal() && !args.once {
        return live(&args, &cluster).await;
    }
    let mut page = page(&args, &cluster).await?;
    let failed = page.failed.take();
    if args.output == Output::Json {
        for line in page.foot() {
            // The reader of the output may have closed it.
            let _ = writeln!(io::stderr(), "{}", shown(&line));
        }
        print(&page.json);
    } else {
        let (table, foot) = page.lines(&args);
        print(&[table, foot].concat().join("\n"));
    }
    failed.map_or(Ok(()), |why| Err(Failure::Failed(why)))
}

/// Redraws the table every [`EVERY`]. While the server does not answer, the last table
/// stays, with the error below.
async fn live(args: &TopArgs, cluster: &Cluster) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let mut end = pin!(signals.wait());
    let mut shown = tokio::select! {
        page = page(args, cluster) => page?,
        () = &mut end => return Ok(()),
    };
    let failed = |error: io::Error| Failure::Failed(error.to_string());
    loop {
        let (table, foot) = shown.lines(args);
        screen::draw(&table, &foot).map_err(failed)?;
        let next = async {
            tokio::time::sleep(EVERY).await;
            page(args, cluster).await
        };
        tokio::select! {
            page = next => match page {
                Ok(page) => shown = page,
                Err(error) => shown.notes = [error.to_string()].into(),
            },
            () = &mut end => return Ok(()),
        }
    }
}

impl Page {
    /// The lines of the table, with as many columns as fit, and the lines below it,
    /// which always stay visible.
    fn lines(&self, args: &TopArgs) -> (Vec<String>, Vec<String>) {
        let columns = screen::size().map_or(usize::MAX, |(columns, _)| columns);
        let mut table = self.fitted(columns);
        let mut foot = Vec::new();
        if args.sum && !table.is_empty() {
            foot.extend(table.pop());
            if args.what != What::Nodes {
                foot.push(SHARED.to_owned());
            }
        }
        if args.no_headers && !table.is_empty() {
            table.remove(0);
        }
        foot.append(&mut self.foot());
        (table, foot)
    }

    fn fitted(&self, columns: usize) -> Vec<String> {
        let mut cells = self.cells.clone();
        for name in self.spare {
            let lines = table::lines(&cells);
            if lines.iter().all(|line| line.chars().count() <= columns) {
                return lines;
            }
            let heading = cells.first();
            if let Some(place) = heading.and_then(|it| it.iter().position(|it| it == name)) {
                cells.iter_mut().for_each(|row| _ = row.remove(place));
            }
        }
        table::lines(&squeezed(&cells, columns))
    }

    fn foot(&self) -> Vec<String> {
        let more = self.notes.len().saturating_sub(MOST_NOTES);
        let more = (more > 0).then(|| format!("… more values that are missing: {more}"));
        let notes = self.notes.iter().take(MOST_NOTES).cloned();
        self.failed
            .iter()
            .cloned()
            .chain(notes)
            .chain(more)
            .collect()
    }
}

async fn page(args: &TopArgs, cluster: &Cluster) -> Result<Page, Failure> {
    let (found, failed) = read(args, cluster).await?;
    if args.what == What::Gpus {
        return gpus(found, args).map(|page| Page { failed, ..page });
    }
    let Found {
        mut rows, notes, ..
    } = found;
    if let Some(column) = args.sort_by {
        Row::sort(&mut rows, column);
    }
    let json = rows::json(&rows, OF_ROWS)?;
    let namespaced = args.all_namespaces && args.what.is_namespaced();
    let mut cells = Vec::new();
    if !rows.is_empty() {
        cells.push(Row::heading(namespaced));
        cells.extend(rows.iter().map(|row| row.cells(namespaced)));
        cells.extend(args.sum.then(|| Row::sum(&rows).cells(namespaced)));
    }
    Ok(Page {
        json,
        cells,
        spare: SPARE,
        notes,
        failed,
    })
}

/// The GPUs of nodes, as JSON and as cells. A name selects a GPU, by its UUID, or a node.
fn gpus(mut found: Found, args: &TopArgs) -> Result<Page, Failure> {
    let mut gpus = found.gpus();
    let mut notes = found.notes;
    if let (None, None) = (&args.name, &args.selector) {
        notes.extend(of_no_node(found.device_count, gpus.len()));
    }
    if let Some(name) = &args.name {
        gpus.retain(|gpu| gpu.uuid == *name || gpu.node.as_ref() == Some(name));
        if gpus.is_empty() {
            let unread: String = notes.iter().map(|note| format!("; {note}")).collect();
            return Err(Failure::Failed(format!(
                "no GPU with the UUID {name}, and no node of that name with GPUs, is reported{unread}"
            )));
        }
    }
    let json = rows::json(&gpus, OF_GPUS)?;
    let mut cells = Vec::new();
    if !gpus.is_empty() {
        cells.push(GPU_COLUMNS.map(|(heading, _)| heading.to_owned()).to_vec());
        cells.extend(gpus.iter().map(gpu_cells));
    }
    Ok(Page {
        json,
        cells,
        spare: &["MODEL", "HELD", "NODE", "IDLE FOR"],
        notes,
        failed: None,
    })
}

/// The rows. If no row has a value because GPU data cannot be read, also returns the
/// reason, or fails with it: an empty table would mean that there are no GPUs.
async fn read(args: &TopArgs, cluster: &Cluster) -> Result<(Found, Option<String>), Failure> {
    let found = fetch::rows(args, cluster).await;
    let is_clear = match &found {
        Ok(found) => found.rows.iter().any(|row| row.item.held.is_some()),
        Err(failure) => matches!(failure, Failure::Refused(_)),
    };
    if is_clear {
        return Ok((found?, None));
    }
    let Some((cause, remedy)) = trouble(cluster).await else {
        return Ok((found?, None));
    };
    let why = format!("{UNREAD}: {cause}: {remedy}");
    match found {
        Ok(mut found) if args.what != What::Gpus && !found.rows.is_empty() => {
            found.notes.clear();
            Ok((found, Some(why)))
        }
        _ => Err(Failure::Failed(why)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::values::CUSTOM;
    use cluster_state::client::{Client, ClusterAccess};
    use cluster_state::testing::fake_kube::FakeKube;
    use findings::source::unseen_checks;

    async fn cluster(kube: &FakeKube) -> Cluster {
        let access = ClusterAccess::User {
            kubeconfig: Some(kube.kubeconfig()),
            context: None,
        };
        Cluster::of(Client::connect(&access).await.unwrap(), Some("ml"))
    }

    #[tokio::test]
    async fn unreadable_gpu_data_is_an_error_and_no_empty_table() {
        let kube = FakeKube::start().await;
        let cluster = cluster(&kube).await;
        for path in ["namespaces/ml/devices", "devices"] {
            kube.document(&format!("{CUSTOM}/{path}"), json!({"items": []}));
        }
        let rows = |what, everywhere| {
            let (args, cluster) = (TopArgs::all(what, everywhere), &cluster);
            async move { page(&args, cluster).await }
        };
        let skipped = json!([{"what": unseen_checks(), "reason": "Prometheus is away", "remedy": "start it"}]);
        let findings = &format!("{CUSTOM}/findings");
        kube.document(findings, json!({"items": [], "skipped": skipped}));
        for (what, everywhere) in [
            (What::Pods, false),
            (What::Pods, true),
            (What::Workloads, false),
            (What::Namespaces, true),
            (What::Nodes, true),
            (What::Gpus, true),
        ] {
            let failure = rows(what, everywhere)
                .await
                .map(|page| page.notes)
                .unwrap_err();
            let said = "GPU data cannot be read: Prometheus is away: start it";
            assert_eq!(failure.to_string(), said, "{what:?}");
        }
        kube.document(findings, json!({"items": [], "skipped": []}));
        let page = rows(What::Pods, false)
            .await
            .unwrap_or_else(|it| panic!("{it}"));
        assert_eq!(page.failed, None);
        assert!(
            page.notes
                .iter()
                .any(|it| it.starts_with("no object in namespace ml"))
        );
    }

    #[tokio::test]
    async fn rows_are_the_listed_objects_with_autoscalers_and_nodes_without_series() {
        let kube = FakeKube::start().await;
        let cluster = cluster(&kube).await;
        let listed = json!({"items": [
            {"resource": "pods", "namespace": "ml", "name": "a", "held": 2.0, "power": 410.5,
             "workloads": ["deployments.apps/train"], "memoryUtilizationInstants": [40.0, null]},
            {"resource": "pods", "namespace": "ml", "name": "b", "noValue": "so it is"},
        ]});
        kube.document(&format!("{CUSTOM}/namespaces/ml/devices"), listed);
        let hpa = json!({
            "metadata": {"name": "h", "namespace": "ml"},
            "spec": {"maxReplicas": 3, "scaleTargetRef":
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train"}},
        });
        let hpas = "/apis/autoscaling/v2/namespaces/ml/horizontalpodautoscalers";
        kube.document(hpas, json!({"metadata": {}, "items": [hpa]}));
        let found = read(&TopArgs::all(What::Pods, false), &cluster).await;
        let (found, _) = found.unwrap();
        let [a, b] = &found.rows[..] else {
            panic!("{found:?}")
        };
        let (of_a, of_b) = (&a.item, &b.item);
        assert_eq!(
            (of_a.held, of_a.power, a.hpas.len()),
            (Some(2.0), Some(410.5), 1)
        );
        assert_eq!(of_a.memory_utilization_instants, [Some(40.0), None]);
        assert_eq!((of_b.held, b.hpas.len()), (None, 0));
        assert!(found.notes.contains("so it is"));
        let node = |name: &str, resource: &str| json!({"metadata": {"name": name}, "status": {"allocatable": {resource: "1", "cpu": "8"}}});
        let nodes = [
            node("own", "example.com/a100"),
            node("other", "nvidia.com/gpu"),
        ];
        kube.document("/api/v1/nodes", json!({"metadata": {}, "items": nodes}));
        let configuration = json!([["gpu.resources", "example.com/t4, example.com/a100"]]);
        let said = json!({"items": [], "skipped": [], "configuration": configuration});
        kube.document(&format!("{CUSTOM}/findings"), said);
        let listed = json!({"deviceCount": 1, "items": [{"resource": "nodes", "name": "zoe"}]});
        kube.document(&format!("{CUSTOM}/devices"), listed);
        let found = read(&TopArgs::all(What::Nodes, true), &cluster).await;
        let (found, _) = found.unwrap();
        let names: Vec<&str> = found.rows.iter().map(|row| &*row.item.name).collect();
        assert_eq!(names, ["own", "zoe"]);
    }

    #[tokio::test]
    async fn a_named_pod_without_gpus_is_a_note_and_an_absent_one_an_error() {
        let kube = FakeKube::start().await;
        let cluster = cluster(&kube).await;
        let listed = format!("{CUSTOM}/namespaces/ml/devices");
        kube.document(&listed, json!({"items": []}));
        kube.document(&format!("{CUSTOM}/findings"), json!({"items": []}));
        kube.document("/api/v1/namespaces/ml/pods/web", json!({"metadata": {}}));
        let named = |name: &str| TopArgs {
            name: Some(name.to_owned()),
            ..TopArgs::all(What::Pods, false)
        };
        let said = "no pod web of namespace ml holds reported GPUs or requests GPUs";
        let found = page(&named("web"), &cluster).await;
        let notes = found.map_or_else(|it| panic!("{it}"), |it| it.notes);
        assert!(notes.iter().any(|it| it == said), "{notes:?}");
        let failed = page(&named("nope"), &cluster).await.map(|it| it.notes);
        assert!(failed.unwrap_err().to_string().starts_with("no pod nope"));
    }

    #[tokio::test]
    async fn an_older_server_without_the_list_should_be_upgraded() {
        let kube = FakeKube::start().await;
        let cluster = cluster(&kube).await;
        let well = json!({"items": [], "skipped": []});
        kube.document(&format!("{CUSTOM}/findings"), well);
        let failed = page(&TopArgs::all(What::Pods, false), &cluster).await;
        let said = failed.map(|page| page.notes).unwrap_err().to_string();
        assert!(said.contains("upgrade gpu-metrics-apiserver"), "{said}");
    }
}
