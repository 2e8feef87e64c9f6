//! The keeper, as the server sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::sync::oneshot;

use super::wire::{House, Reply, Request, receive, send};

/// Why the keeper did not do something.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// It could not be started: the machine does not give what it needs.
    #[error("the sandbox cannot be made: {0}. `kitbag doctor` says what is missing")]
    Start(String),
    /// It refused one request.
    #[error("the sandbox: {0}")]
    Refused(String),
    /// It is gone.
    #[error("the sandbox's keeper is gone: {0}")]
    Gone(#[from] io::Error),
    /// There is to be none any more.
    #[error("the server is ending")]
    Ending,
}

/// A chat's room. It goes when this is dropped and nobody is in it.
#[derive(Debug)]
pub struct Room {
    /// Its user namespace.
    pub user: OwnedFd,
    /// Its network.
    pub network: OwnedFd,
}

/// A started house.
#[derive(Clone, Copy, Debug)]
pub struct Started(i32);

/// The keeper of all sandboxes of a server. When it is dropped, everything inside ends.
#[derive(Debug)]
pub struct Keeper {
    porter: Socket,
    inner: Socket,
    /// Trees are made outside: the server is root and tools are not.
    outside: bool,
    own_user: bool,
    group: bool,
    namespaces: bool,
    lacks: Option<String>,
    alive: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct Socket(mpsc::Sender<Question>);

impl Keeper {
    /// Starts one. `command` is a program and its arguments that end up in [`super::main`]; `data` is a folder like those
    /// that will be mounted.
    ///
    /// A plain one makes no namespaces: it starts processes, limits them and sees to their end, and that is all.
    pub async fn start(command: &[PathBuf], data: &Path, plain: bool) -> Result<Self, KeeperError> {
        let (door, porter) = pair()?;
        let (socket, inner) = pair()?;
        #[allow(clippy::disallowed_methods, reason = "this is a room for it")]
        let mut keeper = tokio::process::Command::new(&command[0]);
        keeper.args(&command[1..]).arg(data).args(plain.then_some("--plain")).env_clear().current_dir("/");
        keeper.stdin(Stdio::from(porter)).stdout(Stdio::from(inner)).stderr(Stdio::inherit());
        // A Ctrl-C on the terminal is for the server, which ends its tools in good order.
        keeper.process_group(0);
        let mut child = keeper.spawn().map_err(|error| KeeperError::Start(error.to_string()))?;
        // The commands hold the other ends; they must close when the keeper does.
        drop(keeper);
        // It ends by itself when its sockets close. Somebody has to bury it.
        let alive = Arc::new(AtomicBool::new(true));
        let buried = Arc::clone(&alive);
        tokio::spawn(async move {
            let _ = child.wait().await;
            buried.store(false, Ordering::Relaxed);
        });
        let (porter, (own_user, group)) = Socket::new(door).await?;
        let (inner, _) = Socket::new(socket).await?;
        let outside = own_user && !plain && rustix::process::getuid().is_root();
        Ok(Self { porter, inner, outside, own_user, group, namespaces: !plain, lacks: None, alive })
    }

    /// Whether it is there to be asked.
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Notes why it is a plain one.
    pub(super) fn plain_because(mut self, reason: String) -> Self {
        self.lacks = Some(reason);
        self
    }

    /// Why it makes no namespaces, if that is not as it was wanted.
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    /// Whether it makes namespaces.
    pub fn has_namespaces(&self) -> bool {
        self.namespaces
    }

