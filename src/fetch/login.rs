//! Who we are at a source, and the secret that proves it.

use std::fmt;

use zeroize::Zeroizing;

use super::{Address, Fault};

/// A password. It never prints itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Keeps a password.
    pub fn new(password: String) -> Self {
        Self(Zeroizing::new(password))
    }

    /// The password, for the one who sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A user with its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// Where logins come from.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    given: Vec<(Address, Login)>,
}

impl Logins {
    /// A login for everything at the origin of this address.
    pub fn give(&mut self, address: Address, login: Login) {
        self.given.push((address, login));
    }

    /// The login for an address; `None` means anonymous.
    pub fn lookup(&self, address: &Address) -> Result<Option<Login>, Fault> {
        Ok(self.given.iter().find(|(at, _)| at.same_origin(address)).map(|(_, login)| login.clone()))
    }
}
