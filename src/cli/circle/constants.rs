//! The charter's constants as flags, and what makes sense of them.

use std::time::Duration;

use clap::ValueEnum;
use stroll::base::CircleId;
use stroll::base::units::{format_duration, parse_duration};
use stroll::proto::agent::{Config, Invalid, Rules};
use stroll::wire::records::{ALIASES_LIMIT, Charter, Mode, RuleSet, SOURCE_LIMIT};

/// A charter writes spans as 32-bit numbers of milliseconds.
const LONGEST_SPAN: Duration = Duration::from_millis(u32::MAX as u64);

/// And how long the source keeps what it has as a 32-bit number of seconds.
const LONGEST_RETENTION: Duration = Duration::from_secs(u32::MAX as u64);

/// More bytes per second than any link carries; floating point is exact up to here.
const FASTEST: f64 = 1e15;

const UNITS: [(&str, u64); 6] =
    [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];

/// The constants that a charter fixes, each of which may be left open.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Constants {
    /// Δ_op: how long one visit of the token lets a member pull [new circle: 4s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_SLOT")]
    slot: Option<Duration>,

    /// Δ_skip: how long the token rests where no slot is due [new circle: 100ms]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_SKIP")]
    skip: Option<Duration>,

    /// N_max: the members for which the circle is laid out [new circle: 300]
    #[arg(long, value_name = "N", env = "STROLL_CAPACITY")]
    capacity: Option<u32>,

    /// Bytes per second that the one who pulls may take, such as 500k or 2Mi; 0 for no limit [new circle: 0]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, env = "STROLL_BANDWIDTH")]
    bandwidth: Option<u64>,

    /// Which rules the token follows [new circle: guarded]
    #[arg(long, value_enum, env = "STROLL_RULES")]
    rules: Option<RuleName>,

    /// d: how many members the holder asks before it hands off (guarded) [new circle: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), env = "STROLL_SCOUTS")]
    scouts: Option<u8>,

    /// How long the source keeps what it has, such as 1d: who falls behind is warned in time; 0 if unknown [new circle: 0]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_RETENTION")]
    retention: Option<Duration>,
}

/// A set of rules by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuleName {
    /// Ours: classic with scouting, sightings and custody
    Guarded,
    /// The Wandering Token, 2009
    Classic,
    /// The Wandering Token, 2007
    Early,
}

impl Constants {
    /// Writes what was said into the charter, and leaves the rest of it.
    pub(super) fn write_into(&self, charter: &mut Charter) {
        charter.slot = self.slot.unwrap_or(charter.slot);
        charter.skip = self.skip.unwrap_or(charter.skip);
        charter.capacity = self.capacity.unwrap_or(charter.capacity);
        charter.bandwidth = self.bandwidth.unwrap_or(charter.bandwidth);
        charter.scouts = self.scouts.unwrap_or(charter.scouts);
        charter.retention = self.retention.unwrap_or(charter.retention);
        charter.rules = match self.rules {
            Some(RuleName::Guarded) => RuleSet::Guarded,
            Some(RuleName::Classic) => RuleSet::Classic,
            Some(RuleName::Early) => RuleSet::Early,
            None => charter.rules,
        };
    }
}

/// The first charter of a new circle, before anything is said about it: the papers' case study. Circle and signature
/// are the authority's to fill in.
pub(super) fn usual(name: &str, source: &str, issued_s: u64) -> Charter {
    Charter {
        circle: CircleId::from_bytes([0; 16]),
        version: 1,
        issued_s,
        name: name.to_owned(),
        source: source.to_owned(),
        aliases: Vec::new(),
        slot: Duration::from_secs(4),
        skip: Duration::from_millis(100),
        capacity: 300,
        bandwidth: 0,
        rules: RuleSet::Guarded,
        scouts: 8,
        retention: Duration::ZERO,
        mode: Mode::Token,
        signature: [0; 64],
    }
}

