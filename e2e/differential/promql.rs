//! Every served value as one PromQL expression.
//!
//! The expressions define the server's values in another language. An expression consists
//! of these parts:
//!
//! 1. *Readings* of a field: the newest sample of each series, if it is in the valid range
//!    and younger than F, under canonical labels: `uuid`, `gpu_i_id`, `gpu_i_profile` for the
//!    device, `ns` and `po` for the pod. Expressions name a field's readings many times, so
//!    Prometheus evaluates them once, at each instant ([`Dialect::sources`]). A second
//!    Prometheus has the results as series, and evaluates the other parts.
//! 2. A *view* keeps the readings that count for a kind of object and adds the labels that
//!    identify the object ([`placed`]). The series [`POD`] replaces the pod watch, as
//!    kube-state-metrics would export it, with a label for each owner. The pods of these
//!    fleets stay, and each device has one series of a field.
//! 3. A card's reading counts only while no MIG instance of it has one ([`unshadowed`]).
//! 4. The mean over the instants of a subquery ([`Dialect::expression`]), evaluated at
//!    the last instant of the window.
//!
//! Prometheus 2 includes the left end of the window, and the server excludes it: the window
//! in expressions is therefore a millisecond shorter.

mod view;

use view::DEVICE;
pub(crate) use view::{POD, View, owner_label};

/// The parameters of an expression besides metric and object.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) step_ms: i64,
    pub(crate) fresh_ms: i64,
    /// Whether percent fields arrive as 0–1.
    pub(crate) percent_as_ratio: bool,
}

/// A field of the exporter.
struct Field {
    /// The names of its series, an anchored regular expression.
    names: &'static str,
    /// The series of its readings.
    readings: &'static str,
    range: Range,
}

