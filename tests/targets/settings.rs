//! Any text as a settings file or a scenario.

pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        crate::cli::read(text);
    }
}