/// Whether members could run by this charter; if not, which field is to blame.
pub(super) fn check(charter: &Charter) -> Result<(), Invalid> {
    let rules = match charter.rules {
        RuleSet::Guarded => Rules::guarded(),
        RuleSet::Classic => Rules::classic(),
        RuleSet::Early => Rules::early(),
    };
    Config::new(charter.slot, charter.skip, charter.capacity, rules)?;
    for (field, span) in [("slot", charter.slot), ("skip", charter.skip)] {
        if !span.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(Invalid::new(field, "must be a whole number of milliseconds"));
        }
        if span > LONGEST_SPAN {
            return Err(Invalid::new(field, "must be at most 49 days"));
        }
    }
    if charter.retention.subsec_nanos() != 0 {
        return Err(Invalid::new("retention", "must be a whole number of seconds"));
    }
    if charter.retention > LONGEST_RETENTION {
        return Err(Invalid::new("retention", "must be at most 136 years; 0 if the source keeps everything"));
    }
    check_source(&charter.source)?;
    check_aliases(charter)
}

fn check_aliases(charter: &Charter) -> Result<(), Invalid> {
    if charter.aliases.len() > ALIASES_LIMIT {
        return Err(Invalid::new("alias", "there can be 8 at most"));
    }
    for alias in &charter.aliases {
        check_source(alias).map_err(|error| Invalid::new("alias", error.reason))?;
    }
    if charter.sources().map(str::len).sum::<usize>() > SOURCE_LIMIT {
        return Err(Invalid::new("alias", "source and aliases together are longer than 300 bytes"));
    }
    Ok(())
}

/// Adds addresses of the same source that the charter does not have yet.
pub(super) fn add_aliases(charter: &mut Charter, aliases: &[String]) {
    for alias in aliases {
        if !charter.sources().any(|known| known == alias) {
            charter.aliases.push(alias.clone());
        }
    }
}

fn check_source(source: &str) -> Result<(), Invalid> {
    let wrong = |reason: &str| Err(Invalid::new("source", reason));
    let rest =
        ["ftp://", "ftps://", "http://", "https://"].iter().find_map(|scheme| source.strip_prefix(scheme));
    let Some(rest) = rest else {
        return wrong("must be a URL that begins with ftp://, ftps://, http:// or https://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(':') {
        // Every member reads the charter.
        return wrong("must not hold a password, every member would see it; put it into ~/.netrc");
    }
    if host.is_empty() || host.starts_with(':') {
        return wrong("names no server");
    }
    if source.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return wrong("has white space or control characters; write them as %20 and the like");
    }
    if source.len() > SOURCE_LIMIT {
        return wrong("is longer than 300 bytes");
    }
    Ok(())
}

