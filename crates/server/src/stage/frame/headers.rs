//! What the two sides of a frame's proxy tell each other, and what stays between.

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Headers that speak of one connection, not of the message.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Who a request came by is nobody's business there, and a client's own word for it even less.
const FORWARDED: [HeaderName; 5] = [
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    header::EXPECT,
];

/// Promises about a name that will not be there tomorrow, and who may show it, which is ours to say.
const NOT_THEIRS: [HeaderName; 3] = [header::X_FRAME_OPTIONS, header::STRICT_TRANSPORT_SECURITY, header::ALT_SVC];

/// A program in a frame may do what programs do, but not take the page around it elsewhere.
const SANDBOX: &str = "sandbox allow-scripts allow-same-origin allow-forms allow-modals allow-downloads allow-popups \
     allow-pointer-lock";

/// Turns the headers of a request for a name of the stage into those of a request for `localhost:port`.
pub(super) fn of_request(headers: &mut HeaderMap, port: u16) {
    let stage = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    remove_hop_by_hop(headers);
    for name in FORWARDED {
        headers.remove(name);
    }
    let local = format!("http://localhost:{port}");
    for name in [header::ORIGIN, header::REFERER] {
        let Some(value) = headers.get(&name).and_then(|value| value.to_str().ok()) else { continue };
        let own = ["http://", "https://"]
            .iter()
            .find_map(|scheme| value.strip_prefix(scheme)?.strip_prefix(&stage))
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        // The label in it is a secret, and servers for development answer their own pages only.
        if let Some(Ok(value)) = own.map(|rest| HeaderValue::from_str(&format!("{local}{rest}"))) {
            headers.insert(name, value);
        }
    }
    let host = HeaderValue::from_str(&format!("localhost:{port}")).expect("digits are a header value");
    headers.insert(header::HOST, host);
}

/// Makes the headers of an answer fit the name that it is given out under.
pub(super) fn of_answer(headers: &mut HeaderMap, port: u16, ancestors: &str) {
    remove_hop_by_hop(headers);
    for name in NOT_THEIRS {
        headers.remove(name);
    }
    replace_all(headers, &header::CONTENT_SECURITY_POLICY, without_framing);
    let own = format!("{SANDBOX}; frame-ancestors {ancestors}");
    if let Ok(own) = HeaderValue::from_str(&own) {
        headers.append(header::CONTENT_SECURITY_POLICY, own);
    }
    // The name holds the label, which is a secret: no other server is told.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    replace_all(headers, &header::SET_COOKIE, for_this_name_only);
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        replace_all(headers, &name, |value| to_this_name(value, port));
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(',').filter_map(|name| name.trim().parse().ok()))
        .collect();
    // A message that says its length in two ways is read by the other one; it must not be passed on with both.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in named.into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Replaces every value of a header; none leaves it out.
fn replace_all(headers: &mut HeaderMap, name: &HeaderName, replace: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let old: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
    headers.remove(name);
    for value in old {
        if let Some(Ok(value)) = replace(value.as_bytes()).map(|bytes| HeaderValue::from_bytes(&bytes)) {
            headers.append(name, value);
        }
    }
}

/// A policy without what it says about who may show the page.
fn without_framing(value: &[u8]) -> Option<Vec<u8>> {
    let policies = value.split(|byte| *byte == b',').map(|policy| {
        let kept: Vec<&[u8]> = policy
            .split(|byte| *byte == b';')
            .map(<[u8]>::trim_ascii)
            .filter(|directive| {
                let name = directive.split(u8::is_ascii_whitespace).next().unwrap_or_default();
                !name.is_empty() && !name.eq_ignore_ascii_case(b"frame-ancestors")
            })
            .collect();
        kept.join(&b"; "[..])
    });
    let policies: Vec<Vec<u8>> = policies.filter(|policy| !policy.is_empty()).collect();
    (!policies.is_empty()).then(|| policies.join(&b", "[..]))
}

/// A cookie without a domain: it belongs to the one name that set it.
fn for_this_name_only(value: &[u8]) -> Option<Vec<u8>> {
    let mut parts = value.split(|byte| *byte == b';');
    let mut cookie = parts.next()?.to_vec();
    for part in parts {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        if !name.eq_ignore_ascii_case(b"domain") {
            cookie.push(b';');
            cookie.extend_from_slice(part);
        }
    }
    Some(cookie)
}

