//! The rooms of chats, and what lives in them beyond a call.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kitbag_guard::keeper::{Keeper, KeeperError, Room};
use kitbag_model::{ChatId, OrgId, Timestamp};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::net::{TcpSocket, TcpStream};

use crate::host::Host;
use crate::parent::Parent;
use crate::proc::{command_line, listening, number};
use crate::workers::Process;

/// So many rooms are kept that nobody uses.
const IDLE: usize = 64;

type Key = (OrgId, ChatId);

/// All rooms.
#[derive(Default)]
pub(crate) struct Rooms(Mutex<HashMap<Key, Arc<ChatRoom>>>);

/// One chat's room.
pub(crate) struct ChatRoom {
    /// None where there are no namespaces.
    pub(crate) room: Option<Room>,
    left: Mutex<Vec<Left>>,
    used: Mutex<Instant>,
    /// The hosts of toolsets whose tools were called here lately. Whoever holds the lock is starting one.
    hosts: tokio::sync::Mutex<HashMap<String, Arc<Host>>>,
}

/// A call that is over, and whose processes are not.
#[derive(Clone)]
pub(crate) struct Left {
    pub(crate) id: String,
    pub(crate) toolset: String,
    pub(crate) network: bool,
    pub(crate) handle: Arc<OwnedFd>,
    pub(crate) started_at: Timestamp,
}

impl Rooms {
    /// The room of a chat, which is made if there is none.
    pub(crate) async fn of(&self, keeper: &Keeper, org: &OrgId, chat: ChatId) -> Result<Arc<ChatRoom>, KeeperError> {
        let key = (org.clone(), chat);
        if let Some(room) = self.find(org, chat) {
            return Ok(room);
        }
        let room = if keeper.has_namespaces() { Some(keeper.room().await?) } else { None };
        let fresh = Arc::new(ChatRoom {
            room,
            left: Mutex::default(),
            used: Mutex::new(Instant::now()),
            hosts: tokio::sync::Mutex::default(),
        });
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms.len() >= IDLE {
            forget_idle(&mut rooms);
        }
        Ok(Arc::clone(rooms.entry(key).or_insert(fresh)))
    }

    /// The room of a chat, if it has one.
    pub(crate) fn find(&self, org: &OrgId, chat: ChatId) -> Option<Arc<ChatRoom>> {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = rooms.get(&(org.clone(), chat))?;
        *room.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Some(Arc::clone(room))
    }

    /// Takes a chat's room away.
    pub(crate) fn remove(&self, org: &OrgId, chat: ChatId) -> Option<Arc<ChatRoom>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(org.clone(), chat))
    }

    /// Forgets all rooms: they belong to a keeper that is gone, and nobody can enter them any more.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// All rooms.
    pub(crate) fn all(&self) -> Vec<(Key, Arc<ChatRoom>)> {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.iter().map(|(key, room)| (key.clone(), Arc::clone(room))).collect()
    }
}

/// Forgets the half of the rooms that nobody is in and that have been used least lately.
fn forget_idle(rooms: &mut HashMap<Key, Arc<ChatRoom>>) {
    let used = |room: &ChatRoom| *room.used.lock().unwrap_or_else(PoisonError::into_inner);
    let idle = |room: &Arc<ChatRoom>| Arc::strong_count(room) == 1 && room.count() == 0;
    let mut candidates: Vec<(Instant, Key)> =
        rooms.iter().filter(|(_, room)| idle(room)).map(|(key, room)| (used(room), key.clone())).collect();
    candidates.sort_by_key(|(used, _)| *used);
    for (_, key) in candidates.into_iter().take(IDLE / 2) {
        rooms.remove(&key);
    }
}

