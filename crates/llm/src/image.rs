//! Which images a model can be shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The kinds that every provider takes.
const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The most letters of an image's base64. Anthropic takes no more.
const MOST: usize = 5 * 1024 * 1024;

/// Why a model cannot be shown an image.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadImage {
    /// It is of another kind.
    #[error("it must be image/png, image/jpeg, image/gif or image/webp")]
    Kind,
    /// It is no base64, or there is nothing in it.
    #[error("its data must be base64, with its padding and without line ends")]
    NotBase64,
    /// It is too large.
    #[error("its data must have at most {MOST} letters of base64")]
    TooLarge,
}

/// Whether a model can be shown an image.
pub fn check_image(mime: &str, base64: &str) -> Result<(), BadImage> {
    if !KINDS.contains(&mime) {
        return Err(BadImage::Kind);
    }
    if base64.len() > MOST {
        return Err(BadImage::TooLarge);
    }
    match STANDARD.decode(base64) {
        Ok(bytes) if !bytes.is_empty() => Ok(()),
        _ => Err(BadImage::NotBase64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images() {
        for kind in KINDS {
            assert_eq!(check_image(kind, "iVBORw0="), Ok(()));
        }
        for kind in ["", "image/svg+xml", "image/PNG", "image/png; x", "text/html", "application/pdf"] {
            assert_eq!(check_image(kind, "iVBORw0="), Err(BadImage::Kind), "{kind}");
        }
        for data in ["", "iVBORw0", "iVBO\nRw0=", "data:image/png;base64,iVBORw0=", "ä"] {
            assert_eq!(check_image("image/png", data), Err(BadImage::NotBase64), "{data}");
        }
        assert_eq!(check_image("image/png", &"A".repeat(MOST)), Ok(()));
        assert_eq!(check_image("image/png", &"A".repeat(MOST + 4)), Err(BadImage::TooLarge));
    }
}
