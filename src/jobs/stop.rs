//! An order to stop, and waiting for something unless it comes.

use tokio::sync::watch;

/// What comes of `work`, or nothing if somebody says stop before. An order that cannot come any more is one.
pub async fn or_stop<T>(stop: &watch::Receiver<bool>, work: impl Future<Output = T>) -> Option<T> {
    let mut stop = stop.clone();
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => None,
        done = work => Some(done),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn an_order_to_stop_wins_and_so_does_its_absence_for_ever() {
        let (order, stop) = watch::channel(false);
        assert_eq!(or_stop(&stop, ready(1)).await, Some(1));
        order.send_replace(true);
        assert_eq!(or_stop(&stop, ready(1)).await, None);
        let (order, stop) = watch::channel(false);
        drop(order);
        assert_eq!(or_stop(&stop, pending::<()>()).await, None);
    }
}
