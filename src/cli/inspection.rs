//! What a source can do, for `stroll doctor --source`: whether it answers, lists, starts in the middle, and says which version it
//! sends. Asked only by order: it is a listing and one byte of one file, outside of any slot.

use std::sync::Arc;

use stroll::fetch::source::Source;
use stroll::fetch::{
    Address, Ask, Connection as _, Entry, EntryKind, Fault, Listing, Opened, Options, Version,
};

use super::bars::chain;
use super::doctor::Finding;
use super::transfer::Transfer;

/// What to look at where a source does not answer as it should.
const CURE: &str =
    "is the address of the charter right, and the login? can this machine reach the source at all?";

/// Asks a source what it can do: a login, a listing if it is a folder, and one byte of its first file.
pub(super) async fn inspect(source: &str, transfer: &Transfer) -> anyhow::Result<Vec<Finding>> {
    let mut logins = transfer.logins()?;
    let address = super::transfer::address(source, &mut logins)?;
    if let Some(login) = transfer.named_login()? {
        logins.give(address.clone(), login);
    }
    let options = Arc::new(transfer.options(logins)?);
    Ok(ask(&address, &options).await.unwrap_or_else(|fault| {
        vec![Finding::Mend { what: format!("the source {address}: {}", chain(&fault)), cure: CURE }]
    }))
}

async fn ask(address: &Address, options: &Arc<Options>) -> Result<Vec<Finding>, Fault> {
    let mut connection = Source::new(address, options)?;
    let (mut findings, file) = if address.is_folder() {
        let listing = connection.list(address).await?;
        let first = first_file(&listing).map(|entry| address.file(&entry.name));
        (of_listing(address, &listing), first)
    } else {
        (Vec::new(), Some(address.clone()))
    };
    if let Some(file) = file {
        // Not the first byte: whoever cannot start in the middle says so now.
        let opened = connection.open(Ask { address: &file, from: 1, length: Some(1), known: None }).await;
        connection.cut().await;
        findings.extend(of_file(&file, &opened?));
    }
    connection.close().await;
    Ok(findings)
}

/// A file with a middle to start in.
fn first_file(listing: &Listing) -> Option<&Entry> {
    listing
        .entries
        .iter()
        .find(|entry| entry.kind == EntryKind::File && entry.size.is_none_or(|size| size > 2))
}

fn of_listing(address: &Address, listing: &Listing) -> Vec<Finding> {
    let count = listing.entries.len();
    let noun = if count == 1 { "entry" } else { "entries" };
    let mut findings = vec![Finding::Well(format!("the source {address} answers and lists {count} {noun}"))];
    let mut files = listing.entries.iter().filter(|entry| entry.kind == EntryKind::File).peekable();
    if files.peek().is_none() {
        findings.push(Finding::Look("it lists no file, so nothing is known of its files".to_owned()));
        return findings;
    }
    let (mut has_sizes, mut has_times) = (true, true);
    for file in files {
        has_sizes &= file.size.is_some();
        has_times &= file.exact_s().is_some();
    }
    findings.push(if has_sizes {
        Finding::Well("its listing tells sizes to the byte".to_owned())
    } else {
        Finding::Look("its listing tells no exact sizes; files are asked for to learn them".to_owned())
    });
    findings.push(if has_times {
        Finding::Well("its listing tells times to the second".to_owned())
    } else {
        Finding::Look(
            "its listing tells no exact times; a change within a minute is seen by size only".to_owned(),
        )
    });
    if listing.truncated {
        findings.push(Finding::Look(
            "its listing is cut short; nothing is ever removed by such a one".to_owned(),
        ));
    }
    findings
}

fn of_file(file: &Address, opened: &Opened) -> Vec<Finding> {
    let Version { size, etag, modified_s, .. } = &opened.version;
    let ranges = if opened.ranges && opened.from == 1 {
        Finding::Well(format!("{file} can be pulled from the middle: what was cut goes on where it was"))
    } else {
        Finding::Look(format!("{file} comes from its beginning only: in a slot as a whole, or never"))
    };
    let sized = match size {
        Some(size) => Finding::Well(format!("its size is told: {size} bytes")),
        None => Finding::Look("its size is not told: whether all of it has come is not known".to_owned()),
    };
    let version = match (etag, modified_s) {
        (Some(_), _) => Finding::Well("its version is told by a strong tag".to_owned()),
        (None, Some(_)) => Finding::Well("its version is told by the time of its last change".to_owned()),
        (None, None) => Finding::Look(
            "its version is not told: before it is continued, the end of what is here is compared".to_owned(),
        ),
    };
    vec![ranges, sized, version]
}

#[cfg(test)]
mod tests {
    use stroll::fetch::Name;

    use super::*;

    fn looks(findings: &[Finding]) -> usize {
        findings.iter().filter(|finding| matches!(finding, Finding::Look(_))).count()
    }

    fn address() -> Address {
        Address::parse("http://h/data/").expect("an address").0
    }

    #[test]
    fn what_a_listing_does_not_tell_deserves_a_look() {
        let file = |size, modified_s, coarse_s| {
            let (name, kind) = (Name::new("f").expect("a name"), EntryKind::File);
            Listing { entries: vec![Entry { name, kind, size, modified_s, coarse_s }], ..Listing::default() }
        };
        assert_eq!(looks(&of_listing(&address(), &file(Some(7), Some(1), None))), 0);
        assert_eq!(looks(&of_listing(&address(), &file(Some(7), None, Some(1)))), 1);
        assert_eq!(looks(&of_listing(&address(), &file(None, None, None))), 2);
        assert_eq!(looks(&of_listing(&address(), &Listing::default())), 1);
        assert!(
            first_file(&file(Some(2), None, None)).is_none() && first_file(&file(None, None, None)).is_some()
        );
    }

    #[test]
    fn what_a_file_does_not_tell_deserves_a_look() {
        let version = Version { size: Some(9), modified_s: Some(1), ..Version::default() };
        let opened = Opened { version, from: 1, length: Some(1), ranges: true };
        assert_eq!(looks(&of_file(&address(), &opened)), 0);
        let plain = Opened { version: Version::default(), from: 0, length: None, ranges: false };
        assert_eq!(looks(&of_file(&address(), &plain)), 3);
    }
}
