//! Where the files of a `get` go, and which files they are.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stroll::fetch::sink::Digest;
use stroll::fetch::{Address, Logins, Name};
use stroll::jobs::pull::{To, Want};

use crate::cli::exit::UsageError;
use crate::cli::settings::read_text;
use crate::cli::transfer;

/// A longer list is nobody's.
const LIST_LIMIT: u64 = 64 << 20;

/// The addresses that were named, those of the list behind them.
pub(super) fn addresses(named: &[String], list: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let mut all = named.to_vec();
    if let Some(path) = list {
        let text = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().take(LIST_LIMIT).read_to_string(&mut text).context("standard input")?;
            text
        } else {
            read_text(path)?
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        all.extend(lines.map(str::to_owned));
    }
    if all.is_empty() {
        return Err(
            UsageError("nothing to get: name an address, or a list of them with --input".into()).into()
        );
    }
    Ok(all)
}

/// What is wanted, and the logins that stood in the addresses.
pub(super) fn wants(
    addresses: &[String],
    output: Option<&Path>,
    checksum: Option<&str>,
    logins: &mut Logins,
) -> Result<Vec<Want>, UsageError> {
    let expected = checksum
        .map(|text| text.parse::<Digest>().map_err(|error| UsageError(format!("checksum: {error}"))))
        .transpose()?;
    if expected.is_some() && addresses.len() > 1 {
        return Err(UsageError("checksum: is for one file; for several use --sums auto".into()));
    }
    let place = Place::new(output, addresses.len())?;
    let mut wants = Vec::with_capacity(addresses.len());
    for text in addresses {
        let address = transfer::address(text, logins)?;
        let to = place.of(&address)?;
        wants.push(Want { address, to, expected, ask_first: true, changed_within: None, known_etag: None });
    }
    without_twins(wants)
}

enum Place {
    Stdout,
    File { folder: PathBuf, name: Name },
    Folder(PathBuf),
}

impl Place {
    fn new(output: Option<&Path>, files: usize) -> Result<Self, UsageError> {
        let Some(path) = output else { return Ok(Self::Folder(PathBuf::from("."))) };
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let shown = path.display();
        if path.as_os_str().as_bytes().ends_with(b"/") || path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        if files > 1 {
            let cure = if path.exists() {
                "name a folder".to_owned()
            } else {
                format!("write --output {shown}/ for a new folder of that name")
            };
            return Err(UsageError(format!(
                "output: {shown} is not a folder, and there are {files} files to get; {cure}"
            )));
        }
        // The name as it was given: it need not be text.
        let name = path.file_name().unwrap_or_default().as_bytes();
        let name = Name::from_bytes(name).map_err(|why| UsageError(format!("output: {shown}: {why}")))?;
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self::File { folder, name })
    }

    fn of(&self, address: &Address) -> Result<To, UsageError> {
        Ok(match self {
            Self::Stdout => To::Stdout,
            Self::File { folder, name } => {
                To::File { root: folder.clone(), below: Vec::new(), name: name.clone() }
            }
            Self::Folder(_) if address.is_folder() => {
                return Err(UsageError(format!(
                    "{address}: a folder; copy it with `stroll mirror {address} DIR`, or name a file for its page with \
                     --output"
                )));
            }
            Self::Folder(folder) => {
                let name = address.file_name().map_err(|why| {
                    UsageError(format!(
                        "{address}: cannot be saved under the last part of its path ({why}); give a name with --output"
                    ))
                })?;
                To::File { root: folder.clone(), below: Vec::new(), name }
            }
        })
    }
}

/// Two addresses for one file would overwrite each other; the same one twice is pulled once.
fn without_twins(wants: Vec<Want>) -> Result<Vec<Want>, UsageError> {
    let mut seen = std::collections::BTreeMap::new();
    let mut single = Vec::with_capacity(wants.len());
    for want in wants {
        let To::File { name, .. } = &want.to else {
            single.push(want);
            continue;
        };
        match seen.insert(want.to.clone(), want.address.clone()) {
            Some(other) if other == want.address => {}
            Some(other) => {
                return Err(UsageError(format!(
                    "{other} and {} would both become {name}; pull them into different folders",
                    want.address
                )));
            }
            None => single.push(want),
        }
    }
    Ok(single)
}
