//! Work shared by a few threads: tasks may bring more tasks.

use std::num::NonZero;
use std::sync::{Condvar, Mutex};
use std::thread;

use crate::fault::Carried;

struct Queue<T> {
    tasks: Vec<T>,
    /// How many tasks are waiting or being worked on.
    open: usize,
}

/// Does all tasks, and those they bring, on as many threads as the machine has. Each thread keeps a state of its own, and
/// all states are handed back. The first failure stops the rest.
pub(super) fn run<T: Send, S: Send, E: Send>(
    tasks: Vec<T>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(T, &mut S, &mut Vec<T>) -> Result<(), E> + Sync,
) -> Result<Vec<S>, E> {
    run_and(tasks, state, work, |_| {})
}

/// The same; at its end each thread does `finish` with its state.
pub(super) fn run_and<T: Send, S: Send, E: Send>(
    tasks: Vec<T>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(T, &mut S, &mut Vec<T>) -> Result<(), E> + Sync,
    finish: impl Fn(&mut S) + Sync,
) -> Result<Vec<S>, E> {
    let threads = thread::available_parallelism().map_or(2, NonZero::get).clamp(1, 8).min(tasks.len().max(1) * 8);
    let queue = Mutex::new(Queue { open: tasks.len(), tasks });
    let ready = Condvar::new();
    let one = || {
        let mut state = state();
        let mut more = Vec::new();
        while let Some(task) = next(&queue, &ready) {
            let done = work(task, &mut state, &mut more);
            let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Err(error) = done {
                queue.open = 0;
                queue.tasks.clear();
                ready.notify_all();
                return Err(error);
            }
            queue.open = (queue.open + more.len()).saturating_sub(1);
            let brought = !more.is_empty();
            queue.tasks.append(&mut more);
            if brought || queue.open == 0 {
                ready.notify_all();
            }
        }
        finish(&mut state);
        Ok(state)
    };
    thread::scope(|scope| {
        let carried = Carried::here();
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let carried = carried.clone();
                scope.spawn(|| carried.during(one))
            })
            .collect();
        let own = one();
        let mut states = vec![own?];
        for other in others {
            states.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(states)
    })
}

fn next<T>(queue: &Mutex<Queue<T>>, ready: &Condvar) -> Option<T> {
    let mut queue = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        if queue.open == 0 {
            return None;
        }
        if let Some(task) = queue.tasks.pop() {
            return Some(task);
        }
        queue = ready.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}