    /// What it gives beside namespaces, by name, and whether it can on this machine: a user id with no rights outside, and a
    /// limit on the memory of everything inside together.
    pub fn extras(&self) -> [(&'static str, bool); 2] {
        [("own user", self.own_user), ("control group", self.group)]
    }

    /// The user id under which [`Self::tree`] shows what is root's, if it does.
    pub fn shows_as(&self) -> Option<u32> {
        self.outside.then_some(super::porter::NOBODY)
    }

    /// A folder, to be put into a house or a call. Each is good for one.
    pub async fn tree(&self, path: &Path) -> Result<OwnedFd, KeeperError> {
        let socket = if self.outside { &self.porter } else { &self.inner };
        one(socket.ask(Request::Tree { path: path.to_owned() }, Vec::new()).await?.1)
    }

    /// The same for a folder whose files everybody may read: where they cannot be shown under another user id, they are shown
    /// as they are.
    pub async fn public_tree(&self, path: &Path) -> Result<OwnedFd, KeeperError> {
        match self.tree(path).await {
            Err(KeeperError::Refused(_)) if self.outside => {
                one(self.inner.ask(Request::Tree { path: path.to_owned() }, Vec::new()).await?.1)
            }
            tree => tree,
        }
    }

    /// A room for a chat.
    pub async fn room(&self) -> Result<Room, KeeperError> {
        let fds = self.inner.ask(Request::Room, Vec::new()).await?.1;
        match <[OwnedFd; 2]>::try_from(fds) {
            Ok([user, network]) => Ok(Room { user, network }),
            Err(_) => Err(KeeperError::Refused("a room came without its namespaces".to_owned())),
        }
    }

    /// A stream socket inside a room, not connected.
    pub async fn socket(&self, room: &Room, v6: bool) -> Result<OwnedFd, KeeperError> {
        let room = vec![room.user.try_clone()?, room.network.try_clone()?];
        one(self.inner.ask(Request::Socket { v6 }, room).await?.1)
    }

    /// Starts a house. `trees` are its folders; `inherited` begins with where its outputs go.
    pub async fn house(
        &self,
        house: House,
        trees: Vec<OwnedFd>,
        inherited: Vec<OwnedFd>,
    ) -> Result<Started, KeeperError> {
        let fds = trees.into_iter().chain(inherited).collect();
        match self.inner.ask(Request::House(house), fds).await? {
            (Reply::Started { house }, _) => Ok(Started(house)),
            _ => Err(KeeperError::Refused("a house did not say its number".to_owned())),
        }
    }

    /// Starts a resident. A handle to the first process of its house: it is over when everything in the house is, and with it
    /// ends everything there. `inherited` are its standard streams and where it is told how it ended.
    pub async fn resident(
        &self,
        house: House,
        trees: Vec<OwnedFd>,
        inherited: [OwnedFd; 4],
    ) -> Result<OwnedFd, KeeperError> {
        let fds = trees.into_iter().chain(inherited).collect();
        one(self.inner.ask(Request::House(house), fds).await?.1)
    }

    /// Ends a house and everything in it. It is over when this returns.
    pub async fn end(&self, house: Started) -> Result<(), KeeperError> {
        self.inner.ask(Request::End { house: house.0 }, Vec::new()).await.map(drop)
    }
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn one(fds: Vec<OwnedFd>) -> Result<OwnedFd, KeeperError> {
    fds.into_iter().next().ok_or_else(|| KeeperError::Refused("nothing came back".to_owned()))
}

type Answer = io::Result<(Reply, Vec<OwnedFd>)>;

struct Question {
    request: Request,
    fds: Vec<OwnedFd>,
    answer: oneshot::Sender<Answer>,
}

impl Socket {
    /// A thread of its own asks one question after the other: an answer belongs to its question even if whoever asked has
    /// gone away meanwhile.
    async fn new(fd: OwnedFd) -> Result<(Self, (bool, bool)), KeeperError> {
        let (questions, asked) = mpsc::channel::<Question>();
        let (ready, first) = oneshot::channel();
        std::thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            let _ = ready.send(receive::<Reply>(fd.as_fd()));
            for Question { request, fds, answer } in asked {
                let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                let sent = send(fd.as_fd(), &request, &borrowed);
                let received = sent.and_then(|()| receive(fd.as_fd()));
                let _ =
                    answer.send(received.and_then(|reply| reply.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())));
            }
        })?;
        match first.await {
            Ok(Ok(Some((Reply::Ready { own_user, group }, _)))) => Ok((Self(questions), (own_user, group))),
            Ok(Ok(Some((Reply::Failed { message }, _)))) => Err(KeeperError::Start(message)),
            Ok(Err(error)) => Err(KeeperError::Start(error.to_string())),
            _ => Err(KeeperError::Start("the keeper ended without a word".to_owned())),
        }
    }

    async fn ask(&self, request: Request, fds: Vec<OwnedFd>) -> Result<(Reply, Vec<OwnedFd>), KeeperError> {
        let (answer, answered) = oneshot::channel();
        let gone = || KeeperError::Gone(io::ErrorKind::UnexpectedEof.into());
        self.0.send(Question { request, fds, answer }).map_err(|_| gone())?;
        match answered.await.map_err(|_| gone())?? {
            (Reply::Failed { message }, _) => Err(KeeperError::Refused(message)),
            answer => Ok(answer),
        }
    }
}
