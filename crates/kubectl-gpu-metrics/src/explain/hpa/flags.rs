//! The flags of kube-controller-manager, given or assumed.

use std::time::Duration;

use clap::Args;

use apimachinery::duration::{go_duration, parse_duration};
use hpa::ControllerFlags;

/// As the controller names them: what it runs with can be copied.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Of hpa: flags of kube-controller-manager that are not its defaults")]
pub(crate) struct FlagArgs {
    /// Largest distance of the ratio from 1 that changes nothing [default: 0.1]
    #[arg(long = TOLERANCE, value_name = "NUMBER", value_parser = ratio)]
    tolerance: Option<f64>,
    /// How long the highest recommendation prevents a scale-down
    #[arg(long = STABILISATION, value_name = "DURATION", value_parser = parse_duration)]
    downscale_stabilisation: Option<Duration>,
    /// Sync period of the controller
    #[arg(long = SYNC, value_name = "DURATION", value_parser = a_second_or_more)]
    sync_period: Option<Duration>,
}

const TOLERANCE: &str = "horizontal-pod-autoscaler-tolerance";
const STABILISATION: &str = "horizontal-pod-autoscaler-downscale-stabilization";
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
        let flags = ControllerFlags::of_version(minor);
        ControllerFlags {
            minor,
            tolerance: self.tolerance.unwrap_or(flags.tolerance),
            downscale_stabilisation: self
                .downscale_stabilisation
                .unwrap_or(flags.downscale_stabilisation),
            sync_period: self.sync_period.unwrap_or(flags.sync_period),
        }
    }

    /// The flags as written on a command line, with a word for those that are assumed.
    pub(crate) fn written(&self, flags: &ControllerFlags) -> String {
        let (down, sync) = (flags.downscale_stabilisation, flags.sync_period);
        let all = [
            (
                TOLERANCE,
                flags.tolerance.to_string(),
                self.tolerance.is_some(),
            ),
            (
                STABILISATION,
                go_duration(down),
                self.downscale_stabilisation.is_some(),
            ),
            (SYNC, go_duration(sync), self.sync_period.is_some()),
        ];
        let write = |(name, value, is_given): (&str, String, bool)| {
            let assumed = if is_given { "" } else { " (assumed)" };
            format!("--{name}={value}{assumed}")
        };
        all.map(write).join(" ")
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
        let sync = "--horizontal-pod-autoscaler-sync-period=15s (assumed)";
        let written = [given[0], given[1], sync].join(" ");
        assert_eq!(args.written(&flags), written);
        for wrong in ["tolerance=-1", "tolerance=NaN", "sync-period=15"] {
            let wrong = format!("--horizontal-pod-autoscaler-{wrong}");
            assert!(parse(&[&wrong]).is_none(), "{wrong}");
        }
    }
}