/// The values of samples that are readings.
enum Range {
    Percent,
    Ratio,
    /// From 0 to below a limit.
    Below(&'static str),
}

impl Field {
    const fn new(readings: &'static str, names: &'static str, range: Range) -> Self {
        Self {
            names,
            readings,
            range,
        }
    }
}

const FRAMEBUFFER: Range = Range::Below("1e8");
static MEM_COPY: Field = Field::new(
    "mem_copy",
    "DCGM_FI_DEV_MEM_COPY_UTIL|dcgm_mem_copy_utilization",
    Range::Percent,
);
static GPU_UTIL: Field = Field::new(
    "gpu_util",
    "DCGM_FI_DEV_GPU_UTIL(_RATIO)?|dcgm_gpu_utilization",
    Range::Percent,
);
static DRAM: Field = Field::new(
    "dram",
    "DCGM_FI_PROF_DRAM_(ACTIVE|UTIL_RATIO)",
    Range::Ratio,
);
static ENGINE: Field = Field::new(
    "engine",
    "DCGM_FI_PROF_GR_ENGINE_(ACTIVE|UTIL_RATIO)",
    Range::Ratio,
);
static USED: Field = Field::new("used", "DCGM_FI_DEV_FB_USED|dcgm_fb_used", FRAMEBUFFER);
static FREE: Field = Field::new("free", "DCGM_FI_DEV_FB_FREE|dcgm_fb_free", FRAMEBUFFER);
static RESERVED: Field = Field::new(
    "reserved",
    "DCGM_FI_DEV_FB_RESERVED|dcgm_fb_reserved",
    FRAMEBUFFER,
);
static POWER: Field = Field::new(
    "power",
    "DCGM_FI_DEV_POWER_USAGE|dcgm_power_usage",
    Range::Below("1e6"),
);
static FIELDS: [&Field; 8] = [
    &MEM_COPY, &GPU_UTIL, &DRAM, &ENGINE, &USED, &FREE, &RESERVED, &POWER,
];

/// A ratio, which may slightly exceed 1, as a percentage.
fn ratio(field: &str) -> String {
    format!("100 * clamp_max((({field}) >= 0) <= 1.2, 1)")
}

/// Copies the value of each existing label of `from` to `to`; the last one wins.
fn relabelled(vector: &str, to: &str, from: &[&str]) -> String {
    from.iter().fold(vector.to_owned(), |inner, label| {
        format!("label_replace({inner}, \"{to}\", \"$1\", \"{label}\", \"(.+)\")")
    })
}

/// Canonical labels: each more specific label overrides the previous ones, so one pass
/// covers all schemes. The exporter's own pod may remain as `po`, but [`POD`] does not count
/// it as a GPU pod.
fn canonical(vector: &str) -> String {
    let device = relabelled(vector, "uuid", &["UUID"]);
    let device = relabelled(&device, "gpu_i_id", &["GPU_I_ID"]);
    let device = relabelled(&device, "gpu_i_profile", &["GPU_I_PROFILE"]);
    let namespace = relabelled(
        &device,
        "ns",
        &["namespace", "exported_namespace", "pod_namespace"],
    );
    relabelled(&namespace, "po", &["pod", "pod_name", "exported_pod"])
}

/// The node. The series' own label takes precedence over the pod's node (`pn`). The last
/// choice is the host in `instance`, where managed collection puts a node's name.
fn with_node(vector: &str) -> String {
    let from_pod = relabelled(vector, "n", &["pn"]);
    let from_target = format!(
        "label_replace({from_pod}, \"n\", \"$1\", \"instance\", \"(gpu-node-[0-9]+)(:.*)?\")"
    );
    relabelled(&from_target, "n", &["node", "hostname", "Hostname"])
}

/// Elements without the label.
fn without(vector: &str, label: &str) -> String {
    format!("({vector} and on ({label}) vector(1))")
}

/// Elements with the label.
fn with(vector: &str, label: &str) -> String {
    format!("({vector} unless on ({label}) vector(1))")
}

/// The readings of whole cards in percent, and those of MIG instances as ratios.
fn utilization(percent: &Field, of_instances: &Field) -> String {
    let whole = without(percent.readings, "gpu_i_id");
    let instances = with(of_instances.readings, "gpu_i_id");
    format!("({whole} or {instances})")
}

fn memory() -> String {
    utilization(&MEM_COPY, &DRAM)
}

/// The readings of GPU pods' devices, with one of the pod's labels.
fn labelled(readings: &str, taken: &str) -> String {
    format!("({readings} * on (ns, po) group_left ({taken}) {POD}{{gpu=\"true\", {taken}!=\"\"}})")
}

/// The readings that count for a kind of object.
fn placed(readings: &str, view: &View) -> String {
    match view {
        View::Pods => labelled(readings, "pn"),
        View::Cluster => readings.to_owned(),
        View::Namespaces => {
            let named = with(readings, "po");
            format!("({named} unless on (ns, po) {POD}{{gpu=\"false\"}})")
        }
        View::Workloads(label) => labelled(readings, label),
        View::Nodes => {
            let others = format!("({readings} unless on (ns, po) {POD}{{gpu=\"true\"}})");
            let all = format!("({} or {others})", labelled(readings, "pn"));
            with_node(&all)
        }
    }
}

/// The reading of each device and object.
fn devices(readings: &str, view: &View) -> String {
    format!(
        "max by ({}) ({})",
        view.device_key(),
        placed(readings, view)
    )
}

/// Devices without cards whose MIG instances have readings of a field.
fn unshadowed(devices: &str, field: &Field) -> String {
    let instances = with(field.readings, "gpu_i_id");
    format!("({devices} unless on (uuid, gpu_i_id) max by (uuid) ({instances}))")
}

/// Devices whose series name a pod; all devices, if only series of pods count.
fn claims(readings: &str, view: &View) -> String {
    match view {
        View::Nodes | View::Cluster => {
            let placed = placed(readings, view);
            let of_pods = format!("{placed} and on (ns, po) {POD}{{gpu=\"true\"}}");
            format!("group by ({}) ({of_pods})", view.device_key())
        }
        _ => devices(readings, view),
    }
}

/// The mean over active devices. An object whose devices have readings and are never active
/// gets 0.
fn average(readings: &str, view: &View) -> String {
    let (key, devices) = (view.key(), devices(readings, view));
    format!("avg by ({key}) ({devices} > 0) or max by ({key}) ({devices}) * 0")
}

/// Framebuffer of cards and of their MIG instances.
fn framebuffer(field: &Field, view: &View) -> String {
    unshadowed(&devices(field.readings, view), &USED)
}

/// Σ used ÷ Σ (used + free + reserved).
fn used_percent(view: &View) -> String {
    let [used, free, reserved] = [&USED, &FREE, &RESERVED].map(|field| framebuffer(field, view));
    let whole = format!("(({used} + {free} + ({reserved} or {free} * 0)) > 0)");
    let key = view.key();
    format!("100 * sum by ({key}) ({used} and {whole}) / sum by ({key}) {whole}")
}

/// Held devices: those with a memory reading, else a kernel one, else a framebuffer one.
fn held_count(view: &View) -> String {
    let (memory, kernels) = (memory(), utilization(&GPU_UTIL, &ENGINE));
    let [by_memory, by_kernels, by_used] =
        [&*memory, &*kernels, USED.readings].map(|readings| claims(readings, view));
    let [memory, kernels] = [memory, kernels].map(|readings| devices(&readings, view));
    let (used, key) = (framebuffer(&USED, view), view.key());
    format!(
        "count by ({key}) ({by_memory} or ({by_kernels} unless {memory}) \
         or ({by_used} unless {memory} unless {kernels})) \
         or max by ({key}) ({memory} or {kernels} or {used}) * 0"
    )
}

fn count_by_use(view: &View, condition: &str) -> String {
    let (devices, claims) = (devices(&memory(), view), claims(&memory(), view));
    let key = view.key();
    format!(
        "count by ({key}) (({devices} {condition}) and {claims}) or max by ({key}) ({devices}) * 0"
    )
}

impl Dialect {
    /// The series that Prometheus evaluates first, by name: readings, and [`POD`].
    pub(crate) fn sources(&self) -> Vec<(String, String)> {
        let of_field = |field: &&Field| {
            let sample = format!("{{__name__=~\"{}\"}}", field.names);
            let valid = match field.range {
                Range::Percent if !self.percent_as_ratio => format!("(({sample}) >= 0) <= 100"),
                Range::Percent | Range::Ratio => ratio(&sample),
                Range::Below(limit) => format!("(({sample}) >= 0) < {limit}"),
            };
            let fresh = format!("timestamp({sample}) > time() - {}", seconds(self.fresh_ms));
            let readings = canonical(&format!("({valid} and {fresh})"));
            (field.readings.to_owned(), readings)
        };
        let pods = (POD.to_owned(), POD.to_owned());
        FIELDS.iter().map(of_field).chain([pods]).collect()
    }

