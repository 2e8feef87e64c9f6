//! Where everything that a server says arrives: answers find who asked, notices go out, and what the server asks of us is
//! answered. It parses without a model of the protocol's types, so that nothing that a server said is lost.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::{Answers, CallError, Notice, Refusal, borrowed};
use crate::transport::{Link, Outgoing};

/// How many messages that nobody asked for are read in a second. A server that says more is read more slowly, so that its own
/// pipe or connection fills and nobody's memory.
const UNASKED: usize = 2000;

/// How many lines for the log are passed on in a second; the others are counted.
const LOGGED: usize = 50;

/// How deep an answer may be nested: a few less than `serde_json` reads, for what is put around it.
const DEEPEST: usize = 120;

/// How much of something strange is shown.
const SHOWN: usize = 300;

/// A client must open addresses before it can be answered.
const URL_NEEDED: i64 = -32042;

/// The server says that what it asked somebody to do at an address is done.
pub(crate) const DONE_THERE: &str = "notifications/elicitation/complete";

/// The server says something for a log.
pub(crate) const LOG: &str = "notifications/message";

/// Of so many addresses that clients were sent to it is remembered whom to tell that they are done.
const SENT: usize = 256;

/// How many questions of a server may wait for an answer.
const QUESTIONS: usize = 256;

/// Where progress goes: the parameters of the protocol's notification.
pub(crate) type Progress = UnboundedSender<Value>;

pub(crate) struct Hub {
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    closed: watch::Sender<Option<String>>,
    notices: UnboundedSender<Notice>,
    answers: Arc<dyn Answers>,
    link: OnceLock<Weak<dyn Link>>,
    questions: Arc<AtomicUsize>,
    /// Who was sent to an address, by what the server calls that.
    sent: Mutex<VecDeque<(String, String)>>,
    second: Mutex<Second>,
    logged: Mutex<Second>,
    /// There is a connection whose end is worth telling.
    opened: AtomicBool,
    /// The server asked something that needs a client.
    asks: AtomicBool,
    /// The other end is another node.
    distant: bool,
    /// What is new is not heard there any more.
    moved: AtomicBool,
}

/// What was counted since when.
struct Second {
    began: Instant,
    count: usize,
}

/// The little of a message that says whose it is.
#[derive(Deserialize)]
struct Head {
    id: Option<Value>,
    method: Option<IgnoredAny>,
}

/// A message, of which only the outermost is looked at. What an answer brings stays the text that it came as.
#[derive(Deserialize)]
struct Message<'a> {
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

/// What a request came to.
pub(super) type Answer = Result<Box<RawValue>, CallError>;

struct Waiting {
    reply: oneshot::Sender<Answer>,
    progress: Option<Progress>,
    /// Who made it.
    company: Option<Arc<dyn Answers>>,
    /// It is a subscription, which a server may end.
    listens: bool,
}

impl Hub {
    pub(super) fn new(notices: UnboundedSender<Notice>, answers: Arc<dyn Answers>) -> Arc<Self> {
        Self::at(notices, answers, false)
    }

    /// The same where another node is at the other end.
    pub(super) fn of_node(notices: UnboundedSender<Notice>, answers: Arc<dyn Answers>) -> Arc<Self> {
        Self::at(notices, answers, true)
    }

    fn at(notices: UnboundedSender<Notice>, answers: Arc<dyn Answers>, distant: bool) -> Arc<Self> {
        let now = || Mutex::new(Second { began: Instant::now(), count: 0 });
        Arc::new(Self {
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            closed: watch::Sender::new(None),
            notices,
            answers,
            link: OnceLock::new(),
            questions: Arc::default(),
            sent: Mutex::default(),
            second: now(),
            logged: now(),
            opened: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            distant,
            moved: AtomicBool::new(false),
        })
    }

    /// Where answers to the server's questions go.
    pub(super) fn attach(&self, link: &Arc<dyn Link>) {
        let _ = self.link.set(Arc::downgrade(link));
    }

