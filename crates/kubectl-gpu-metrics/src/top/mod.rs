//! `top`: the holders of GPUs, and the load.

pub(super) mod autoscalers;
pub(super) mod columns;
pub(super) mod read;

use clap::{Args, ValueEnum};

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};
use super::devices::DEVICES;
use super::document::Document;
use super::document::table::Table;
use super::document::text::Layout;
use super::terminal::{Output, say};
use cluster_checks::paths::encode;
use columns::{NODES_ONLY, OBJECTS, OF_PODS};
use read::Found;

/// The most notes that are printed below the table; the others are counted.
const MOST_NOTES: usize = 4;

const EXAMPLES: &str = "Examples:
  kubectl gpu-metrics top pods -n ml
  kubectl gpu-metrics top workloads -A --sort-by idle --sum
  watch kubectl gpu-metrics top nodes --sort-by free";

/// GPUs by pod, workload, namespace or node, or one by one; and autoscalers.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", columns::help()))]
pub struct TopArgs {
    /// Kind of the rows
    #[arg(value_enum, default_value = "pods")]
    what: What,
    /// All namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Label selector of the objects
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Sort by the column with this heading, largest first
    #[arg(long, value_name = "COLUMN")]
    sort_by: Option<String>,
    /// Add a row with the sums of GPUs, memory and power
    #[arg(long)]
    sum: bool,
    /// Print no column headings
    #[arg(long)]
    no_headers: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
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
    /// HorizontalPodAutoscalers, those that need a person first
    #[value(alias = "hpa")]
    Hpas,
}

impl What {
    pub(super) const fn is_namespaced(self) -> bool {
        matches!(self, Self::Pods | Self::Workloads | Self::Hpas)
    }

    pub(super) const fn singular(self) -> &'static str {
        match self {
            Self::Pods => "pod",
            Self::Workloads => "workload",
            Self::Namespaces => "namespace",
            Self::Nodes => "node",
            Self::Gpus => "GPU",
            Self::Hpas => "autoscaler",
        }
    }
}

impl TopArgs {
    /// All rows of a kind, of all namespaces or of the default one, sorted by a column.
    pub(super) fn all(what: What, all_namespaces: bool, sort_by: Option<&str>) -> Self {
        Self {
            what,
            all_namespaces,
            sort_by: sort_by.map(str::to_owned),
            ..Self::default()
        }
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

/// Prints the table.
pub async fn run(args: TopArgs) -> Result<(), Failure> {
    let cluster = args.cluster.connect().await?;
    let document = read(&args, &cluster).await?;
    let layout = Layout {
        headings: !args.no_headers,
        notes: MOST_NOTES,
        ..Layout::default()
    };
    say(&document, args.output, layout)
}

/// The document of the rows.
pub(super) async fn read(args: &TopArgs, cluster: &Cluster) -> Result<Document, Failure> {
    match args.what {
        What::Hpas => autoscalers(args, cluster).await,
        _ => document(Found::read(args, cluster).await?, args),
    }
}

/// The autoscalers, and what could not be read.
async fn autoscalers(args: &TopArgs, cluster: &Cluster) -> Result<Document, Failure> {
    let (autoscalers, mut notes) = read::autoscalers(cluster, args.namespace(cluster)).await?;
    if autoscalers.is_empty() && notes.is_empty() {
        notes.insert("there is no HorizontalPodAutoscaler".to_owned());
    }
    let mut document = Document::new(format!("Autoscalers{}", place(args)));
    let table = autoscalers::table(autoscalers, args.all_namespaces);
    document.table(arranged(table, args)?);
    document.notes(notes);
    Ok(document)
}

/// The document of GPUs.
pub(super) fn document(mut found: Found, args: &TopArgs) -> Result<Document, Failure> {
    let (what, place) = (args.what.singular(), place(args));
    let mut document = Document::new(format!("GPUs by {what}{place}"));
    let table = match args.what {
        What::Gpus => gpus(&mut found, args),
        _ => objects(&mut found, args),
    };
    document.table(arranged(table, args)?);
    document.notes(found.notes);
    Ok(document)
}

/// The table, sorted and added up as the flags say.
fn arranged(mut table: Table, args: &TopArgs) -> Result<Table, Failure> {
    if let Some(word) = &args.sort_by
        && !table.sort(word)
    {
        let known: Vec<String> = table.orders().collect();
        return Err(Failure::Usage(format!(
            "{}s cannot be sorted by {word}: the columns are {}",
            args.what.singular(),
            known.join(", ")
        )));
    }
    if args.sum && !table.rows.is_empty() {
        table.add_up();
    }
    Ok(table)
}

fn place(args: &TopArgs) -> String {
    let namespace = args.cluster.namespace.as_deref();
    let namespace = namespace.filter(|_| args.what.is_namespaced() && !args.all_namespaces);
    namespace.map_or_else(String::new, |name| format!(" of namespace {name}"))
}

fn objects(found: &mut Found, args: &TopArgs) -> Table {
    let caption = format!("Means over the window, by {}", args.what.singular());
    let mut table = Table::of(caption, OBJECTS, std::mem::take(&mut found.rows));
    if !(args.all_namespaces && args.what.is_namespaced()) {
        table.remove("namespace");
    }
    if args.what != What::Pods {
        table.remove(OF_PODS);
    }
    if args.what != What::Nodes {
        NODES_ONLY.iter().for_each(|name| table.remove(name));
    }
    table
}

fn gpus(found: &mut Found, args: &TopArgs) -> Table {
    let gpus = found.gpus();
    if args.selector.is_none() {
        let unlisted = found.of_no_node(gpus.len());
        found.notes.extend(unlisted);
    }
    Table::of("GPUs at the newest instant", DEVICES, gpus)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::text;
    use crate::values::CUSTOM;
    use cluster_state::client::Client;
    use cluster_state::testing::fake_kube::FakeKube;

    async fn cluster(kube: &FakeKube) -> Cluster {
        let access = kube.access();
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
            let (args, cluster) = (TopArgs::all(what, everywhere, None), &cluster);
            async move { read(&args, cluster).await }
        };
        let skipped = json!([{"what": "data", "codes": ["GM401"], "reason": "Prometheus is away", "remedy": "start it"}]);
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
            let failure = rows(what, everywhere).await.unwrap_err();
            let said = "GPU data cannot be read: Prometheus is away: start it";
            assert_eq!(failure.to_string(), said, "{what:?}");
        }
        kube.document(findings, json!({"items": [], "skipped": []}));
        let document = rows(What::Pods, false).await.unwrap();
        let lines = text::lines(&document, &Layout::default());
        assert!(
            lines[0].starts_with("no object in namespace ml"),
            "{lines:?}"
        );
    }

    #[tokio::test]
    async fn an_older_server_without_the_list_should_be_upgraded() {
        let kube = FakeKube::start().await;
        let cluster = cluster(&kube).await;
        let well = json!({"items": [], "skipped": []});
        kube.document(&format!("{CUSTOM}/findings"), well);
        let failed = Found::read(&TopArgs::all(What::Pods, false, None), &cluster).await;
        let said = failed.unwrap_err().to_string();
        assert!(said.contains("upgrade gpu-metrics-apiserver"), "{said}");
    }
}
