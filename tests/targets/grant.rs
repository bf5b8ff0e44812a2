//! Any text as an answer to a request, `sc1-…`.

use stroll::trust::{Grant, PrivateKey, Suite};

use super::sealed;

const NOW_S: u64 = 1_700_000_000;

pub(crate) fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        is_read_and_written(text);
    }
    is_read_and_written(&sealed::text("sc", data));
}

fn is_read_and_written(text: &str) {
    let Ok(grant) = Grant::parse(text) else { return };
    assert_eq!(Grant::parse(&grant.to_text()).as_ref(), Ok(&grant));
    for suite in [Suite::Ed25519, Suite::Simulated] {
        let key = PrivateKey::from_seed(suite, [3; 32]);
        if let Ok(roll) = grant.accept(&key, NOW_S) {
            assert_eq!(roll.check_certificate(&grant.certificate, NOW_S), Ok(()));
        }
    }
}
