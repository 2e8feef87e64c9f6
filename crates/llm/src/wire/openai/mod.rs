//! OpenAI's Chat Completions, as OpenAI speaks them and as many others nearly do.

mod calls;
mod events;
mod request;

pub(crate) use events::Reader;
pub(super) use request::request;