/// An address at `localhost:port` as a path, which is found under the stage's name too.
fn to_this_name(value: &[u8], port: u16) -> Option<Vec<u8>> {
    let local = std::str::from_utf8(value).ok().and_then(|text| {
        let rest = text.strip_prefix("http:").unwrap_or(text).strip_prefix("//")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = match authority.strip_suffix(&format!(":{port}")) {
            Some(host) => host,
            None if port == 80 => authority,
            None => return None,
        };
        let here = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]"].iter().any(|name| host.eq_ignore_ascii_case(name));
        // What begins with two slashes would be another server's.
        let path = path.trim_start_matches('/');
        here.then(|| if path.starts_with(['?', '#']) { path.to_owned() } else { format!("/{path}") })
    });
    Some(local.map_or_else(|| value.to_vec(), String::into_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(rows: &[(&'static str, &str)]) -> HeaderMap {
        rows.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn requests() {
        let mut headers = map(&[
            ("host", "label.localhost:8700"),
            ("origin", "http://label.localhost:8700"),
            ("referer", "http://label.localhost:8700/a?b"),
            ("connection", "keep-alive, X-Own"),
            ("x-own", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("x-forwarded-for", "1.2.3.4"),
            ("expect", "100-continue"),
            ("cookie", "a=b"),
            ("accept", "*/*"),
        ]);
        of_request(&mut headers, 3000);
        let wanted = map(&[
            ("host", "localhost:3000"),
            ("origin", "http://localhost:3000"),
            ("referer", "http://localhost:3000/a?b"),
            ("cookie", "a=b"),
            ("accept", "*/*"),
        ]);
        assert_eq!(headers, wanted);
        for foreign in ["null", "http://label.localhost:87001", "https://evil.example"] {
            let mut headers = map(&[("host", "label.localhost:8700"), ("origin", foreign)]);
            of_request(&mut headers, 3000);
            assert_eq!(headers["origin"], foreign);
        }
    }

    #[test]
    fn answers() {
        let mut headers = map(&[
            ("connection", "close"),
            ("x-frame-options", "DENY"),
            ("strict-transport-security", "max-age=1"),
            ("referrer-policy", "unsafe-url"),
            ("content-type", "text/html"),
            ("content-security-policy", "default-src 'self'; FRAME-ancestors 'none', frame-ancestors *; img-src x"),
            ("set-cookie", "a=b; Path=/; Domain=localhost; HttpOnly"),
        ]);
        headers.append("set-cookie", HeaderValue::from_static("c=domain=x;domain = .example.org"));
        headers.append("content-security-policy", HeaderValue::from_static("frame-ancestors 'self'"));
        of_answer(&mut headers, 3000, "http://us:*");
        let of = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(of("set-cookie"), ["a=b; Path=/; HttpOnly", "c=domain=x"]);
        let own = format!("{SANDBOX}; frame-ancestors http://us:*");
        assert_eq!(of("content-security-policy"), ["default-src 'self', img-src x", &own]);
        assert_eq!((of("referrer-policy"), of("content-type")), (vec!["same-origin"], vec!["text/html"]));
        assert_eq!(headers.keys_len(), 4);
    }

    #[test]
    fn places() {
        for (from, to) in [
            ("/a", "/a"),
            ("a", "a"),
            ("http://localhost:3000/a?b#c", "/a?b#c"),
            ("http://127.0.0.1:3000", "/"),
            ("//LOCALHOST:3000/a", "/a"),
            ("http://localhost:3000?q", "?q"),
            ("http://[::1]:3000/x", "/x"),
            ("http://localhost:3000//evil.example", "/evil.example"),
            ("http://localhost:3001/a", "http://localhost:3001/a"),
            ("http://localhost:30000/a", "http://localhost:30000/a"),
            ("http://localhost:3000@evil.example/", "http://localhost:3000@evil.example/"),
            ("http://localhost/", "http://localhost/"),
            ("https://example.org/", "https://example.org/"),
        ] {
            assert_eq!(to_this_name(from.as_bytes(), 3000).unwrap(), to.as_bytes(), "{from}");
        }
        assert_eq!(to_this_name(b"http://localhost/x", 80).unwrap(), b"/x");
    }
}
