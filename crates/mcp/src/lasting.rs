//! Work that outlives whoever waits for it, and needs no task of its own as long as somebody does.
//!
//! A call must go on when its client hangs up, so it was a task of its own. But nearly always somebody waits for its end, and two
//! tasks that wait for each other cost an allocation, several wakes and often another processor. So whoever waits does the work
//! itself, and only when it goes away before the end a task goes on with what is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use kitbag_trace::Context as Place;
use tokio::runtime::Handle;

/// Work that goes on when this is dropped. Awaiting it does the work, to its end or its panic, which ends nobody else.
#[must_use = "it is begun by awaiting or dropping it"]
pub struct Lasting {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Where in a trace it was begun: it belongs there, whoever does it.
    place: Option<Place>,
}

impl Lasting {
    /// Work that begins when this is awaited or dropped.
    pub fn new(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), place: kitbag_trace::current() }
    }

    /// Lets a task go on with it.
    pub fn detach(self) {
        drop(self);
    }

    /// Nobody goes on with it.
    pub fn give_up(mut self) {
        self.work = None;
    }
}

impl Future for Lasting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { work: Some(work), place } = &mut *self else { return Poll::Ready(()) };
        // As in a task of its own: the hook has told of the panic, and what the work held is dropped, which tells who waits.
        let polled =
            catch_unwind(AssertUnwindSafe(|| kitbag_trace::poll_within(place.as_ref(), work.as_mut(), context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) | Err(_) => {
                self.work = None;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        // Without a runtime the program ends, and all work with it.
        if let (Some(mut work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            match self.place.take() {
                None => drop(runtime.spawn(work)),
                place => drop(runtime.spawn(async move { kitbag_trace::within(place, work.as_mut()).await })),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    #[tokio::test]
    async fn whoever_waits_does_the_work() {
        let waits = tokio::spawn(async {
            let (sender, receiver) = oneshot::channel();
            Lasting::new(async move { sender.send(tokio::task::try_id()).expect("somebody waits") }).await;
            (tokio::task::try_id(), receiver.await.ok().flatten())
        });
        let (waiting, worked) = waits.await.expect("nothing panics");
        assert!(waiting.is_some() && waiting == worked);
    }

    #[tokio::test]
    async fn it_goes_on_without_them() {
        let (go, (sender, receiver)) = (Arc::new(Notify::new()), oneshot::channel());
        let waits = Arc::clone(&go);
        let mut work = Lasting::new(async move {
            waits.notified().await;
            sender.send(5).expect("somebody waits");
        });
        tokio::select! {
            biased;
            () = &mut work => panic!("nobody let it go on"),
            () = std::future::ready(()) => {}
        }
        drop(work);
        go.notify_one();
        assert_eq!(receiver.await, Ok(5));
    }

    #[tokio::test]
    async fn a_panic_is_its_own() {
        let (sender, receiver) = oneshot::channel::<()>();
        Lasting::new(async move {
            let _held = sender;
            panic!("a defect");
        })
        .await;
        assert!(receiver.await.is_err(), "what it held is gone");
    }
}