/// Reads a rate in bytes per second: `0`, `500k`, `1.5M`, `2Mi`, `2MiB/s`.
fn parse_rate(text: &str) -> Result<u64, String> {
    let not_one = || format!("`{text}` is not a rate; write bytes per second, for example 500k, 1.5M or 2Mi");
    let short = text.trim();
    let short = short.strip_suffix("/s").unwrap_or(short);
    let short = short.strip_suffix('B').unwrap_or(short);
    let digits = short.trim_end_matches(char::is_alphabetic);
    let unit = match short.strip_prefix(digits).unwrap_or_default() {
        "" => 1,
        "K" => 1_000,
        name => UNITS.iter().find(|(unit, _)| *unit == name).ok_or_else(not_one)?.1,
    };
    let number: f64 = digits.trim_end().parse().map_err(|_| not_one())?;
    let rate = number * unit as f64;
    if !(0.0..=FASTEST).contains(&rate) {
        return Err(format!("`{text}` is out of range"));
    }
    if rate > 0.0 && rate < 1.0 {
        // Rounded it would be 0, the word for no limit.
        return Err(format!("`{text}` is less than a byte per second"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 1e15")]
    let bytes_per_sec = rate.round() as u64;
    Ok(bytes_per_sec)
}

/// Writes a rate so that it is read back exactly.
pub(super) fn format_rate(bytes_per_sec: u64) -> String {
    if bytes_per_sec == 0 {
        return "no limit".to_owned();
    }
    let whole = UNITS.iter().filter(|(_, unit)| bytes_per_sec.is_multiple_of(*unit));
    match whole.max_by_key(|(_, unit)| *unit) {
        Some((name, unit)) => format!("{}{name}B/s", bytes_per_sec / unit),
        None => format!("{bytes_per_sec}B/s"),
    }
}

/// How long the source keeps what it has, for people.
pub(super) fn format_retention(retention: Duration) -> String {
    if retention.is_zero() { "unknown".to_owned() } else { format_duration(retention) }
}

/// The rules by the name under which users know them.
pub(super) fn rules_name(rules: RuleSet) -> &'static str {
    match rules {
        RuleSet::Early => "early",
        RuleSet::Classic => "classic",
        RuleSet::Guarded => "guarded",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCE: &str = "ftp://ftp.example.org/stream/";

    fn blamed(change: impl FnOnce(&mut Charter)) -> &'static str {
        let mut charter = usual("virgo", SOURCE, 0);
        change(&mut charter);
        check(&charter).unwrap_err().field
    }

    #[test]
    fn the_usual_charter_makes_sense() {
        assert_eq!(check(&usual("virgo", SOURCE, 0)), Ok(()));
    }

    #[test]
    fn nonsense_is_refused_by_the_name_of_its_field() {
        assert_eq!(blamed(|charter| charter.slot = Duration::ZERO), "slot");
        assert_eq!(blamed(|charter| charter.slot = Duration::from_micros(4_000_500)), "slot");
        assert_eq!(blamed(|charter| charter.slot = Duration::from_secs(50 * 86_400)), "slot");
        assert_eq!(blamed(|charter| charter.skip = Duration::from_secs(4)), "skip");
        assert_eq!(blamed(|charter| charter.skip = Duration::from_micros(1)), "skip");
        assert_eq!(blamed(|charter| charter.capacity = 0), "capacity");
        assert_eq!(blamed(|charter| charter.retention = Duration::from_millis(1)), "retention");
        assert_eq!(blamed(|charter| charter.retention = Duration::MAX / 2), "retention");
        let alias = |aliases: &[&str]| {
            let aliases: Vec<String> = aliases.iter().map(|alias| (*alias).to_owned()).collect();
            blamed(|charter| charter.aliases = aliases)
        };
        assert_eq!(alias(&["example.org/stream/"]), "alias");
        assert_eq!(alias(&["http://h/"; ALIASES_LIMIT + 1]), "alias");
        assert_eq!(alias(&[&format!("http://h/{}", "x".repeat(280))]), "alias");
    }

    #[test]
    fn sources_are_urls_that_every_member_may_see() {
        for source in [SOURCE, "https://example.org", "ftp://anonymous@[2001:db8::1]:2121/a:b@c"] {
            assert_eq!(check_source(source), Ok(()), "{source}");
        }
        let long = format!("{SOURCE}{}", "x".repeat(SOURCE_LIMIT));
        let password = "ftp://user:secret@example.org/";
        for source in
            ["", "example.org/a", "file:///etc", "ftp://", "ftp:///a", "ftp://a b/", password, &long]
        {
            let error = check_source(source).unwrap_err();
            assert_eq!(error.field, "source", "{source}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn an_address_is_added_to_those_of_the_source_once() {
        let mut charter = usual("virgo", SOURCE, 0);
        let alias = "http://localhost/data/".to_owned();
        add_aliases(&mut charter, &[alias.clone(), SOURCE.to_owned(), alias.clone()]);
        assert_eq!(charter.aliases, [alias]);
        assert_eq!(check(&charter), Ok(()));
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, rate) in [
            ("0", 0),
            ("123", 123),
            ("500k", 500_000),
            ("500K", 500_000),
            ("1.5M", 1_500_000),
            ("64Ki", 65_536),
            ("2Mi", 2_097_152),
            ("2MiB/s", 2_097_152),
            (" 2 MB/s ", 2_000_000),
            ("1G", 1_000_000_000),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["", "k", "fast", "1q", "-1", "1e300", "nan", "inf", "0.4", "10Mbit", "1 2"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_written_in_the_unit_that_reads_best() {
        for (rate, text) in [
            (0, "no limit"),
            (123, "123B/s"),
            (500_000, "500kB/s"),
            (2_000_000, "2MB/s"),
            (2_097_152, "2MiB/s"),
            (1_024_000, "1000KiB/s"),
        ] {
            assert_eq!(format_rate(rate), text);
        }
    }

    proptest! {
        #[test]
        fn a_rate_that_was_written_is_read_back(rate in 1..1_000_000_000_000_000_u64) {
            prop_assert_eq!(parse_rate(&format_rate(rate)), Ok(rate));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = parse_rate(&text);
            let _ = check_source(&text);
        }
    }
}
