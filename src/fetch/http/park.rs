//! A connection that is opened before it is needed. The client can only connect for a request, so one is made that ends as
//! soon as there is a connection, which is parked here instead; the next request that has to connect takes it. Called by
//! the connection.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::fetch::Address;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Room for one connection. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Park(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What is done with the next connection.
    next: Next,
    /// A connection, of a type that only the client can name, and where it leads.
    parked: Option<(Address, Box<dyn Any + Send>)>,
}

#[derive(Debug, Default)]
enum Next {
    /// It is made and used, as ever.
    #[default]
    Use,
    /// It is made and parked.
    Park(Address),
    /// The parked one is used instead.
    Take,
}

impl Park {
    /// From now on connections are parked. They lead to this address.
    pub(super) fn park(&self, to: &Address) {
        self.state().next = Next::Park(to.clone());
    }

    /// From now on connections are used; to this origin the parked one is, if there is one. Nobody else gets it.
    pub(super) fn take(&self, to: &Address) {
        let mut state = self.state();
        let leads_there = state.parked.as_ref().is_some_and(|(address, _)| address.same_origin(to));
        state.next = if leads_there { Next::Take } else { Next::Use };
    }

    /// Whether one is parked.
    pub(super) fn is_taken(&self) -> bool {
        self.state().parked.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Layer<S> for Park {
    type Service = Parking<S>;

    fn layer(&self, inner: S) -> Parking<S> {
        Parking { inner, park: self.clone() }
    }
}

/// The client's connector, with a place to park.
#[derive(Clone, Debug)]
pub(super) struct Parking<S> {
    inner: S,
    park: Park,
}

impl<S, R> Service<R> for Parking<S>
where
    S: Service<R, Error = BoxError>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let mut state = self.park.state();
        match std::mem::take(&mut state.next) {
            Next::Use => Box::pin(self.inner.call(request)),
            Next::Park(to) => {
                let (connecting, park) = (self.inner.call(request), self.park.clone());
                Box::pin(async move {
                    let connection = connecting.await?;
                    park.state().parked = Some((to, Box::new(connection)));
                    Err("the connection is parked".into())
                })
            }
            Next::Take => match state.parked.take().map(|(_, connection)| connection.downcast()) {
                Some(Ok(connection)) => Box::pin(async move { Ok(*connection) }),
                _ => Box::pin(self.inner.call(request)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes numbers instead of connections.
    struct Counter(u32);

    impl Service<()> for Counter {
        type Response = u32;
        type Error = BoxError;
        type Future = std::future::Ready<Result<u32, BoxError>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            self.0 += 1;
            std::future::ready(Ok(self.0))
        }
    }

    fn address(text: &str) -> Address {
        Address::parse(text).expect(text).0
    }

    #[tokio::test]
    async fn a_parked_connection_is_taken_once_and_only_for_its_origin() {
        let park = Park::default();
        let mut connector = park.layer(Counter(0));
        park.park(&address("http://here/a"));
        assert!(connector.call(()).await.is_err(), "it is parked, not used");
        assert!(park.is_taken());
        park.take(&address("http://elsewhere/a"));
        assert_eq!(connector.call(()).await.expect("another one"), 2);
        park.take(&address("http://here/b"));
        assert_eq!(connector.call(()).await.expect("the parked one"), 1);
        assert!(!park.is_taken());
        park.take(&address("http://here/b"));
        assert_eq!(connector.call(()).await.expect("a new one"), 3);
    }
}
