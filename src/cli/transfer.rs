//! How to pull: the options that every transfer command has, by flags, environment or file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use directories::BaseDirs;
use serde::Deserialize;
use stroll::base::units::{deserialize_duration, parse_duration, parse_rate, parse_size};
use stroll::fetch::address::UserInfo;
use stroll::fetch::timetable::Timetable;
use stroll::fetch::{Address, FtpTls, Login, Logins, Options, Secret, tls};
use stroll::jobs::Patience;

use super::exit::UsageError;

/// How to pull. Each may be left open; one struct serves flags and settings, so that they cannot differ.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Transfer {
    /// Connections at a time: to one file, or each to a file of its own [default: 1]
    #[arg(long, value_name = "N", env = "STROLL_CONNECTIONS")]
    pub(super) connections: Option<usize>,

    /// How fast at most, in bytes a second: 2M, 10Mbit, off, or a timetable as rclone's
    /// ("Mon-08:00,512k Fri-21:00,off", with TZ=Europe/Rome in front if need be). In a circle it is an average over the
    /// time between two slots: within a slot a job may be faster [default: off]
    #[arg(long, value_name = "RATE|TIMETABLE", env = "STROLL_BWLIMIT")]
    pub(super) bwlimit: Option<String>,

    /// Size of the pieces that are asked for: `auto` follows slot and throughput [default: auto]
    #[arg(long, value_name = "auto|SIZE", env = "STROLL_CHUNK")]
    pub(super) chunk: Option<String>,

    /// How often to try again when nothing comes [default: 10]
    #[arg(long, value_name = "N", env = "STROLL_RETRIES")]
    pub(super) retries: Option<u32>,

    /// How long to leave a source alone that refuses, at least; doubled each time [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_REFUSAL_WAIT")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) refusal_wait: Option<Duration>,

    /// How long the source may be silent [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_TIMEOUT")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) timeout: Option<Duration>,

    /// Give up a connection that is slower than this for 30 s; 0 for never [default: 1k]
    #[arg(long, value_name = "RATE", env = "STROLL_MIN_SPEED")]
    pub(super) min_speed: Option<String>,

    /// How long a connection may stay open between two slots [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, env = "STROLL_IDLE_GRACE")]
    #[serde(deserialize_with = "deserialize_duration")]
    pub(super) idle_grace: Option<Duration>,

    /// Whom the operator of the source may write to, such as you@lab: tell them [default: nobody]
    #[arg(long, value_name = "ADDRESS", env = "STROLL_CONTACT")]
    pub(super) contact: Option<String>,

    /// Proxy for HTTP, instead of what the environment says
    #[arg(long, value_name = "URL", env = "STROLL_PROXY")]
    pub(super) proxy: Option<String>,

    /// Follow redirects to this host too, without credentials; repeatable, * for any [default: none]
    #[arg(long, value_name = "HOST", value_delimiter = ',', env = "STROLL_FOLLOW_TO")]
    pub(super) follow_to: Option<Vec<String>>,

    /// Whether FTP is spoken inside TLS; passwords go out in plain text with off only [default: try]
    #[arg(long, value_enum, value_name = "WHEN", env = "STROLL_FTP_TLS")]
    pub(super) ftp_tls: Option<WhenTls>,

    /// Trust the authorities and servers' certificates in this PEM file, and no others
    #[arg(long, value_name = "FILE", env = "STROLL_CA_FILE")]
    pub(super) ca_file: Option<PathBuf>,

    /// Users and passwords [default: ~/.netrc]
    #[arg(long, value_name = "FILE", env = "STROLL_NETRC_FILE")]
    pub(super) netrc_file: Option<PathBuf>,

    /// User at the source, with --password-file or --password-command
    #[arg(long, value_name = "NAME", env = "STROLL_USER")]
    pub(super) user: Option<String>,

    /// File with the password in its first line; only you may be able to read it
    #[arg(long, value_name = "FILE", env = "STROLL_PASSWORD_FILE")]
    pub(super) password_file: Option<PathBuf>,

    /// Command that prints the password
    #[arg(long, value_name = "COMMAND", env = "STROLL_PASSWORD_COMMAND")]
    pub(super) password_command: Option<String>,
}

/// When FTP is spoken inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WhenTls {
    /// Always; a server without it is an error
    Required,
    /// Where the server offers it, and for every login with a password
    Try,
    /// Never: everything is plain text
    Off,
}

impl From<WhenTls> for FtpTls {
    fn from(when: WhenTls) -> Self {
        match when {
            WhenTls::Required => Self::Required,
            WhenTls::Try => Self::Try,
            WhenTls::Off => Self::Off,
        }
    }
}

impl Transfer {
    /// What is left open here is taken from the settings.
    #[must_use]
    pub(super) fn or(self, settings: Self) -> Self {
        Self {
            connections: self.connections.or(settings.connections),
            bwlimit: self.bwlimit.or(settings.bwlimit),
            chunk: self.chunk.or(settings.chunk),
            retries: self.retries.or(settings.retries),
            refusal_wait: self.refusal_wait.or(settings.refusal_wait),
            timeout: self.timeout.or(settings.timeout),
            min_speed: self.min_speed.or(settings.min_speed),
            idle_grace: self.idle_grace.or(settings.idle_grace),
            contact: self.contact.or(settings.contact),
            proxy: self.proxy.or(settings.proxy),
            follow_to: self.follow_to.or(settings.follow_to),
            ftp_tls: self.ftp_tls.or(settings.ftp_tls),
            ca_file: self.ca_file.or(settings.ca_file),
            netrc_file: self.netrc_file.or(settings.netrc_file),
            user: self.user.or(settings.user),
            password_file: self.password_file.or(settings.password_file),
            password_command: self.password_command.or(settings.password_command),
        }
    }

