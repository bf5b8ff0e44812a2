//! Any bytes as a signed record: what can be read is written in the same way again, and a roll judges it calmly.

use stroll::trust::{Authority, PrivateKey, Request, Roll, Suite};
use stroll::wire::codec::{Reader, Writer};
use stroll::wire::records::{AddressRecord, Bans, Certificate, Charter, Entry, Signed};

use super::node::charter;

pub(crate) fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 6 {
        0 => is_judged(written_again::<Charter>(bytes), |roll, it| {
            _ = roll.offer_charter(it);
        }),
        1 => is_judged(written_again::<Bans>(bytes), |roll, it| {
            _ = roll.offer_bans(it);
        }),
        2 => is_judged(written_again::<Certificate>(bytes), |roll, it| {
            _ = roll.check_certificate(&it, it.not_before_s);
        }),
        3 => drop(written_again::<AddressRecord>(bytes)),
        4 => drop(written_again::<Request>(bytes)),
        _ => is_judged(read_entry(bytes), |roll, it| {
            _ = roll.check_entry(&it, it.certificate.not_after_s);
        }),
    }
}

fn written_again<R: Signed>(bytes: &[u8]) -> Option<R> {
    let record = R::decode(bytes).ok()?;
    assert_eq!(record.encode(), bytes);
    Some(record)
}

fn read_entry(bytes: &[u8]) -> Option<Entry> {
    let mut input = Reader::new(bytes);
    let entry = Entry::read(&mut input).ok()?;
    let mut out = Writer::new();
    entry.write(&mut out);
    assert_eq!(out.finish(), bytes[..bytes.len() - input.rest().len()]);
    Some(entry)
}

/// With simulated signatures: a fuzzer cannot sign, but whoever reads must not rely on that.
fn is_judged<R>(record: Option<R>, judge: impl FnOnce(&mut Roll, R)) {
    let Some(record) = record else { return };
    let authority = Authority::new(PrivateKey::from_seed(Suite::Simulated, [9; 32]));
    let charter = charter(&authority);
    let mut roll =
        Roll::new(Suite::Simulated, authority.public(), charter, None).expect("the charter is good");
    judge(&mut roll, record);
}
