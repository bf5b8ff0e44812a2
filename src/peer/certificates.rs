//! Certificates that end: the member's own, and those of others where the authority's key is at hand.

use std::net::SocketAddr;

use tracing::{info, warn};

use crate::base::{MemberId, Nonce};
use crate::node::Command;
use crate::trust::{Credentials, Refusal, expiry_warning, renewal_is_due};
use crate::wire::member_id;
use crate::wire::records::Certificate;

use super::member::{Member, PeerError, wall_s};

impl Member {
    /// Prolongs the certificate of a member that asks for it, if the authority's key is at hand.
    pub(super) async fn on_renew(
        &self,
        member: MemberId,
        nonce: Nonce,
        address: SocketAddr,
    ) -> Result<(), PeerError> {
        if let Some(certificate) = self.renew(member)? {
            info!(%member, name = certificate.name, until_s = certificate.not_after_s, "renewed a certificate");
            self.handle.command(Command::Renewed { to: address, member, nonce, certificate }).await?;
        }
        Ok(())
    }

    /// The member's newest certificate, prolonged if it is time. Nothing without the authority's key, and nothing for the
    /// banned.
    fn renew(&self, member: MemberId) -> Result<Option<Certificate>, PeerError> {
        let Some(authority) = self.home.load_authority()? else { return Ok(None) };
        let (roll, ledger) = (self.home.load_credentials()?.roll, self.home.load_ledger()?);
        let known = ledger.certificates().iter().filter(|known| member_id(&known.key) == member);
        let Some(newest) = known.max_by_key(|known| known.not_after_s) else { return Ok(None) };
        if roll.is_banned(newest.serial) {
            return Ok(None);
        }
        let now = wall_s();
        if !renewal_is_due(newest, now) {
            return Ok(Some(newest.clone()));
        }
        // On disk before it leaves, as with every certificate.
        let renewed = self.home.update_ledger(|ledger| ledger.renew(&authority, &newest.key, now))?;
        renewed
            .inspect_err(|refusal| warn!(%member, %refusal, "a renewal was refused"))
            .map_or(Ok(None), |new| Ok(Some(new)))
    }

    /// Once a minute: the own certificate is renewed if the authority's key is here, and otherwise its end is spoken of.
    pub(super) async fn look_after_certificate(&mut self) -> Result<(), PeerError> {
        let Ok(status) = self.handle.status().await else { return Ok(()) };
        let now = wall_s();
        if renewal_is_due(&status.certificate, now)
            && let Some(certificate) = self.renew(status.member)?
        {
            self.handle.command(Command::Certificate { certificate }).await?;
            return Ok(());
        }
        let days = expiry_warning(&status.certificate, now);
        if days.is_some() && days != self.warned_days {
            warn_of_end(&status.certificate, now);
        }
        self.warned_days = days;
        Ok(())
    }

    pub(super) async fn save_certificate(&self) {
        let Ok(status) = self.handle.status().await else { return };
        info!(until_s = status.certificate.not_after_s, "this member has a new certificate");
        if let Err(error) = self.home.save_certificate(&status.certificate) {
            warn!(%error, "cannot save the certificate");
        }
    }
}

pub(super) fn check_certificate(credentials: &Credentials, wall_s: u64) -> Result<(), PeerError> {
    match credentials.roll.check_validity(&credentials.certificate, wall_s) {
        Err(Refusal::NotYetValid) => {
            warn!("the certificate is not valid yet: is the clock right? nobody is believed until it is");
        }
        verdict => verdict.map_err(PeerError::Certificate)?,
    }
    warn_of_end(&credentials.certificate, wall_s);
    Ok(())
}

fn warn_of_end(certificate: &Certificate, wall_s: u64) {
    if let Some(days) = expiry_warning(certificate, wall_s) {
        warn!(
            days,
            "the certificate expires soon; the members are asked for a new one, which needs the founder's to run"
        );
    }
}
