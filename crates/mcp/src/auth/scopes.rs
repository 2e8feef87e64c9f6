//! Lists of scopes: read from strangers, put together, written.

/// More than any server has; what is beyond is left out.
const MOST: usize = 200;

/// The scopes of a text with blanks between. What cannot be a scope is left out.
pub(super) fn parse(text: &str) -> Vec<String> {
    clean(text.split(' ').map(str::to_owned))
}

/// Those that can be scopes (RFC 6749, 3.3), each once.
pub(super) fn clean(scopes: impl IntoIterator<Item = String>) -> Vec<String> {
    union(&[], &scopes.into_iter().filter(|scope| is_scope(scope)).take(MOST).collect::<Vec<_>>())
}

fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.len() <= 256 && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// All of both, each once, in their order.
pub(super) fn union(first: &[String], second: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in first.iter().chain(second) {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}
