//! The flags of kube-controller-manager. They are in no API: its defaults are assumed.

use std::time::Duration;

use clap::Args;

use apimachinery::duration::{go_duration, parse_duration};
use hpa::ControllerFlags;

const TOLERANCE: &str = "horizontal-pod-autoscaler-tolerance";
const STABILISATION: &str = "horizontal-pod-autoscaler-downscale-stabilization";

/// As the controller names them: what it runs with can be copied.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Of hpa: flags of kube-controller-manager that are not its defaults")]
pub(crate) struct FlagArgs {
    /// Largest distance of the ratio from 1 that changes nothing [default: 0.1]
    #[arg(long = TOLERANCE, value_name = "NUMBER")]
    tolerance: Option<f64>,
    /// How long the highest recommendation prevents a scale-down [default: 5m]
    #[arg(long = STABILISATION, value_name = "DURATION", value_parser = parse_duration)]
    downscale_stabilisation: Option<Duration>,
}

pub(crate) fn a_second_or_more(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|error| error.to_string())?;
    (length >= Duration::from_secs(1))
        .then_some(length)
        .ok_or_else(|| "write a second or more".to_owned())
}

impl FlagArgs {
    /// The flags of the controller of Kubernetes 1.`minor`.
    pub(crate) fn or_defaults(&self, minor: u32) -> ControllerFlags {
        let mut flags = ControllerFlags::of_version(minor);
        flags.tolerance = self.tolerance.unwrap_or(flags.tolerance);
        let stabilisation = self.downscale_stabilisation;
        flags.downscale_stabilisation = stabilisation.unwrap_or(flags.downscale_stabilisation);
        flags
    }
}

/// The flags as written on a command line.
pub(crate) fn written(flags: &ControllerFlags) -> String {
    format!(
        "--{TOLERANCE}={} --{STABILISATION}={}",
        flags.tolerance,
        go_duration(flags.downscale_stabilisation)
    )
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
    fn flags_are_given_under_the_controllers_names_or_its_defaults() {
        let given = [
            "--horizontal-pod-autoscaler-tolerance=0.05",
            "--horizontal-pod-autoscaler-downscale-stabilization=1m0s",
        ];
        let args = parse(&given).unwrap();
        let expected = ControllerFlags {
            tolerance: 0.05,
            downscale_stabilisation: Duration::from_secs(60),
            ..ControllerFlags::of_version(35)
        };
        assert_eq!(args.or_defaults(35), expected);
        assert_eq!(written(&expected), given.join(" "));
        let none = parse(&[]).unwrap().or_defaults(35);
        assert_eq!(none, ControllerFlags::of_version(35));
        for wrong in ["tolerance=a", "downscale-stabilization=15"] {
            let wrong = format!("--horizontal-pod-autoscaler-{wrong}");
            assert!(parse(&[&wrong]).is_none(), "{wrong}");
        }
    }
}