impl ChatRoom {
    /// The host of a toolset's calls, which is started if there is none that fits.
    pub(crate) async fn host(
        &self,
        toolset: &str,
        parent: &Arc<Parent>,
        keeper: &Keeper,
        workspace: &Path,
    ) -> io::Result<Arc<Host>> {
        let mut hosts = self.hosts.lock().await;
        if let Some(host) = hosts.get(toolset).filter(|host| host.fits(parent, workspace)) {
            return Ok(Arc::clone(host));
        }
        let host = Host::start(parent, keeper, self.room.as_ref(), workspace).await?;
        hosts.insert(toolset.to_owned(), Arc::clone(&host));
        Ok(host)
    }

    /// Ends the hosts of a toolset, or all.
    pub(crate) async fn end_hosts(&self, toolset: Option<&str>) {
        self.hosts.lock().await.retain(|name, host| {
            let ends = toolset.is_none_or(|toolset| toolset == name);
            if ends {
                host.kill();
            }
            !ends
        });
    }

    /// Ends the hosts that nobody has used since `since`.
    pub(crate) fn end_idle_hosts(&self, since: Instant) {
        // Whoever has the lock uses one of them.
        let Ok(mut hosts) = self.hosts.try_lock() else { return };
        hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.used() > since);
    }

    /// How many calls left something running.
    pub(crate) fn count(&self) -> usize {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn add(&self, left: Left) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(left);
    }

    /// It has ended.
    pub(crate) fn ended(&self, id: &str) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).retain(|left| left.id != id);
    }

    /// Ends what fits. Whether there was something.
    pub(crate) fn end(&self, which: impl Fn(&Left) -> bool) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = false;
        for one in left.iter().filter(|left| which(left)) {
            found = true;
            // It is the first of its namespace: with it all others end.
            let _ = pidfd_send_signal(&*one.handle, Signal::KILL);
        }
        found
    }

    /// What runs. Looking may take a moment, in which nobody else is to wait.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).clone();
        left.iter().map(Left::view).collect()
    }

    /// Connects to a port that something of this chat listens on.
    pub(crate) async fn connect(&self, keeper: &Keeper, port: u16) -> io::Result<TcpStream> {
        let listener = {
            let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.iter().find(|left| left.ports().contains(&port)).map(|left| left.network)
        };
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, format!("nothing listens on port {port}"));
        let network = listener.ok_or_else(refused)?;
        let addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
        let mut last = refused();
        for address in addresses {
            let socket = match (&self.room, network) {
                (Some(room), false) => {
                    let socket = keeper.socket(room, address.is_ipv6()).await.map_err(io::Error::other)?;
                    rustix::io::ioctl_fionbio(&socket, true)?;
                    TcpSocket::from_std_stream(socket.into())
                }
                _ if address.is_ipv6() => TcpSocket::new_v6()?,
                _ => TcpSocket::new_v4()?,
            };
            match socket.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Left {
    fn view(&self) -> Process {
        let commands = self.members().iter().skip(1).filter_map(|pid| command_line(*pid)).collect();
        Process {
            id: self.id.clone(),
            toolset: self.toolset.clone(),
            commands,
            ports: self.ports(),
            started_at: self.started_at,
        }
    }

    /// The processes, the first one first; none if it is dead.
    fn members(&self) -> Vec<i32> {
        let Some(first) = number(&self.handle) else { return Vec::new() };
        let (mut found, mut next) = (vec![first], 0);
        while let Some(pid) = found.get(next) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
            next += 1;
        }
        // A number is somebody else's soon after its owner is buried: what was read is true only if the first still lives.
        if number(&self.handle).is_some() { found } else { Vec::new() }
    }

    /// The ports that its own processes listen on. In the machine's network there are others' too.
    fn ports(&self) -> Vec<u16> {
        let mut sockets: Vec<String> = Vec::new();
        let members = self.members();
        let Some(first) = members.first() else { return Vec::new() };
        for pid in &members {
            let handles = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().filter_map(Result::ok);
            let links = handles.filter_map(|handle| fs::read_link(handle.path()).ok());
            sockets.extend(
                links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())),
            );
        }
        let mut ports: Vec<u16> = ["tcp", "tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(format!("/proc/{first}/net/{table}")).ok())
            .flat_map(|table| listening(&table, &sockets))
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}
