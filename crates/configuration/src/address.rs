//! An address of Prometheus as a flag.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

use prometheus_source::settings::{Addresses, InvalidUrl};

/// Parses addresses. Unlike clap's own parser it does not repeat a wrong value, which
/// may hold a credential.
#[derive(Clone, Copy, Debug)]
pub struct AddressParser;

impl TypedValueParser for AddressParser {
    type Value = Addresses;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Addresses, Error> {
        let text = value.to_str().unwrap_or_default();
        text.parse().map_err(|error: InvalidUrl| {
            let flag = arg.and_then(Arg::get_long).unwrap_or_default();
            let message = format!("--{flag}: {error}\n");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_not_repeated() {
        let flag = Arg::new("url").long("prometheus-url");
        let command = Command::new("x").arg(flag.value_parser(AddressParser));
        let words = ["x", "--prometheus-url", "prom:9090?token=hunter2"];
        let said = command.try_get_matches_from(words).unwrap_err().to_string();
        assert!(
            said.contains("--prometheus-url: is no URL: write"),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
}
