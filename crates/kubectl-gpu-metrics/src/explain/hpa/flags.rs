//! The flags of kube-controller-manager, given or assumed.

use std::time::Duration;

use clap::Args;

use apimachinery::duration::{go_duration, parse_duration};
use hpa::ControllerFlags;

/// As the controller names them: what it runs with can be copied.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Of hpa: flags of kube-controller-manager that are not its defaults")]
pub(crate) struct FlagArgs {
    /// Largest distance of the ratio from 1 that changes nothing
    #[arg(long = TOLERANCE, value_name = "NUMBER", value_parser = ratio)]
    tolerance: Option<f64>,
    /// How long the highest recommendation prevents a scale-down
    #[arg(long = STABILISATION, value_name = "DURATION", value_parser = parse_duration)]
    downscale_stabilisation: Option<Duration>,
    /// How long after a pod's start its CPU usage is used only if the pod is ready
    #[arg(long = INITIALIZATION, value_name = "DURATION", value_parser = parse_duration)]
    cpu_initialization: Option<Duration>,
    /// How long after a pod's start a pod that was never ready counts as starting
    #[arg(long = READINESS, value_name = "DURATION", value_parser = parse_duration)]
    initial_readiness: Option<Duration>,
    /// Sync period of the controller
    #[arg(long = SYNC, value_name = "DURATION", value_parser = a_second_or_more)]
    sync_period: Option<Duration>,
}

const TOLERANCE: &str = "horizontal-pod-autoscaler-tolerance";
const STABILISATION: &str = "horizontal-pod-autoscaler-downscale-stabilization";
const INITIALIZATION: &str = "horizontal-pod-autoscaler-cpu-initialization-period";
const READINESS: &str = "horizontal-pod-autoscaler-initial-readiness-delay";
const SYNC: &str = "horizontal-pod-autoscaler-sync-period";

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|it| (0.0..10.0).contains(it));
    ratio.ok_or_else(|| "write a share such as 0.1".to_owned())
}

pub(crate) fn a_second_or_more(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|error| error.to_string())?;
    (length >= Duration::from_secs(1))
        .then_some(length)
        .ok_or_else(|| "write a second or more".to_owned())
}

impl FlagArgs {
    /// The flags that the controller of Kubernetes 1.`minor` is assumed to run with.
    pub(crate) fn or_defaults(&self, minor: u32) -> ControllerFlags {
        let mut flags = ControllerFlags::of_version(minor);
        flags.tolerance = self.tolerance.unwrap_or(flags.tolerance);
        for (given, _, flag) in self.durations(&mut flags) {
            *flag = given.unwrap_or(*flag);
        }
        flags
    }

    /// The durations: as given, by name, and in force.
    fn durations<'f>(
        &self,
        flags: &'f mut ControllerFlags,
    ) -> [(Option<Duration>, &'static str, &'f mut Duration); 4] {
        let (down, cpu) = (self.downscale_stabilisation, self.cpu_initialization);
        [
            (down, STABILISATION, &mut flags.downscale_stabilisation),
            (cpu, INITIALIZATION, &mut flags.cpu_initialization),
            (
                self.initial_readiness,
                READINESS,
                &mut flags.initial_readiness,
            ),
            (self.sync_period, SYNC, &mut flags.sync_period),
        ]
    }

    /// The flags as written on a command line: the given ones, and the assumed ones.
    pub(crate) fn written(&self, flags: &ControllerFlags) -> [Vec<String>; 2] {
        let (mut given, mut assumed) = (Vec::new(), Vec::new());
        let mut write = |is_given: bool, flag: String| {
            let flags = if is_given { &mut given } else { &mut assumed };
            flags.push(flag);
        };
        let tolerance = format!("--{TOLERANCE}={}", flags.tolerance);
        write(self.tolerance.is_some(), tolerance);
        for (own, name, value) in self.durations(&mut flags.clone()) {
            write(own.is_some(), format!("--{name}={}", go_duration(*value)));
        }
        let (gate, to_zero) = (flags.configurable_tolerance, flags.scales_to_zero());
        assumed.push(format!(
            "--feature-gates=HPAConfigurableTolerance={gate},HPAScaleToZero={to_zero}"
        ));
        [given, assumed]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        flags: FlagArgs,
    }

    fn parse(arguments: &[&str]) -> Option<FlagArgs> {
        let all = std::iter::once(&"explain").chain(arguments);
        Some(Only::try_parse_from(all).ok()?.flags)
    }

    #[test]
    fn flags_are_given_under_the_controllers_names_or_assumed() {
        let given = [
            "--horizontal-pod-autoscaler-tolerance=0.05",
            "--horizontal-pod-autoscaler-downscale-stabilization=1m0s",
        ];
        let args = parse(&given).unwrap();
        let flags = args.or_defaults(35);
        let expected = ControllerFlags {
            tolerance: 0.05,
            downscale_stabilisation: Duration::from_secs(60),
            ..ControllerFlags::of_version(35)
        };
        assert_eq!(flags, expected);
        let [written, assumed] = args.written(&flags);
        assert_eq!(written, given);
        let expected = [
            "--horizontal-pod-autoscaler-cpu-initialization-period=5m0s",
            "--horizontal-pod-autoscaler-initial-readiness-delay=30s",
            "--horizontal-pod-autoscaler-sync-period=15s",
            "--feature-gates=HPAConfigurableTolerance=true,HPAScaleToZero=false",
        ];
        assert_eq!(assumed, expected);
        for wrong in ["tolerance=-1", "tolerance=NaN", "sync-period=15"] {
            let wrong = format!("--horizontal-pod-autoscaler-{wrong}");
            assert!(parse(&[&wrong]).is_none(), "{wrong}");
        }
    }
}
