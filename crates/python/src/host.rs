//! The host of one toolset's calls in one chat: a process in the chat's room that forks for every call, ahead of it.
//!
//! It tells of every child it has forked and gives a handle to it, so that the server can end a call with nobody's help. When
//! this is dropped, the host ends, and with it everything in its namespace.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitbag_guard::keeper::{Keeper, Room};
use rustix::process::{Signal, pidfd_send_signal};
use serde::Deserialize;
use tokio::net::UnixDatagram;
use tokio::sync::watch;

use crate::packets;
use crate::parent::Parent;

/// How long the start of a host may take.
const START: Duration = Duration::from_secs(30);

/// So many deaths of children are remembered: somebody may ask how one died.
const REMEMBERED: usize = 16;

/// What a host says.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    /// It is there. The handle to it comes beside.
    Host {
        #[allow(dead_code, reason = "it tells this packet from the others")]
        host: i32,
    },
    /// It has forked a child. The handle to that comes beside.
    Child { child: u64 },
    /// A child has ended, with this status.
    Ended { ended: u64, status: i32 },
    /// It cannot be a host.
    Failed { failed: String },
}

#[derive(Default)]
struct Known {
    process: Option<OwnedFd>,
    /// The youngest child.
    last: u64,
    /// Those that live.
    children: HashMap<u64, Arc<OwnedFd>>,
    /// Those that died last, and how.
    ended: VecDeque<(u64, i32)>,
    failed: Option<String>,
    /// Nothing more will be heard of it.
    over: bool,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// With this status.
    Status(i32),
    /// With its host.
    WithHost,
}

/// A host.
pub(crate) struct Host {
    pub(crate) parent: Arc<Parent>,
    door: OwnedFd,
    control: Arc<UnixDatagram>,
    known: watch::Sender<Known>,
    used: Mutex<Instant>,
    /// The folder that is its workspace. If another is in its place, it has the wrong one.
    folder: (u64, u64),
}

impl Host {
    /// Sends a child of the parent into a room, where it is the host from then on.
    pub(crate) async fn start(
        parent: &Arc<Parent>,
        keeper: &Keeper,
        room: Option<&Room>,
        workspace: &Path,
    ) -> io::Result<Arc<Self>> {
        let (control, their_control) = packets::pair()?;
        let (door, their_door) = packets::pair()?;
        let folder = identity(workspace)?;
        let (network, listen) = parent.powers;
        let mut note = vec![if listen { b'L' } else { b'-' }];
        let tree = match room {
            Some(_) => Some(keeper.tree(workspace).await.map_err(io::Error::other)?),
            None => {
                note.extend(workspace.as_os_str().as_encoded_bytes());
                None
            }
        };
        let mut fds: Vec<BorrowedFd<'_>> = vec![their_control.as_fd(), their_door.as_fd()];
        fds.extend(tree.iter().map(AsFd::as_fd));
        if let Some(room) = room {
            fds.push(room.user.as_fd());
            if !network {
                fds.push(room.network.as_fd());
            }
        }
        parent.send_to_room(&note, &fds).await?;
        drop((their_control, their_door));
        let host = Arc::new(Self {
            parent: Arc::clone(parent),
            door,
            control: Arc::new(packets::listener(control)?),
            known: watch::Sender::default(),
            used: Mutex::new(Instant::now()),
            folder,
        });
        tokio::spawn(hear(Arc::clone(&host.control), host.known.clone()));
        Ok(host)
    }

    /// Waits until it is there. Why it is not, if it cannot be.
    pub(crate) async fn ready(&self) -> Result<(), String> {
        let mut known = self.known.subscribe();
        let there = known.wait_for(|known| known.process.is_some() || known.over);
        match tokio::time::timeout(START, there).await {
            Ok(Ok(known)) => match (&known.failed, known.over) {
                (Some(failed), _) => Err(failed.clone()),
                (None, true) => Err("the worker of this toolset ended".to_owned()),
                (None, false) => Ok(()),
            },
            _ => Err(format!("it was not there after {} seconds", START.as_secs())),
        }
    }

    /// Whether it can take calls of this parent in this folder.
    pub(crate) fn fits(&self, parent: &Arc<Parent>, workspace: &Path) -> bool {
        Arc::ptr_eq(&self.parent, parent)
            && !self.known.borrow().over
            && identity(workspace).is_ok_and(|folder| folder == self.folder)
    }

    /// Gives a call to the child that waits, or will.
    pub(crate) async fn hand_over(&self, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.parent.touch();
        self.touch();
        packets::send(self.door.as_fd(), b".", fds).await
    }

    /// The child of this number has had its call: another is needed.
    pub(crate) fn follow(&self, number: u64) {
        self.touch();
        // Its inbox is never full, unless it does not read it: then it is of no use any more either.
        let _ =
            rustix::net::send(self.control.as_fd(), number.to_string().as_bytes(), rustix::net::SendFlags::NOSIGNAL);
    }

    /// The handle to a child.
    pub(crate) async fn child(&self, number: u64) -> Option<Arc<OwnedFd>> {
        let mut known = self.known.subscribe();
        let there = known.wait_for(|known| known.last >= number || known.over).await.ok()?;
        there.children.get(&number).cloned()
    }

    /// Waits for the end of a child.
    pub(crate) async fn ended(&self, number: u64) -> End {
        let mut known = self.known.subscribe();
        let is_over = |known: &Known| known.over || (known.last >= number && !known.children.contains_key(&number));
        let ended = known.wait_for(is_over).await;
        ended.ok().and_then(|known| known.status(number)).map_or(End::WithHost, End::Status)
    }

    /// Waits for its own end.
    pub(crate) async fn over(&self) {
        let _ = self.known.subscribe().wait_for(|known| known.over).await;
    }

    /// Ends it and everything in it.
    pub(crate) fn kill(&self) {
        if let Some(process) = &self.known.borrow().process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        let _ = rustix::net::shutdown(&*self.control, rustix::net::Shutdown::Both);
    }

    /// When it was last used.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Known {
    fn status(&self, number: u64) -> Option<i32> {
        self.ended.iter().find(|(ended, _)| *ended == number).map(|(_, status)| *status)
    }
}

async fn hear(control: Arc<UnixDatagram>, known: watch::Sender<Known>) {
    while let Ok(Some((note, handle))) = packets::receive(&control).await {
        let Ok(said) = serde_json::from_slice::<Said>(&note) else { break };
        known.send_modify(|known| match (said, handle) {
            (Said::Host { .. }, Some(handle)) => known.process = Some(handle),
            (Said::Child { child }, Some(handle)) => {
                known.last = known.last.max(child);
                known.children.insert(child, Arc::new(handle));
            }
            (Said::Ended { ended, status }, _) => {
                known.children.remove(&ended);
                known.ended.push_back((ended, status));
                let excess = known.ended.len().saturating_sub(REMEMBERED);
                known.ended.drain(..excess);
            }
            (Said::Failed { failed }, _) => known.failed = Some(failed),
            _ => {}
        });
    }
    known.send_modify(|known| known.over = true);
}

fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(folder)?;
    Ok((found.dev(), found.ino()))
}
