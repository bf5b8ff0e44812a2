//! Checksums that lie beside the files: `FILE.sha256`, `SHA256SUMS` and their like.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::fetch::sink::{Algorithm, Digest, Sums};
use crate::fetch::source::pull_small;
use crate::fetch::{Address, Connection, Fault, Name};

/// A checksum of one file is a line; ten thousand bytes are generous.
const SINGLE_LIMIT: usize = 10_000;

/// A larger list is nobody's.
const LIST_LIMIT: usize = 64 << 20;

/// The lists of a folder, best first.
const LISTS: [(&str, Algorithm); 4] = [
    ("SHA256SUMS", Algorithm::Sha256),
    ("sha256sums.txt", Algorithm::Sha256),
    ("SHA512SUMS", Algorithm::Sha512),
    ("MD5SUMS", Algorithm::Md5),
];

/// What may lie beside a single file, best first.
const ENDINGS: [(&str, Algorithm); 3] =
    [(".sha256", Algorithm::Sha256), (".sha512", Algorithm::Sha512), (".md5", Algorithm::Md5)];

/// A list that does not know a file may be older than the file: then it is read again, but not more often than this.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Looks for checksums at the source, each list once, and again if it does not know a file.
#[derive(Debug, Default)]
pub(super) struct SumsBeside {
    by_folder: BTreeMap<String, Lists>,
}

#[derive(Debug)]
struct Lists {
    lists: Vec<Sums>,
    read_at: Instant,
}

impl Lists {
    async fn read<C: Connection>(source: &mut C, folder: &Address) -> Result<Self, Fault> {
        Ok(Self { lists: lists_in(source, folder).await?, read_at: Instant::now() })
    }

    fn digest_of(&self, name: &Name) -> Option<Digest> {
        self.lists.iter().find_map(|list| list.digest_of(name.as_str()))
    }

    fn is_worth_reading_again(&self) -> bool {
        !self.lists.is_empty() && self.read_at.elapsed() > READ_AGAIN_AFTER
    }
}

impl SumsBeside {
    /// The checksum of a file, if the source has one.
    pub(super) async fn find<C: Connection>(
        &mut self,
        source: &mut C,
        address: &Address,
    ) -> Result<Option<Digest>, Fault> {
        let (Ok(name), Some(folder)) = (address.file_name(), address.parent()) else { return Ok(None) };
        let key = folder.to_string();
        let known = self.by_folder.get(&key);
        let is_old = |lists: &Lists| lists.digest_of(&name).is_none() && lists.is_worth_reading_again();
        if known.is_none_or(is_old) {
            let lists = Lists::read(source, &folder).await?;
            self.by_folder.insert(key.clone(), lists);
        }
        if let Some(digest) = self.by_folder.get(&key).and_then(|lists| lists.digest_of(&name)) {
            return Ok(Some(digest));
        }
        for (ending, algorithm) in ENDINGS {
            let Ok(beside) = Name::new(&format!("{name}{ending}")) else { continue };
            if let Some(content) = pull_small(source, &folder.file(&beside), SINGLE_LIMIT).await? {
                let sums = Sums::parse(&content, Some(algorithm));
                if let Some(digest) = sums.digest_of_only(name.as_str()) {
                    return Ok(Some(digest));
                }
            }
        }
        Ok(None)
    }
}

async fn lists_in<C: Connection>(source: &mut C, folder: &Address) -> Result<Vec<Sums>, Fault> {
    let mut lists = Vec::new();
    for (name, algorithm) in LISTS {
        let Ok(name) = Name::new(name) else { continue };
        if let Some(content) = pull_small(source, &folder.file(&name), LIST_LIMIT).await? {
            lists.push(Sums::parse(&content, Some(algorithm)));
        }
    }
    Ok(lists)
}
