//! The part of the program that reads settings and scenarios. It is no part of the library, so the sources are taken in
//! here as they are; whoever includes this does so at the root of its crate, under the name `cli`.

#![allow(dead_code, reason = "only the reading is used")]

#[path = "../../src/cli/exit.rs"]
mod exit;
#[path = "../../src/cli/simulate/options.rs"]
mod options;
#[path = "../../src/cli/transfer.rs"]
mod transfer;

/// As the sources expect it.
mod simulate {
    pub(super) use super::options::Options;
}

/// The settings, as far as they need no more of the program than this.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Settings {
    transfer: transfer::Transfer,
    simulate: simulate::Options,
}

/// Reads the text both ways, and makes a plan of what it says.
pub(crate) fn read(text: &str) {
    if let Ok(settings) = toml::from_str::<Settings>(text) {
        drop(settings.simulate.resolve());
        drop((settings.transfer.timetable(), settings.transfer.chunk(), settings.transfer.min_speed()));
    }
    if let Ok(options) = toml::from_str::<simulate::Options>(text) {
        let merged = options.clone().or(simulate::Options::default());
        assert_eq!(merged, options);
        drop(options.resolve());
    }
}
