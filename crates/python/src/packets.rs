//! Packets between Kitbag and its workers: some bytes, and descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// A socket whose other side takes nothing for so long is as good as closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a packet.
const LONGEST: usize = 65_536;

/// Our end, which never blocks, and theirs.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Sends one packet.
pub(crate) async fn send(socket: BorrowedFd<'_>, note: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let sending = async {
        loop {
            match try_send(socket, note, fds) {
                // Very many wait to be taken.
                Err(Errno::AGAIN) => tokio::time::sleep(Duration::from_millis(5)).await,
                sent => return sent.map_err(io::Error::from),
            }
        }
    };
    let slow = || io::Error::new(io::ErrorKind::TimedOut, "nobody takes what is sent to it");
    tokio::time::timeout(PATIENCE, sending).await.unwrap_or_else(|_| Err(slow()))
}

fn try_send(socket: BorrowedFd<'_>, note: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(socket, &[IoSlice::new(note)], &mut beside, SendFlags::NOSIGNAL).map(drop)
}

/// Our end, to be listened to. That packets come in order and have an end is the socket's own business.
pub(crate) fn listener(socket: OwnedFd) -> io::Result<UnixDatagram> {
    UnixDatagram::from_std(socket.into())
}

/// The next packet and what came beside it; none when the other side is gone.
pub(crate) async fn receive(socket: &UnixDatagram) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    socket.async_io(Interest::READABLE, || Ok(try_receive(socket.as_fd())?)).await
}

fn try_receive(socket: BorrowedFd<'_>) -> rustix::io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut note = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut note)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    // Whatever came is ours to close.
    let mut fds = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<OwnedFd>>()),
        _ => None,
    });
    let fd = fds.next().and_then(|fds| fds.into_iter().next());
    note.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((note, fd)))
}
