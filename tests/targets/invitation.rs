//! Any text as an invitation, `st1-…`.

use stroll::trust::Invitation;

use super::sealed;

const NOW_S: u64 = 1_700_000_000;

pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        is_read_and_written(text);
    }
    is_read_and_written(&sealed::text("st", data));
}

fn is_read_and_written(text: &str) {
    let Ok(invitation) = Invitation::parse(text, NOW_S) else { return };
    let written = invitation.to_text();
    let again = Invitation::parse(&written, NOW_S).expect("what we write we read");
    assert_eq!(again.to_text(), written);
    let pasted: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    assert_eq!(pasted.to_lowercase(), *written, "one invitation has one text");
}
