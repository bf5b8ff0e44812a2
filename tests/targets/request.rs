//! Any text as a request for a certificate, `sr1-…`.

use stroll::trust::Request;

use super::sealed;

pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        is_read_and_written(text);
    }
    is_read_and_written(&sealed::text("sr", data));
}

fn is_read_and_written(text: &str) {
    let Ok(request) = Request::parse(text) else { return };
    assert_eq!(Request::parse(&request.to_text()), Ok(request));
}
