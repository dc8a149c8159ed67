//! The series that the server reads, by their form.

use std::collections::BTreeMap;

use gpu_metrics::devices::DeviceReport;

use crate::devices::text;
use crate::document::cell::{Cell, Unit};
use crate::document::table::{Table, columns};

/// The GPUs whose series have the same form.
#[derive(Debug)]
struct Form {
    /// One of them.
    first: DeviceReport,
    gpus: usize,
    newest: Option<String>,
}

columns! {
    FORMS: Form;
    "field", "FIELD", "the field of their readings"
        [] => |it| text(it.first.field.as_ref(), "no field of them is known");
    "ownerLabels", "PODS NAMED BY", "the labels that name the pod"
        [] => |it| text(it.first.owner_labels.as_ref(), "no label names a pod");
    "scrapeSeconds", "SCRAPED EVERY", "their scrape interval"
        [unit(Unit::Seconds)] => |it| Cell::number(it.first.scrape_seconds, Unit::Seconds);
    "freshSeconds", "VALID FOR", "how long a reading is valid"
        [unit(Unit::Seconds)] => |it| Cell::number(it.first.fresh_seconds, Unit::Seconds);
    "gpus", "GPUS", "GPUs and MIG instances"
        [unit(Unit::Count)] => |it| Cell::number(it.gpus as f64, Unit::Count);
    "newest", "NEWEST SAMPLE", "of any of them"
        [] => |it| text(it.newest.as_ref(), "there is none");
}

/// A row for each form, by field and labels.
pub(super) fn table(gpus: Vec<DeviceReport>) -> Table {
    let mut forms: BTreeMap<_, Vec<DeviceReport>> = BTreeMap::new();
    for gpu in gpus {
        let seconds = (gpu.scrape_seconds * 1000.0) as u64;
        let form = (gpu.field.clone(), gpu.owner_labels.clone(), seconds);
        forms.entry(form).or_default().push(gpu);
    }
    let form = |gpus: Vec<DeviceReport>| {
        Some(Form {
            gpus: gpus.len(),
            newest: gpus.iter().filter_map(|gpu| gpu.newest.clone()).max(),
            first: gpus.into_iter().next()?,
        })
    };
    let forms = forms.into_values().filter_map(form);
    Table::of("Series of GPUs, by their form", FORMS, forms)
}
