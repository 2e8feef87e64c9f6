//! What is heard of a call while it runs, passed on to whoever listens: a few times a second, however much it says.

use std::sync::Arc;
use std::time::Duration;

use kitbag_model::{ChatId, OrgId, ToolCallId};
use kitbag_python::{Event, Stream};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::Company;
use crate::events::Events;

/// So long is listened before something is passed on.
const TICK: Duration = Duration::from_millis(100);

/// So many lines, and so many bytes, are passed on at a time.
const LINES: usize = 100;
const BYTES: usize = 16 * 1024;

/// What was heard since it was last passed on.
#[derive(Default)]
struct Heard {
    progress: Option<(Option<f64>, Option<String>)>,
    lines: Vec<Value>,
    bytes: usize,
    dropped: u64,
}

impl Heard {
    fn take(&mut self, event: Event) {
        match event {
            Event::Progress { fraction, message } => self.progress = Some((fraction, message)),
            Event::Log(line) if self.lines.len() < LINES && self.bytes + line.text.len() <= BYTES => {
                let stream = match line.stream {
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                    Stream::Log => "log",
                };
                self.bytes += line.text.len();
                self.lines.push(json!({ "stream": stream, "text": line.text }));
            }
            Event::Log(_) => self.dropped += 1,
        }
    }

    fn tell(&mut self, events: &Events, (org, chat, id): &(OrgId, ChatId, ToolCallId)) {
        let heard = std::mem::take(self);
        if let Some((fraction, message)) = heard.progress {
            let fraction = fraction.filter(|fraction| fraction.is_finite()).map(|fraction| fraction.clamp(0.0, 1.0));
            let data = json!({ "chatId": chat, "callId": id, "fraction": fraction, "message": message });
            events.publish(org, Some(*chat), "tool_call_progress", data);
        }
        if !heard.lines.is_empty() || heard.dropped > 0 {
            let data = json!({ "chatId": chat, "callId": id, "lines": heard.lines, "dropped": heard.dropped });
            events.publish(org, Some(*chat), "tool_call_log", data);
        }
    }
}

/// Passes on what is heard, to its end.
pub(super) async fn pass_on(
    events: Events,
    call: (OrgId, ChatId, ToolCallId),
    company: Option<Arc<Company>>,
    mut from: UnboundedReceiver<Event>,
) {
    let mut step = 0;
    let mut tell = |event: &Event| {
        step += 1;
        if let Some(company) = &company {
            company.heard(event, step);
        }
    };
    while let Some(first) = from.recv().await {
        let mut heard = Heard::default();
        tell(&first);
        heard.take(first);
        let end = Instant::now() + TICK;
        loop {
            tokio::select! {
                event = from.recv() => match event {
                    Some(event) => {
                        tell(&event);
                        heard.take(event);
                    }
                    None => break,
                },
                () = sleep_until(end) => break,
            }
        }
        heard.tell(&events, &call);
    }
}

#[cfg(test)]
mod tests {
    use kitbag_python::LoggedLine;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_becomes_a_few_events() {
        let events = Events::new();
        let mut bus = events.listen();
        let (sender, receiver) = mpsc::unbounded_channel();
        for n in 0..1000 {
            let line = LoggedLine { stream: Stream::Stdout, text: format!("line {n}") };
            sender.send(Event::Log(line)).unwrap();
        }
        for n in [0.1, f64::NAN, 7.0] {
            sender.send(Event::Progress { fraction: Some(n), message: None }).unwrap();
        }
        drop(sender);
        pass_on(events.clone(), (OrgId::local(), ChatId::generate(), ToolCallId::generate()), None, receiver).await;
        let progress = bus.recv().await.unwrap();
        assert_eq!((&*progress.name, &progress.data["fraction"]), ("tool_call_progress", &json!(1.0)));
        let log = bus.recv().await.unwrap();
        assert_eq!(log.name, "tool_call_log");
        assert_eq!(log.data["lines"].as_array().unwrap().len(), LINES);
        assert_eq!(log.data["dropped"], 1000 - LINES);
        assert!(bus.is_empty());
    }
}
