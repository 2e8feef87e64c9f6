//! A connection that is cut when its other end does not take what is sent. Without this a client that asks and never reads
//! would hold its connection, and what was made for it, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes must get on.
pub(crate) struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, stalled: None }
    }

    /// Passes on what a write said; one that has waited too long fails.
    fn watch<T>(&mut self, context: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(timer.as_mut().poll(context));
        timer.as_mut().reset(Instant::now() + self.patience);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flush = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_cut_off() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut stream = Impatient::new(ours, Duration::from_secs(30));
        let error = stream.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_gets_on_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = Impatient::new(ours, Duration::from_secs(30));
        let reader = tokio::spawn(async move {
            let mut byte = [0; 8];
            for _ in 0..32 {
                sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut byte).await.expect("the writer is there");
            }
        });
        stream.write_all(&[0; 256]).await.expect("the reader gets on");
        reader.await.expect("the reader is done");
    }
}
