//! What explanations say of a device at each instant. That they agree with the values is
//! checked in every case.

use super::Wanted;
use crate::answers::Answers;

pub(super) const TABLE: &str = "
# each instant has the outcome of the device
window 60; pods p
A exported_namespace=n exported_pod=p modelName=H100 Hostname=node-1: 80 0 60 40
= explained p memory_utilization [Active 80, Idle 0 -, Active 60, Active 40]; \
    explained p memory_utilization H100 on node-1 by DCGM_FI_DEV_MEM_COPY_UTIL; \
    explained p memory_utilization held by n/p; \
    explained p idle_count [Active 80 -, Idle 0, Active 60 -, Active 40 -]

# a count of held devices does not depend on activity
window 60; pods p
A exported_namespace=n exported_pod=p: 80 0 60 40
= explained p held_count [Held 80, Held 0, Held 60, Held 40]; explained p held_count idle unknown

# the idle time of a device reaches beyond the window
window 60; pods p
A exported_namespace=n exported_pod=p: 80 40 0 0 0 0 0 0
= explained p memory_utilization idle 76; explained deployment memory_utilization idle 76

# a device that was always idle may have been so for longer
window 60; pods p
A exported_namespace=n exported_pod=p: 0*8
= explained p memory_utilization idle 106 or longer

# a device in use is not idle
window 60; pods p
A exported_namespace=n exported_pod=p: 0*7 40
= explained p memory_utilization idle 0

# a device names the pods that held it in the window, in turn as well
window 60; pods p q
A job=dcgm instance=i exported_namespace=n exported_pod=p: 50*6
A job=dcgm instance=i exported_namespace=n exported_pod=q: ·*6 30*6
= explained deployment memory_utilization held by n/p n/q; \
    explained deployment memory_utilization Active 30]

# the model of a device is that of its newest series
window 60; pods p
A job=d instance=i modelName=old exported_namespace=n exported_pod=p: 40*4
A job=d instance=i modelName=new exported_namespace=n exported_pod=p: ·*4 40
= p 40; explained p memory_utilization new on node-1
";

/// The first device of an explanation. After the number of a reading, `-`: it is not counted.
pub(super) fn told(answers: &Answers, of: &Wanted<'_>) -> String {
    let explanation = answers.explain(&of.object, &of.metric).unwrap();
    let device = &explanation.devices[0];
    let readings = device.readings.iter().map(|reading| {
        let number = reading.number.map(|number| format!(" {number}"));
        let left_out = if reading.counted { "" } else { " -" };
        format!(
            "{:?}{}{left_out}",
            reading.state,
            number.unwrap_or_default()
        )
    });
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let idle = device.idle_since.map_or("unknown".to_owned(), |idle| {
        let longer = if idle.or_longer { " or longer" } else { "" };
        format!("{}{longer}", idle.seconds)
    });
    format!(
        "{} on {} by {} held by {} idle {idle} [{}]",
        text(&device.model),
        text(&device.node),
        text(&device.field),
        device.pods.join(" "),
        readings.collect::<Vec<_>>().join(", "),
    )
}