    pub(super) fn connections(&self) -> Result<usize, UsageError> {
        match self.connections {
            Some(n @ 1..=32) => Ok(n),
            None => Ok(1),
            Some(n) => Err(UsageError(format!("connections: {n} is not between 1 and 32; one is polite"))),
        }
    }

    pub(super) fn timetable(&self) -> Result<Timetable, UsageError> {
        let text = self.bwlimit.as_deref().unwrap_or("off");
        Timetable::parse(text).map_err(|error| UsageError(format!("bwlimit: {error}")))
    }

    pub(super) fn chunk(&self) -> Result<Option<u64>, UsageError> {
        match self.chunk.as_deref() {
            None | Some("auto") => Ok(None),
            Some(text) => match parse_size(text) {
                Ok(0) => Err(UsageError("chunk: must be more than nothing".into())),
                Ok(size) => Ok(Some(size)),
                Err(error) => Err(UsageError(format!("chunk: {error}"))),
            },
        }
    }

    pub(super) fn min_speed(&self) -> Result<u64, UsageError> {
        match self.min_speed.as_deref() {
            None => Ok(1024),
            Some(text) => parse_rate(text).map_err(|error| UsageError(format!("min-speed: {error}"))),
        }
    }

    pub(super) fn patience(&self) -> Patience {
        let usual = Patience::default();
        Patience {
            retries: self.retries.unwrap_or(usual.retries),
            refusal_wait: self.refusal_wait.unwrap_or(usual.refusal_wait),
            ..usual
        }
    }

    pub(super) fn idle_grace(&self) -> Duration {
        self.idle_grace.unwrap_or(Duration::from_secs(2))
    }

    /// How connections behave. `logins` has what the addresses themselves said.
    pub(super) fn options(&self, logins: Logins) -> anyhow::Result<Options> {
        let mut options = Options::new(tls::client_config(self.ca_file.as_deref())?);
        if let Some(timeout) = self.timeout {
            options.answer_within = timeout;
            options.stall_after = timeout;
        }
        options.contact.clone_from(&self.contact);
        options.proxy.clone_from(&self.proxy);
        options.follow_to = self.follow_to()?;
        options.ftp_tls = self.ftp_tls.map_or(FtpTls::default(), FtpTls::from);
        options.logins = logins;
        Ok(options)
    }

    fn follow_to(&self) -> Result<Vec<String>, UsageError> {
        let hosts = self.follow_to.clone().unwrap_or_default();
        match hosts.iter().find(|host| host.is_empty() || host.contains(['/', '@', ' '])) {
            Some(wrong) => {
                Err(UsageError(format!("follow-to: `{wrong}` is not a host name; write HOST or *")))
            }
            None => Ok(hosts),
        }
    }

    /// Users and passwords from the netrc file. One that was named must be there.
    pub(super) fn logins(&self) -> anyhow::Result<Logins> {
        if let Some(path) = &self.netrc_file {
            return Ok(Logins::with_netrc(path)?);
        }
        let usual = BaseDirs::new().map(|dirs| dirs.home_dir().join(".netrc"));
        match usual.filter(|path| path.exists()) {
            Some(path) => Ok(Logins::with_netrc(&path)?),
            None => Ok(Logins::default()),
        }
    }

    /// The login that was named on the command line, if one was.
    pub(super) fn named_login(&self) -> anyhow::Result<Option<Login>> {
        let password = match (&self.password_file, &self.password_command) {
            (Some(_), Some(_)) => {
                let why = "--password-file and --password-command cannot be combined";
                return Err(UsageError(why.into()).into());
            }
            (Some(path), None) => Some(Secret::from_file(path)?),
            (None, Some(command)) => Some(Secret::from_command(command)?),
            (None, None) => None,
        };
        match (&self.user, password) {
            (Some(user), Some(password)) => Ok(Some(Login { user: user.clone(), password })),
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err(UsageError("user: needs --password-file or --password-command".into()).into())
            }
            (None, Some(_)) => Err(UsageError("password: needs --user".into()).into()),
        }
    }
}

/// An address as the user wrote it. A login that stands in it is taken out and kept with the others.
pub(super) fn address(text: &str, logins: &mut Logins) -> Result<Address, UsageError> {
    let (address, info) = Address::parse(text).map_err(|error| UsageError(error.to_string()))?;
    if let Some(UserInfo { user, password }) = info {
        let password = Secret::new(password.map(|secret| secret.to_string()).unwrap_or_default());
        logins.give(address.clone(), Login { user, password });
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_the_settings() {
        let flag = Transfer { retries: Some(1), ..Transfer::default() };
        let file = Transfer { retries: Some(2), connections: Some(3), ..Transfer::default() };
        let both = flag.or(file);
        assert_eq!((both.retries, both.connections), (Some(1), Some(3)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let wrong = |transfer: Transfer, field: &str| {
            let error = [
                transfer.connections().err(),
                transfer.timetable().err(),
                transfer.chunk().err(),
                transfer.min_speed().err(),
                transfer.follow_to().err(),
            ];
            let said = error.into_iter().flatten().next().expect(field).to_string();
            assert!(said.starts_with(field), "{said}");
        };
        wrong(Transfer { connections: Some(0), ..Transfer::default() }, "connections");
        wrong(Transfer { bwlimit: Some("fast".into()), ..Transfer::default() }, "bwlimit");
        wrong(Transfer { chunk: Some("0".into()), ..Transfer::default() }, "chunk");
        wrong(Transfer { min_speed: Some("-1".into()), ..Transfer::default() }, "min-speed");
        wrong(Transfer { follow_to: Some(vec!["https://x/".into()]), ..Transfer::default() }, "follow-to");
    }
}
