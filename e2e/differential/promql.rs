//! Every served value as one PromQL expression.
//!
//! The expressions define the server's values in another language. An expression consists
//! of these parts:
//!
//! 1. *Readings* of a field: the newest sample of each series, if it is in the valid range
//!    and younger than F. They are a pair of vectors, values and sample times, under
//!    canonical labels: `uuid`, `gpu_i_id`, `gpu_i_profile` for the device, `ns` and `po`
//!    for the pod. Expressions name a field's readings many times, so Prometheus evaluates
//!    them once, at each instant ([`Dialect::sources`]). A second Prometheus has the
//!    results as series, and evaluates the other parts.
//! 2. A *view* keeps the readings that count for a kind of object and adds the labels that
//!    identify the object ([`Dialect::placed`]). DCGM's series do not contain the start of
//!    a pod: `pod_started` replaces the pod watch, as kube-state-metrics would export it,
//!    with a label for each owner. A reading counts for the pod in its labels: devices whose
//!    labels change in the window are not compared ([`PromqlScope`](super::promql_scope)).
//! 3. One reading per device and object: the newest one, or the larger one of equally new
//!    ones ([`newest`]). A card's reading counts only while no MIG instance of it has one.
//! 4. The mean over the instants of a subquery ([`Dialect::expression`]), evaluated at
//!    the last instant of the window.
//!
//! Prometheus 2 includes the left end of the window, and the server excludes it: the window
//! in expressions is therefore a millisecond shorter.

mod view;

use view::DEVICE;
pub(crate) use view::{POD_STARTED, View, owner_label};

/// Values and the times of their samples, with the same labels.
#[derive(Clone, Debug)]
struct Readings {
    values: String,
    times: String,
}