    /// The expression of a metric for all objects of a kind, over a number of
    /// instants.
    pub(crate) fn expression(&self, metric: &str, view: &View, instants: i64) -> String {
        let key = view.key();
        let sum = |devices: &str| format!("sum by ({key}) ({devices})");
        let at_instant = match metric {
            "gpu_memory_utilization" => average(&memory(), view),
            "gpu_utilization" => average(&utilization(&GPU_UTIL, &ENGINE), view),
            "gpu_memory_utilization_sum" => sum(&devices(&memory(), view)),
            "gpu_memory_used" => sum(&framebuffer(&USED, view)),
            // MIG instances repeat the watts of their board.
            "gpu_power_usage" => {
                let board = view.device_key().replace(DEVICE, "uuid");
                sum(&format!(
                    "max by ({board}) ({})",
                    placed(POWER.readings, view)
                ))
            }
            "gpu_memory_used_percent" => used_percent(view),
            "gpu_held_count" => held_count(view),
            "gpu_active_count" => count_by_use(view, "> 0"),
            "gpu_idle_count" => count_by_use(view, "== 0"),
            // The original exporter's value: each device once.
            "avg_GPU_utilization" => {
                let devices = devices(MEM_COPY.readings, view);
                format!("avg({devices} != 0) or max({devices}) * 0")
            }
            other => panic!("{other} has no expression"),
        };
        let over = instants * self.step_ms - 1;
        format!("avg_over_time(({at_instant})[{over}ms:{}ms])", self.step_ms)
    }
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
