//! In which span the work of this moment is. It goes with a future and not with a thread: whoever polls it is told for as long as that takes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};

use crate::context::Context;
use crate::span::is_on;

thread_local! {
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Where the work of this moment is, if anything is traced.
pub fn current() -> Option<Context> {
    if !is_on() {
        return None;
    }
    CURRENT.with_borrow(Clone::clone)
}

/// Puts back what was there before, also after a panic.
struct Before(Option<Context>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Polls a future with another place as the current one; with none it is polled as it is.
pub fn poll_within<F: Future + ?Sized>(
    context: Option<&Context>,
    future: Pin<&mut F>,
    task: &mut TaskContext<'_>,
) -> Poll<F::Output> {
    let _before = context.map(|context| Before(CURRENT.replace(Some(context.clone()))));
    future.poll(task)
}

/// Has a future polled with another place as the current one; with none it is polled as it is.
pub fn within<F: Future + ?Sized>(
    context: Option<Context>,
    mut future: Pin<&mut F>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |task| poll_within(context.as_ref(), future.as_mut(), task))
}

/// A future that takes the current place along, to a task of its own.
pub fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let context = current();
    async move {
        let future = pin!(future);
        within(context, future).await
    }
}
