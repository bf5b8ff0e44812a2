//! Any text as a duration.

use std::time::Duration;

use stroll::base::units::{format_duration, parse_duration};

/// What a floating-point number of seconds leaves open at the far end of the range.
const ROUNDING: Duration = Duration::from_micros(2);

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(span) = parse_duration(text) else { return };
    let written = format_duration(span);
    let again = parse_duration(&written).expect("what we write we read");
    assert!(span.abs_diff(again) <= ROUNDING, "{text:?} is {span:?}, written {written}, read {again:?}");
}
