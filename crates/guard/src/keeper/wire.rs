//! What is said between the server and the keeper: one JSON text a packet, descriptors beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The most bytes of one packet.
const LONGEST: usize = 128 * 1024;

/// The most descriptors of one packet.
pub(super) const MOST: usize = 16;

/// What the server asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// A folder, as a tree of mounts that can be put anywhere. The answer brings its descriptor.
    Tree { path: PathBuf },
    /// A room for a chat. The answer brings the user and the network namespace.
    Room,
    /// A socket inside a room, whose two namespaces come along. The answer brings it.
    Socket { v6: bool },
    /// A process in a house of its own. The trees of `House::mounts` come along, then those of `House::kept`, then what it
    /// inherits. If it is a resident, the answer brings a handle to the first process there.
    House(House),
    /// The end of a house and of everything in it.
    End { house: i32 },
}

/// What the answer is. The first one comes unasked, when everything is ready.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Done,
    Started { house: i32 },
    Ready { own_user: bool, group: bool },
    Failed { message: String },
}

/// A process that lives in namespaces of its own and sees the files that it is given, and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct House {
    /// The program and its arguments. `{0}` and `{1}` stand for the numbers of the descriptors it inherits.
    pub command: Vec<String>,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// Where it sees the folders that it is given, in their order. They can only be read.
    pub mounts: Vec<PathBuf>,
    /// Where it sees the folders, given after those, that it can write to.
    pub kept: Vec<PathBuf>,
    /// Whether it is in the machine's own network.
    pub network: bool,
    /// The most bytes of memory for each of its processes.
    pub memory: u64,
    /// The most bytes of a file.
    pub file: u64,
    /// Set for a program that was not written for us: it talks through its standard streams and makes no namespaces.
    pub resident: Option<Resident>,
}

/// What a resident's house has beside. Of what it inherits, the first three are its standard streams, and to the fourth goes how
/// it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resident {
    /// The folder it starts in.
    pub folder: PathBuf,
    /// So many times the memory of a process it may reserve.
    pub reserved: u64,
    /// The most processes in the house.
    pub processes: u64,
    /// Whether it is refused when the machine cannot give every wall.
    pub require: bool,
}

/// Sends one packet.
pub(super) fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LONGEST || fds.len() > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too much for one packet"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one packet; none when the other side is gone.
pub(super) fn receive<M: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut fds = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..received.bytes])?, fds)))
}
