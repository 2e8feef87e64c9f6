//! How heavy a JSON text is before anybody reads it: a few bytes of text can be very many of memory.

/// What an object counts, in values.
const OBJECT: u64 = 8;

/// How much memory a text will need when it is read, in values. An object needs far more than its few bytes of text.
pub fn json_weight(json: &[u8]) -> u64 {
    let (mut weight, mut quoted, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => weight += OBJECT,
            b'[' | b',' if !quoted => weight += 1,
            _ => {}
        }
    }
    weight
}