    /// A number for a request, under which its answer will be handed over.
    pub(super) fn expect(
        &self,
        progress: Option<Progress>,
        company: Option<Arc<dyn Answers>>,
        listens: bool,
    ) -> Result<(u64, oneshot::Receiver<Answer>), CallError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        self.waiting().insert(id, Waiting { reply, progress, company, listens });
        // Closing takes all that wait, so who comes later has to look.
        if let Some(reason) = self.reason() {
            self.forget(id);
            return Err(CallError::Disconnected(reason));
        }
        Ok((id, answer))
    }

    /// Nobody waits for this one any more. Says whether somebody did.
    pub(super) fn forget(&self, id: u64) -> bool {
        self.waiting().remove(&id).is_some()
    }

    /// A request failed on its way.
    pub(crate) fn fail(&self, id: u64, error: CallError) {
        if let Some(waiting) = self.waiting().remove(&id) {
            let _ = waiting.reply.send(Err(error));
        }
    }

    /// Whether somebody still waits for this one.
    pub(crate) fn waits(&self, id: u64) -> bool {
        self.waiting().contains_key(&id)
    }

    /// Ends the connection. The first reason is the one that counts.
    pub(crate) fn close(&self, reason: &str) {
        let first = self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert_with(|| reason.to_owned());
            first
        });
        if !first {
            return;
        }
        let waiting = std::mem::take(&mut *self.waiting());
        for (_, waiting) in waiting {
            let _ = waiting.reply.send(Err(CallError::Disconnected(reason.to_owned())));
        }
        if self.opened.load(Ordering::SeqCst) {
            let _ = self.notices.send(Notice::Closed(reason.to_owned()));
        }
    }

    /// From now on there is a connection. False if it is over already.
    pub(super) fn open(&self) -> bool {
        self.opened.store(true, Ordering::SeqCst);
        self.reason().is_none()
    }

    /// Whether the server asked something that needs a client.
    pub(super) fn asks(&self) -> bool {
        self.asks.load(Ordering::Relaxed)
    }

    pub(super) fn is_distant(&self) -> bool {
        self.distant
    }

    /// Whether it is over, or takes nothing new.
    pub(super) fn is_over(&self) -> bool {
        self.moved.load(Ordering::Acquire) || self.reason().is_some()
    }

    /// The other node takes nothing new.
    pub(crate) fn moved(&self, why: &str) {
        if !self.moved.swap(true, Ordering::AcqRel) && self.opened.load(Ordering::SeqCst) {
            let _ = self.notices.send(Notice::Moved(why.to_owned()));
        }
    }

    /// Waits for the end.
    pub(crate) async fn closed(&self) {
        let _ = self.closed.subscribe().wait_for(Option::is_some).await;
    }

    /// Why it is over, if it is.
    pub(crate) fn reason(&self) -> Option<String> {
        self.closed.borrow().clone()
    }

    /// Takes one message, or a batch of them. `asked` is the request whose own answer this came with, if any. Says how many
    /// of them nobody asked for.
    pub(crate) fn receive(&self, bytes: &[u8], asked: Option<u64>) -> usize {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return 0;
        }
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            return match serde_json::from_slice::<Vec<&RawValue>>(bytes) {
                Ok(messages) => messages.iter().map(|message| self.receive_one(message.get().as_bytes(), asked)).sum(),
                Err(error) => self.unreadable(bytes, asked, &error),
            };
        }
        self.receive_one(bytes, asked)
    }

    fn receive_one(&self, bytes: &[u8], asked: Option<u64>) -> usize {
        match serde_json::from_slice::<Message<'_>>(bytes) {
            Ok(message) => self.take(message, asked, bytes),
            Err(error) => self.unreadable(bytes, asked, &error),
        }
    }

    /// What cannot be read may still say whose answer it is: then that one need not wait for it.
    fn unreadable(&self, bytes: &[u8], asked: Option<u64>, error: &serde_json::Error) -> usize {
        let head: Option<Head> = serde_json::from_slice(bytes).ok();
        let id = head.filter(|head| head.method.is_none()).and_then(|head| number(&head.id?));
        match id.or(asked).filter(|id| self.waits(*id)) {
            Some(id) => self.answered(id, Err(CallError::Nonsense(format!("it cannot be read: {error}")))),
            None => self.strange(&String::from_utf8_lossy(bytes.get(..4 * SHOWN).unwrap_or(bytes))),
        }
    }

    fn take(&self, message: Message<'_>, asked: Option<u64>, bytes: &[u8]) -> usize {
        let Message { id, method, params, result, error } = message;
        let params = || params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        match (method, id.filter(|id| !id.is_null())) {
            (Some(method), None) => self.notified(&method, params(), asked),
            (Some(method), Some(id)) => self.asked(&method, id, params(), asked),
            (None, id) => {
                let id = id.as_ref().and_then(number);
                // A server that could not read the request does not know its number.
                let id = if error.is_some() { id.or(asked) } else { id };
                let refused = |error| if self.distant { borrowed::error(error) } else { refusal(error) };
                let answer = result.map(whole).or_else(|| error.map(refused));
                match (id, answer) {
                    (Some(id), Some(answer)) => return self.answered(id, answer),
                    _ => return self.strange(&String::from_utf8_lossy(bytes.get(..4 * SHOWN).unwrap_or(bytes))),
                }
            }
        }
        1
    }

    fn answered(&self, id: u64, answer: Answer) -> usize {
        let waiting = self.waiting().remove(&id);
        if let (Err(CallError::Refused { code: URL_NEEDED, data: Some(data), .. }), Some(waiting)) = (&answer, &waiting)
        {
            let all = data.get("elicitations").and_then(Value::as_array).into_iter().flatten();
            all.for_each(|one| self.sends(waiting.company.as_ref(), one));
        }
        // Without a taker it is the late answer of something that was given up.
        waiting.map_or(1, |waiting| {
            let _ = waiting.reply.send(answer);
            0
        })
    }

    fn notified(&self, method: &str, params: Value, asked: Option<u64>) {
        match method {
            "notifications/tools/list_changed" => {
                self.tools_changed();
                self.tell(method, params, None);
            }
            LOG => {
                let company = self.company(asked);
                if let Ok(Some(company)) = &company {
                    company.told(method, &params);
                }
                let said = params.get("data").map_or_else(String::new, |data| match data {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                let level = params.get("level").and_then(Value::as_str).unwrap_or("info");
                // While calls are under way it is about one of them. Else it is about the server.
                if self.logs(&format!("{level}: {said}")) && matches!(company, Ok(None)) {
                    self.tell(method, params, None);
                }
            }
            DONE_THERE => self.done_there(params),
            "notifications/progress" => self.progressed(params),
            "notifications/cancelled" => {
                let id = params.get("requestId").and_then(number);
                if let Some(id) = id.filter(|id| self.waiting().get(id).is_some_and(|waiting| waiting.listens)) {
                    self.fail(id, CallError::Cancelled);
                }
            }
            borrowed::MOVED if self.distant => {
                self.moved(params.get("why").and_then(Value::as_str).unwrap_or_default());
            }
            "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated" => self.tell(method, params, None),
            _ => {}
        }
    }

    fn tell(&self, method: &str, params: Value, whom: Option<String>) {
        let _ = self.notices.send(Notice::Told { method: method.to_owned(), params, whom });
    }

    /// The server sends somebody to an address.
    fn sends(&self, company: Option<&Arc<dyn Answers>>, question: &Value) {
        let name = question.get("elicitationId").and_then(Value::as_str);
        if let (Some(name), Some(company)) = (name, company) {
            let mut sent = self.sent();
            if sent.len() == SENT {
                sent.pop_front();
            }
            sent.push_back((name.to_owned(), company.who().to_owned()));
        }
    }

    /// Who was sent there hears it: beside a call of theirs, if one is under way.
    fn done_there(&self, params: Value) {
        let name = params.get("elicitationId").and_then(Value::as_str).unwrap_or_default();
        let whom = {
            let mut sent = self.sent();
            let at = sent.iter().position(|(known, _)| known == name);
            at.and_then(|at| sent.remove(at)).map(|(_, whom)| whom)
        };
        let waiting = self.waiting();
        let theirs =
            |waiting: &Waiting| waiting.company.clone().filter(|company| Some(company.who()) == whom.as_deref());
        let company = waiting.values().find_map(theirs);
        drop(waiting);
        match company {
            Some(company) => company.told(DONE_THERE, &params),
            None => self.tell(DONE_THERE, params, whom),
        }
    }

    fn sent(&self) -> MutexGuard<'_, VecDeque<(String, String)>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On whose account a server says something: the request's with whose answer it came, or of all that are under way, if
    /// they are of one and the same.
    fn company(&self, asked: Option<u64>) -> Result<Option<Arc<dyn Answers>>, ()> {
        let waiting = self.waiting();
        if let Some(company) = asked.and_then(|id| waiting.get(&id)?.company.clone()) {
            return Ok(Some(company));
        }
        let all = || waiting.iter().filter_map(|(id, waiting)| Some((id, waiting.company.as_ref()?)));
        // The newest of one client is the likeliest: what asked before waits for its answer.
        let Some((_, newest)) = all().max_by_key(|(id, _)| **id) else { return Ok(None) };
        if all().all(|(_, other)| other.who() == newest.who()) { Ok(Some(newest.clone())) } else { Err(()) }
    }

    /// A list whose changes the server announces may be another, and nobody heard whether it is.
    pub(super) fn missed(&self, announced: &str) {
        match announced {
            "toolsListChanged" => self.tools_changed(),
            "promptsListChanged" => self.tell("notifications/prompts/list_changed", json!({}), None),
            _ => self.tell("notifications/resources/list_changed", json!({}), None),
        }
    }

    pub(super) fn tools_changed(&self) {
        let _ = self.notices.send(Notice::ToolsChanged);
    }

    fn progressed(&self, params: Value) {
        let Some(id) = params.get("progressToken").and_then(number) else { return };
        if let Some(progress) = self.waiting().get(&id).and_then(|waiting| waiting.progress.as_ref()) {
            let _ = progress.send(params);
        }
    }

    /// The server asks something of us.
    fn asked(&self, method: &str, id: Value, params: Value, asked: Option<u64>) {
        let Some(link) = self.link.get().and_then(Weak::upgrade) else { return };
        let reply = |id: Value, answer: Result<Value, Refusal>| {
            let body = match answer {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err(refusal) => json!({"jsonrpc": "2.0", "id": id, "error": refusal.error()}),
            };
            Outgoing { id: None, body: body.to_string(), method: String::new(), version: None, headers: Vec::new() }
        };
        if method == "ping" {
            link.send(reply(id, Ok(json!({}))));
            return;
        }
        let answers = match self.company(asked) {
            Ok(Some(company)) => {
                self.sends(Some(&company), &params);
                company
            }
            Ok(None) => self.answers.clone(),
            Err(()) => {
                let why = "more than one client uses this connection, and it is not clear which of them is asked";
                link.send(reply(id, Err(Refusal::new(-32603, why))));
                return;
            }
        };
        // Somebody who knows what this server does may want to give it a connection for each client.
        self.asks.store(true, Ordering::Relaxed);
        let Some(answer) = answers.answer(method, params) else {
            link.send(reply(id, Err(Refusal::new(-32601, format!("`{}` is not offered", cut(method, 100))))));
            return;
        };
        if self.questions.fetch_add(1, Ordering::Relaxed) >= QUESTIONS {
            self.questions.fetch_sub(1, Ordering::Relaxed);
            link.send(reply(id, Err(Refusal::new(-32603, "too many questions at once"))));
            return;
        }
        let (link, questions) = (Arc::downgrade(&link), self.questions.clone());
        tokio::spawn(async move {
            let answer = answer.await;
            questions.fetch_sub(1, Ordering::Relaxed);
            if let Some(link) = link.upgrade() {
                link.send(reply(id, answer));
            }
        });
    }

    /// Something that is no message: a line for a log that went the wrong way, most often.
    fn strange(&self, text: &str) -> usize {
        self.log(&format!("skipped what is no message: {}", cut(text, SHOWN).escape_debug()));
        1
    }

    /// Passes something on for the log, unless there was too much of it lately.
    pub(crate) fn log(&self, text: &str) {
        let _ = self.logs(text);
    }

    /// The same. Whether it was passed on.
    fn logs(&self, text: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.began.elapsed() >= Duration::from_secs(1) {
            if let Some(more) = logged.count.checked_sub(LOGGED).filter(|more| *more > 0) {
                let _ = self.notices.send(Notice::Log(format!("and {more} more lines that are not shown")));
            }
            *logged = Second { began: Instant::now(), count: 0 };
        }
        logged.count += 1;
        let is_shown = logged.count <= LOGGED;
        if is_shown {
            let _ = self.notices.send(Notice::Log(cut(text, 2000)));
        }
        is_shown
    }

    /// Slows down who reads, after so many messages that nobody asked for.
    pub(crate) async fn pace(&self, unasked: usize) {
        if unasked == 0 {
            return;
        }
        let until = {
            let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
            let end = second.began + Duration::from_secs(1);
            if Instant::now() >= end {
                *second = Second { began: Instant::now(), count: 0 };
            }
            second.count += unasked;
            (second.count > UNASKED).then_some(end)
        };
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's number, also from a server that made text of it.
fn number(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

/// A result as it came, if anybody can read it: what is nested deeper than this is read by nobody.
fn whole(result: &RawValue) -> Answer {
    match is_deep(result.get()) {
        true => Err(CallError::Nonsense("it cannot be read: it is nested too deep".to_owned())),
        false => Ok(result.to_owned()),
    }
}

/// Whether JSON is nested deeper than its readers go.
fn is_deep(text: &str) -> bool {
    let (mut depth, mut inside, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' | b'[' if !inside => {
                depth += 1;
                if depth > DEEPEST {
                    return true;
                }
            }
            b'}' | b']' if !inside => depth -= 1,
            _ => {}
        }
    }
    false
}

/// What an error says.
pub(super) fn refusal(error: Value) -> Answer {
    let Value::Object(mut error) = error else {
        return Err(CallError::Nonsense("its error is no object".to_owned()));
    };
    Err(CallError::Refused {
        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
        data: error.remove("data"),
    })
}

fn cut(text: &str, most: usize) -> String {
    let mut kept = text.get(..text.floor_char_boundary(most)).unwrap_or(text).to_owned();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}