impl Readings {
    fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self {
            values: change(&self.values),
            times: change(&self.times),
        }
    }

    /// Both sets of readings; no series is in both.
    fn or(&self, other: &Self) -> Self {
        Self {
            values: format!("({} or {})", self.values, other.values),
            times: format!("({} or {})", self.times, other.times),
        }
    }

    /// True where there is a reading: `T and V`.
    fn present(&self) -> String {
        format!("({} and {})", self.times, self.values)
    }
}

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
    /// The first word of the series of its readings.
    word: &'static str,
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
    const fn new(word: &'static str, names: &'static str, range: Range) -> Self {
        Self { names, word, range }
    }

    fn readings(&self) -> Readings {
        Readings {
            values: format!("{}_value", self.word),
            times: format!("{}_time", self.word),
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
/// covers all schemes. The exporter's own pod may remain as `po`, but [`POD_STARTED`] does
/// not count it as a GPU pod.
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

/// The newest reading of each key; of equally new ones, the larger.
fn newest(readings: &Readings, key: &str) -> String {
    let Readings { values, times } = readings;
    let present = readings.present();
    format!(
        "max by ({key}) ({values} and ({times} == on ({key}) group_left () max by ({key}) {present}))"
    )
}

impl Dialect {
    /// The series that Prometheus evaluates first, by name: readings, and [`POD_STARTED`].
    pub(crate) fn sources(&self) -> Vec<(String, String)> {
        let of_field = |field: &&Field| {
            let sample = format!("{{__name__=~\"{}\"}}", field.names);
            let valid = match field.range {
                Range::Percent if !self.percent_as_ratio => format!("(({sample}) >= 0) <= 100"),
                Range::Percent | Range::Ratio => ratio(&sample),
                Range::Below(limit) => format!("(({sample}) >= 0) < {limit}"),
            };
            let fresh = format!("timestamp({sample}) > time() - {}", seconds(self.fresh_ms));
            let Readings { values, times } = field.readings();
            [(values, canonical(&valid)), (times, canonical(&fresh))]
        };
        let pods = (POD_STARTED.to_owned(), POD_STARTED.to_owned());
        FIELDS.iter().flat_map(of_field).chain([pods]).collect()
    }

    /// Percentages of whole cards, and ratios of MIG instances.
    fn utilization(percent: &Field, of_instances: &Field) -> Readings {
        let whole = percent.readings();
        let instances = of_instances.readings();
        let whole = whole.map(|vector| without(vector, "gpu_i_id"));
        whole.or(&instances.map(|vector| with(vector, "gpu_i_id")))
    }

    /// An expression for each field: devices with two series at an instant of a window, of
    /// which one has a reading and the other's newest sample is not a reading.
    pub(crate) fn disagreeing(&self, instants: i64) -> Vec<String> {
        let step_ms = self.step_ms;
        let over = format!("[{}ms:{step_ms}ms]", instants * step_ms - 1);
        let of_field = |field: &&Field| {
            let Readings { values, times } = field.readings();
            let key = format!("{DEVICE}, ns, po");
            let of = |word: &str| format!("group by ({key}) ({times} {word} {values})");
            format!("max_over_time(({} and {}){over})", of("and"), of("unless"))
        };
        FIELDS.iter().map(of_field).collect()
    }

    /// Readings of live GPU pods' devices since each pod's start.
    fn of_pods(readings: &Readings) -> Readings {
        let pods = format!("{POD_STARTED}{{gpu=\"true\", live=\"true\"}}");
        let Readings { values, times } = readings;
        Readings {
            values: format!("({values} * on (ns, po) group_left () ({pods} * 0 + 1))"),
            times: format!("({times} >= on (ns, po) group_left () {pods})"),
        }
    }

    /// Readings of GPU pods' devices, including deleted pods, with one of the pod's
    /// labels.
    fn labelled(readings: &Readings, taken: &str) -> Readings {
        let pods = format!("({POD_STARTED}{{gpu=\"true\", {taken}!=\"\"}} * 0");
        Readings {
            values: format!(
                "({} * on (ns, po) group_left ({taken}) {pods} + 1))",
                readings.values
            ),
            times: format!(
                "({} + on (ns, po) group_left ({taken}) {pods}))",
                readings.times
            ),
        }
    }

    /// The readings that count for a kind of object.
    fn placed(&self, readings: &Readings, view: &View) -> Readings {
        match view {
            View::Pods => Self::of_pods(readings),
            View::Cluster => readings.clone(),
            View::Namespaces => readings.map(|vector| {
                format!(
                    "({} unless on (ns, po) {POD_STARTED}{{gpu=\"false\"}})",
                    with(vector, "po")
                )
            }),
            View::Workloads(label) => Self::labelled(readings, label),
            View::Nodes => {
                let others = readings.map(|vector| {
                    format!("({vector} unless on (ns, po) {POD_STARTED}{{gpu=\"true\"}})")
                });
                Self::labelled(readings, "pn").or(&others).map(with_node)
            }
        }
    }

    /// One reading per device and object.
    fn devices(&self, readings: &Readings, view: &View) -> String {
        newest(&self.placed(readings, view), &view.device_key())
    }

    /// Devices without cards whose MIG instances have readings.
    fn unshadowed(devices: &str, instances: &str) -> String {
        format!("({devices} unless on (uuid, gpu_i_id) max by (uuid) ({instances}))")
    }

    /// Framebuffer of cards and of their MIG instances.
    fn memory_used(&self, view: &View) -> String {
        let readings = USED.readings();
        let instances = with(&readings.present(), "gpu_i_id");
        Self::unshadowed(&self.devices(&readings, view), &instances)
    }

    /// Watts of each board, which its MIG instances repeat.
    fn watts(&self, view: &View) -> String {
        let board = view.device_key().replace(DEVICE, "uuid");
        newest(&self.placed(&POWER.readings(), view), &board)
    }

    /// The expression of a metric for all objects of a kind, over a number of
    /// instants.
    pub(crate) fn expression(&self, metric: &str, view: &View, instants: i64) -> String {
        let over = format!("[{}ms:{}ms]", instants * self.step_ms - 1, self.step_ms);
        let key = view.key();
        let mean = |vector: &str| format!("avg_over_time(({vector}){over})");
        let memory = || Self::utilization(&MEM_COPY, &DRAM);
        match metric {
            "gpu_memory_utilization" => self.average(&memory(), view, &over),
            "gpu_utilization" => self.average(&Self::utilization(&GPU_UTIL, &ENGINE), view, &over),
            "gpu_memory_utilization_sum" => mean(&format!(
                "sum by ({key}) ({})",
                self.devices(&memory(), view)
            )),
            "gpu_memory_used" => mean(&format!("sum by ({key}) {}", self.memory_used(view))),
            "gpu_power_usage" => mean(&format!("sum by ({key}) ({})", self.watts(view))),
            "gpu_memory_used_percent" => mean(&self.used_percent(view)),
            "gpu_held_count" => mean(&self.held_count(view)),
            "gpu_active_count" => mean(&self.count_by_use(view, "> 0")),
            "gpu_idle_count" => mean(&self.count_by_use(view, "== 0")),
            "avg_GPU_utilization" => mean(&self.original(view)),
            other => panic!("{other} has no expression"),
        }
    }

    /// The mean over active devices. An object whose
    /// devices have readings and are never active gets 0.
    fn average(&self, readings: &Readings, view: &View, over: &str) -> String {
        let key = view.key();
        let devices = self.devices(readings, view);
        let zero = format!(
            "max by ({key}) {} * 0",
            self.placed(readings, view).present()
        );
        format!("avg_over_time((avg by ({key}) ({devices} > 0) or {zero}){over})")
    }

    /// Σ used ÷ Σ (used + free + reserved). A device's three fields are from the
    /// lines of one pod, the one with the newest `used`.
    fn used_percent(&self, view: &View) -> String {
        let (row, device, key) = (view.row_key(), view.device_key(), view.key());
        let fields = [&USED, &FREE, &RESERVED].map(Field::readings);
        let placed = fields.clone().map(|field| self.placed(&field, view));
        let [used, free, reserved] = placed.clone().map(|field| newest(&field, &row));
        let whole = format!("(({used} + {free} + ({reserved} or {free} * 0)) > 0)");
        let times = format!("(max by ({row}) {} and {whole})", placed[0].present());
        let latest = format!(
            "({used} and ({times} == on ({device}) group_left () max by ({device}) {times}))"
        );
        let largest = format!("max by ({device}) {latest}");
        let chosen = format!("({whole} and ({latest} == on ({device}) group_left () {largest}))");
        let instances = format!(
            "max by ({DEVICE}, ns, po) {} and max by ({DEVICE}, ns, po) {}",
            with(&fields[0].present(), "gpu_i_id"),
            fields[1].present(),
        );
        let used = Self::unshadowed(&largest, &instances);
        let whole = Self::unshadowed(&format!("max by ({device}) {chosen}"), &instances);
        format!("100 * sum by ({key}) {used} / sum by ({key}) {whole}")
    }

    /// Devices whose series name a pod; all devices, if only series of pods count.
    fn claims(&self, readings: &Readings, view: &View) -> String {
        if !matches!(view, View::Nodes | View::Cluster) {
            return self.devices(readings, view);
        }
        let placed = self.placed(readings, view).present();
        let pods = format!("{POD_STARTED}{{gpu=\"true\"}}");
        format!(
            "group by ({}) ({placed} and on (ns, po) {pods})",
            view.device_key()
        )
    }

    /// Held devices: those with a memory reading, else a kernel one, else a
    /// framebuffer one.
    fn held_count(&self, view: &View) -> String {
        let key = view.key();
        let fields = [
            Self::utilization(&MEM_COPY, &DRAM),
            Self::utilization(&GPU_UTIL, &ENGINE),
            USED.readings(),
        ];
        let [memory, kernels, used] = fields.clone().map(|field| self.devices(&field, view));
        let instances = with(&fields[2].present(), "gpu_i_id");
        let used = Self::unshadowed(&used, &instances);
        let [by_memory, by_kernels, by_used] = fields.map(|field| self.claims(&field, view));
        format!(
            "count by ({key}) ({by_memory} or ({by_kernels} unless {memory}) \
             or ({by_used} unless {memory} unless {kernels})) \
             or max by ({key}) ({memory} or {kernels} or {used}) * 0"
        )
    }

    fn count_by_use(&self, view: &View, condition: &str) -> String {
        let key = view.key();
        let memory = Self::utilization(&MEM_COPY, &DRAM);
        let devices = self.devices(&memory, view);
        let claims = self.claims(&memory, view);
        format!(
            "count by ({key}) (({devices} {condition}) and {claims}) or max by ({key}) ({devices}) * 0"
        )
    }

    /// The original exporter's value: each device once, without instants at which no
    /// device has a reading.
    fn original(&self, view: &View) -> String {
        let devices = self.devices(&MEM_COPY.readings(), view);
        format!("avg({devices} != 0) or max({devices}) * 0")
    }
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
