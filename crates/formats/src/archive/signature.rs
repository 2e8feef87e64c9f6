//! The signature of an MCP bundle: a block behind the ZIP, `MCPB_SIG_V1`, four bytes of length, a PKCS#7 signature,
//! `MCPB_SIG_END`. It is taken off and handed over; whether it is genuine is not known here.

use super::end;
use super::fields::Fields;

const BEGIN: &[u8] = b"MCPB_SIG_V1";
const END: &[u8] = b"MCPB_SIG_END";
/// A chain of certificates has some thousand bytes. The block is not looked for farther than this from the end.
const LONGEST: usize = 1 << 20;

/// The ZIP without the signature block behind it, and the signature (DER, not verified). Bytes without a whole block come
/// back as they are.
///
/// Some signers make the block the archive's comment, so that other readers do not stumble over it. Such an archive stays
/// as it is: its end record counts on the block.
pub fn strip_signature(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some((begin, signature)) = block(bytes) else { return (bytes, None) };
    let archive = &bytes[..begin];
    (if end::ends_here(archive) { archive } else { bytes }, Some(signature))
}

/// Where the block begins, and the signature in it.
fn block(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let body = bytes.strip_suffix(END)?;
    let floor = body.len().saturating_sub(LONGEST);
    let begin = floor + body[floor..].windows(BEGIN.len()).rposition(|window| window == BEGIN)?;
    let mut fields = Fields::at(body, begin + BEGIN.len())?;
    let length = fields.u32()?;
    (u64::from(length) == fields.0.len() as u64).then_some((begin, fields.0))
}
