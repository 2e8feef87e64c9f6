//! Frames on a stream: a length of four bytes, then that many bytes of JSON.

use std::io;

use kitbag_model::json_weight;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most values of one frame: sixteen megabytes of text can be gigabytes of them.
const HEAVIEST: u64 = 2_000_000;

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
    if json_weight(&body) > HEAVIEST {
        let what = "it has too many values: two million may be, and an object counts as eight";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_text(text: &str) -> io::Result<Option<serde_json::Value>> {
        let mut bytes = u32::try_from(text.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        read(&mut bytes.as_slice(), 16 << 20).await
    }

    #[tokio::test]
    async fn a_small_text_that_would_be_large_is_refused() {
        let bomb = format!("[{}0]", "{\"\":0},".repeat(300_000));
        assert_eq!(read_text(&bomb).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let bomb = format!("[{}0]", "0,".repeat(2_000_001));
        assert_eq!(read_text(&bomb).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        // A text is one value, whatever is in it.
        let text = format!("[{:?}, {:?}]", "{\"[,\\".repeat(1_000_000), "é");
        assert!(read_text(&text).await.unwrap().is_some());
        let table = format!("[{}0]", "{\"a\":1,\"b\":\"x\"},".repeat(100_000));
        assert!(read_text(&table).await.unwrap().is_some());
    }
}
