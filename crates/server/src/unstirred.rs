//! A future that wakes itself while it is polled is polled again at once, and nobody else hears of it.
//!
//! A body that came with its head is taken from its connection by the very task that put it there, which wakes that task. A runtime
//! answers such a wake by queueing the task and waking another processor for it, at every request.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// So often it is polled again at once. Then others have their turn: it may be what it waits for.
const AGAIN: usize = 2;

/// Such a future.
pub(crate) struct Unstirred<F> {
    future: F,
    bell: Arc<Bell>,
    /// The same, as futures want it.
    waker: Waker,
}

struct Bell {
    /// Who is woken.
    task: Mutex<Waker>,
    /// The thread that polls just now; 0 is none.
    polled_by: AtomicUsize,
    /// Whether it rang while that one polled.
    rang: AtomicBool,
}

impl<F: Future + Unpin> Unstirred<F> {
    pub(crate) fn new(future: F) -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let bell = Arc::new(Bell { task, polled_by: AtomicUsize::new(0), rang: AtomicBool::new(false) });
        Self { future, waker: Waker::from(Arc::clone(&bell)), bell }
    }

    /// The future itself.
    pub(crate) fn inner(&mut self) -> Pin<&mut F> {
        Pin::new(&mut self.future)
    }
}

impl<F: Future + Unpin> Future for Unstirred<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.bell.hand_to(context.waker());
        for _ in 0..=AGAIN {
            this.bell.polled_by.store(here(), Ordering::SeqCst);
            let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
            this.bell.polled_by.store(0, Ordering::SeqCst);
            let rang = this.bell.rang.swap(false, Ordering::SeqCst);
            if polled.is_ready() || !rang {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Bell {
    fn hand_to(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.will_wake(waker) {
            task.clone_from(waker);
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.polled_by.load(Ordering::SeqCst) == here() {
            self.rang.store(true, Ordering::SeqCst);
        } else {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

/// A number that this thread alone has.
fn here() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn counted() -> (Arc<Counted>, Waker) {
        let count = Arc::new(Counted(AtomicUsize::new(0)));
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn one_that_wakes_itself_goes_on_at_once() {
        let (woken, waker) = counted();
        let mut polls = 0;
        let future = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let polled = Pin::new(&mut Unstirred::new(future)).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_ready());
        assert_eq!((polls, woken.0.load(Ordering::SeqCst)), (2, 0));
    }

    #[test]
    fn one_that_never_stops_lets_others_have_their_turn() {
        let (woken, waker) = counted();
        let mut polls = 0;
        let future = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(Pin::new(&mut Unstirred::new(future)).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!((polls, woken.0.load(Ordering::SeqCst)), (AGAIN + 1, 1));
    }

    #[test]
    fn whoever_else_wakes_it_is_heard() {
        let (woken, waker) = counted();
        let kept = Mutex::new(None);
        let mut future = Unstirred::new(poll_fn(|context| {
            let ringing = context.waker().clone();
            // Another thread, while it is polled.
            std::thread::spawn(move || ringing.wake()).join().unwrap();
            *kept.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        kept.lock().unwrap().take().unwrap().wake();
        assert_eq!(woken.0.load(Ordering::SeqCst), 2, "and this one when nobody polls it");
    }
}
