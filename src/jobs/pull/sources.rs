//! A worker's connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::fetch::source::Source;
use crate::fetch::{Address, Connection as _, Fault, Options, Scheme};

/// Connections by origin, so that none is ever used for another host or another kind of security.
pub(super) struct Sources {
    by_origin: BTreeMap<(Scheme, String, u16), Vec<Source>>,
    connections: usize,
    options: Arc<Options>,
}

impl Sources {
    pub(super) fn new(connections: usize, options: Arc<Options>) -> Self {
        Self { by_origin: BTreeMap::new(), connections, options }
    }

    /// Those for an address.
    pub(super) fn of(&mut self, address: &Address) -> Result<&mut [Source], Fault> {
        let origin = (address.scheme(), address.host(), address.port());
        let sources = self.by_origin.entry(origin).or_default();
        while sources.len() < self.connections {
            sources.push(Source::new(address, &self.options)?);
        }
        Ok(sources)
    }

    pub(super) fn first(&mut self, address: &Address) -> Result<&mut Source, Fault> {
        Ok(self.of(address)?.first_mut().expect("there is at least one connection"))
    }

    /// Goes on with so many connections less, but with at least one.
    pub(super) async fn drop_surplus(&mut self, surplus: usize) {
        self.connections = self.connections.saturating_sub(surplus).max(1);
        for sources in self.by_origin.values_mut() {
            let kept = self.connections.min(sources.len());
            join_all(sources.drain(kept..).map(async |mut source| source.close().await)).await;
        }
    }

    /// Closes them all.
    pub(super) async fn close(&mut self) {
        join_all(self.by_origin.values_mut().flatten().map(Source::close)).await;
    }
}
