//! The interface of a connection, until there is one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::connection::{Call, CallError, ConnectError, Notice, Options, ToolList};
use crate::endpoint::Endpoint;

/// Where a connection has its tokens from.
pub trait Tokens: Send + Sync {}

pub(super) struct Connection;

impl Connection {
    pub(super) async fn open(
        _: &Endpoint,
        _: &Options,
        _: Option<Arc<dyn Tokens>>,
        _: UnboundedSender<Notice>,
    ) -> Result<Self, ConnectError> {
        Err(ConnectError::Failed("there are no connections yet".to_owned()))
    }
    pub(super) async fn tools(&self) -> Result<ToolList, CallError> {
        Ok(ToolList::default())
    }
    pub(super) async fn call(&self, _: Call) -> Result<Value, CallError> {
        Ok(Value::Null)
    }
    pub(super) async fn request(&self, _: &str, _: Option<Value>) -> Result<Value, CallError> {
        Ok(Value::Null)
    }
    pub(super) async fn ping(&self, _: Duration) -> Result<(), CallError> {
        Ok(())
    }
    pub(super) async fn close(&self) {}
    pub(super) fn stderr_tail(&self) -> Vec<String> {
        Vec::new()
    }
    pub(super) fn pid(&self) -> Option<u32> {
        None
    }
    pub(super) fn protocol_version(&self) -> Option<String> {
        None
    }
    pub(super) fn server_info(&self) -> Option<Value> {
        None
    }
}
