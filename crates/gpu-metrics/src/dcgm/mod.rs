//! The meaning of DCGM data: names, label schemes, owners, units. Pure.
//!
//! What exporters print and what a scrape makes of it, read in `NVIDIA/dcgm-exporter`,
//! `NVIDIA/DCGM`, `NVIDIA/gpu-monitoring-tools` and `NVIDIA/gpu-operator`. A release is the
//! version of DCGM, a hyphen and the version of the exporter: `4.5.3-4.8.2`.
//!
//! # Generations
//!
//! All of these are in use, and one store may hold several, also for one GPU.
//!
//! | generation | difference in the output |
//! |---|---|
//! | 1.x, a shell script, with pod-gpu-metrics-exporter | names `dcgm_…`; labels `gpu`, `uuid`, `pod_name`, `pod_namespace`, `container_name` |
//! | 2.0, 2.1 | names `DCGM_FI_…`; spaces after the first commas; sorted by device; a free GPU has empty `pod`, `namespace`, `container` |
//! | 2.2 to 3.2 | sorted by metric; `modelName`, `Hostname`, labels of MIG |
//! | 3.3.5-3.4.1 and newer | a free GPU has no pod labels |
//! | 4.0 and newer | profiling fields in the default list; values are read at each scrape; `pci_bus_id`; sharing mode with `vgpu` |
//! | 4.5.3-4.8.2 | in sharing mode GPU utilisation and used memory are split by process, with `pod_uid` |
//! | 4.6.0-4.8.3 | `hostname` instead of `Hostname`; labels in order; numbers in Go's format; renamed fields |
//!
//! # Labels
//!
//! Names are compared case-insensitively, because Azure's store converts them to lower case.
//!
//! | label | also written | meaning |
//! |---|---|---|
//! | `UUID` | `uuid`, `gpu_uuid` | the card; MIG instances have the UUID of their card |
//! | `GPU_I_ID`, `GPU_I_PROFILE` | | the MIG instance and its profile (`1g.10gb`) |
//! | `gpu` | | the index; it may change at a restart |
//! | `modelName` | `model_name`, `modelname` | the model |
//! | `Hostname` | `hostname` | the node, or in old releases the exporter's pod |
//! | `pod`, `namespace`, `container` | `pod_name`, `pod_namespace`, `container_name` | the holder of the GPU |
//! | `pod_uid` | | the UID of that pod, if enabled |
//! | `vgpu` | | the replica of a shared GPU |
//! | `dra_claim_name`, `dra_device_name`, … | | a resource claim |
//!
//! Only a GPU that a pod holds has `vgpu` and `dra_…`: they prove that the pod label names a
//! holder. Label values are not escaped up to 4.8.2.
//!
//! # Fields
//!
//! [`fields`] has the names of each signal. On MIG instances memory and GPU utilisation do not
//! exist, and power is that of the card. Field 203 is in percent also under its name `…_RATIO`.
//! A collector may send names with dots.
//!
//! # Lines
//!
//! A line is `NAME{labels} number`, without a timestamp. Shortened:
//!
//! ```text
//! a  dcgm_mem_copy_utilization{gpu="0",uuid="GPU-2b…",pod_name="pod1",pod_namespace="default",container_name="c"} 0
//! b  DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0", UUID="GPU-60…", device="nvidia0",container="",namespace="",pod=""} 0
//! c  DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-7c…",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-node-17",container="vllm",namespace="team-a",pod="llm-0"} 46
//! d  DCGM_FI_DEV_MEM_COPY_UTIL{UUID="GPU-7c…",container="vllm",device="nvidia0",gpu="0",hostname="gpu-node-17",namespace="team-a",pod="llm-0"} 46
//! e  DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-aa…",namespace="n",pod="share-a",vgpu="0"} 62
//! f  DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa…"} 88
//!    DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa…",namespace="n",pod="share-a",pod_uid="0b7c…",vgpu="0"} 61
//! g  DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-60…",GPU_I_PROFILE="2g.12gb",GPU_I_ID="1",namespace="n",pod="p"} 0.117468
//! ```
//!
//! - *a* is from 1.x, *b* a free GPU from 2.0, *c* from 3.x and 4.x, *d* from 4.8.3, *g* a MIG
//!   instance.
//! - Sharing mode off: one line for each GPU, which names one of the pods, and may name another
//!   at the next scrape. On (*e*): the value of the whole GPU, once for each replica.
//! - *f*: a line of the whole GPU, and one for each process with its own part. 4.4.0 to 4.5.2
//!   can have the same labels with the value of the whole GPU.
//! - Exporters 2.x and 3.x collect on a timer (30 s by default): a reading can be two intervals
//!   old when it is scraped.
//!
//! # How a GPU gets its pod
//!
//! At each scrape the exporter asks the kubelet which pod holds which device. If the kubelet
//! does not answer, the lines have no pod labels. A kubelet before 1.34 also lists pods that
//! have ended. Resources other than `nvidia.com/gpu` and `nvidia.com/mig-…` need a setting. The
//! device of a line is therefore reliable, and its pod labels are hints.
//!
//! # MIG
//!
//! Power, temperature and clocks belong to the card and are repeated on each instance. Lines of
//! the card may come together with those of its instances. Ratios above 1 occur.
//!
//! # Values
//!
//! - A utilisation covers the last sixth of a second to second (`NVIDIA/DCGM`,
//!   `sdk/nvidia/nvml/dcgm_nvml.h`), not the interval. Profiling fields are means over the
//!   interval; `GR_ENGINE_ACTIVE` can stay at 0 while the GPU works.
//! - Memory utilisation and `DRAM_ACTIVE` differ: an H100 that multiplies matrices shows 30 %
//!   and 0.23, and 17 % and 0.13 if it rests half of the time (`tests/numbers/h100.csv`).
//!
//! # Sentinels
//!
//! Numbers that DCGM writes where it has no value. They lose digits on the way through
//! Prometheus: validity is a test of the range, not of equality.
//!
//! | kind | blank | not supported |
//! |---|---|---|
//! | 32-bit | 2147483632 | 2147483634 |
//! | 64-bit | 9223372036854775792 | 9223372036854775794 |
//! | floating | 140737488355328 | 140737488355330 |
//!
//! # After the scrape
//!
//! A scrape adds `namespace`, `pod`, `container` of its target, which the exporter uses too.
//!
//! | | `honor_labels: false` (default) | `honor_labels: true` |
//! |---|---|---|
//! | GPU with a pod | its pod in `exported_pod`, …; the exporter's in `pod` | its pod in `pod` |
//! | free GPU, exporter 3.3.5 or newer | no `exported_pod` | **the exporter's own pod in `pod`** |
//! | free GPU, older exporter | no `exported_pod` | no `pod` |
//!
//! Charts of dcgm-exporter and the GPU operator give `exported_pod`; annotation jobs
//! `exported_namespace` with bare `pod`, `exported_pod` with bare `container`, or bare `pod`;
//! Google Managed Prometheus bare `pod`, with node and port in `instance`; Azure all names in
//! lower case. A collector may rescale percents to 0 to 1 under the same names.

pub mod fields;
pub mod metrics;
pub(crate) mod origin;
pub mod schemes;
