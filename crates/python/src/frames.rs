//! Frames on a stream: a length of four bytes, then that many bytes of JSON.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The next frame; none at the end of the stream.
pub(crate) async fn read<M: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    longest: u64,
) -> io::Result<Option<M>> {
    let mut head = [0; 4];
    match stream.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    };
    let length = u32::from_le_bytes(head);
    if u64::from(length) > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    // Memory grows with what arrives, not with what was announced.
    let mut body = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut body).await?;
    if body.len() < length as usize {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Sends one frame.
pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&length.to_le_bytes()).await?;
    stream.write_all(&body).await?;
    stream.flush().await
}
