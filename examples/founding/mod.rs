//! A circle on loopback, made with the library: what `stroll circle create` and `stroll join` do. The examples use it.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use stroll::base::CircleId;
use stroll::driver::random_bytes;
use stroll::trust::{Authority, Credentials, GateKey, Home, PrivateKey, Roll, Suite};
use stroll::wire::records::{Charter, Mode, RuleSet};

/// Who lets labs into the circle: its key, its charter, and the key that keeps strangers out.
pub(crate) struct Founder {
    authority: Authority,
    charter: Charter,
    gate: [u8; 32],
    serial: u64,
}

impl Founder {
    /// A circle with slots short enough to watch.
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let authority = Authority::new(PrivateKey::from_seed(Suite::Ed25519, random_bytes()?));
        let charter = authority.sign_charter(Charter {
            circle: CircleId::from_bytes([0; 16]), // the authority writes its own
            version: 1,
            issued_s: now_s()?,
            name: "example".into(),
            source: "ftp://ftp.example.org/stream/".into(),
            aliases: Vec::new(),
            slot: Duration::from_millis(400),
            skip: Duration::from_millis(20),
            capacity: 4,
            bandwidth: 0,
            rules: RuleSet::Guarded,
            scouts: 8,
            retention: Duration::ZERO,
            mode: Mode::Token,
            signature: [0; 64],
        });
        Ok(Self { authority, charter, gate: random_bytes()?, serial: 0 })
    }

    /// Lets a lab in: makes its key and its certificate, and writes the home from which its member starts.
    pub(crate) fn admit(
        &mut self,
        name: &str,
        greets: &[SocketAddr],
        folder: &Path,
    ) -> Result<Home, Box<dyn Error>> {
        self.serial += 1;
        let now_s = now_s()?;
        let key = PrivateKey::from_seed(Suite::Ed25519, random_bytes()?);
        let certificate = self.authority.issue(self.serial, key.public(), name, now_s - 60, now_s + 3_600)?;
        let roll = Roll::new(Suite::Ed25519, self.authority.public(), self.charter.clone(), None)?;
        let home = Home::create(folder.join(name))?;
        home.save_credentials(&Credentials {
            key,
            certificate,
            roll,
            gate: GateKey::from_bytes(self.gate),
            bootstrap: greets.to_vec(),
            name: name.into(),
            listen: ([127, 0, 0, 1], 0).into(),
        })?;
        Ok(home)
    }
}

fn now_s() -> Result<u64, Box<dyn Error>> {
    Ok(u64::try_from(jiff::Timestamp::now().as_second())?)
}
