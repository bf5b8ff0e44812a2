//! Which lists of checksums a job used, for its summary.

use std::collections::BTreeMap;

use serde::Serialize;

/// So many lists are reported one by one.
const MOST_REPORTED: usize = 1_000;

/// Which lists of checksums a job used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checksums {
    /// Lists by their addresses or paths, each with the number of files whose checksum it gave.
    pub lists: BTreeMap<String, u64>,
    /// Files that have a checksum in a list.
    pub files: u64,
    /// Files that have none.
    pub files_without: u64,
    /// Lists that could not be used, and why.
    pub unusable: BTreeMap<String, String>,
}

impl Checksums {
    /// A list gave the checksum of a file.
    pub fn used(&mut self, list: &str) {
        self.files += 1;
        if let Some(files) = self.lists.get_mut(list) {
            *files += 1;
        } else if self.lists.len() < MOST_REPORTED {
            self.lists.insert(list.to_owned(), 1);
        }
    }

    /// A list cannot be used.
    pub fn cannot_use(&mut self, list: &str, why: String) {
        if self.unusable.len() < MOST_REPORTED {
            self.unusable.insert(list.to_owned(), why);
        }
    }

    /// Adds the report of an earlier pull.
    pub fn merge(&mut self, other: Self) {
        for (list, files) in other.lists {
            *self.lists.entry(list).or_default() += files;
        }
        self.files += other.files;
        self.files_without += other.files_without;
        self.unusable.extend(other.unusable);
    }
}

/// As in `checksums: SHA256SUMS (120 files), 3 files without`: lists of one name are counted together.
impl std::fmt::Display for Checksums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (list, files) in &self.lists {
            let name = list.rsplit('/').next().unwrap_or(list);
            let count = by_name.entry(name).or_default();
            *count = (count.0 + 1, count.1 + files);
        }
        let files = |count: u64| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        let mut parts: Vec<String> = by_name
            .into_iter()
            .map(|(name, (lists, count))| match lists {
                1 => format!("{name} ({})", files(count)),
                _ => format!("{lists} lists {name} ({})", files(count)),
            })
            .collect();
        let told: u64 = self.lists.values().sum();
        if self.files > told {
            parts.push(format!("other lists ({})", files(self.files - told)));
        }
        if parts.is_empty() {
            parts.push("no list used".to_owned());
        }
        if self.files_without > 0 {
            parts.push(format!("{} without", files(self.files_without)));
        }
        if !self.unusable.is_empty() {
            parts.push(format!("{} unusable", self.unusable.len()));
        }
        write!(f, "checksums: {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_counts_lists_of_one_name_together() {
        let mut report = Checksums::default();
        assert_eq!(report.to_string(), "checksums: no list used");
        for _ in 0..3 {
            report.used("http://h/d/SHA256SUMS");
        }
        report.files_without = 1;
        assert_eq!(report.to_string(), "checksums: SHA256SUMS (3 files), 1 file without");
        report.used("http://h/d/e/SHA256SUMS");
        report.used("FILE.md5");
        let text = "checksums: FILE.md5 (1 file), 2 lists SHA256SUMS (4 files), 1 file without";
        assert_eq!(report.to_string(), text);
    }
}
