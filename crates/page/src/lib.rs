//! The page as it was built from `web/`, inside the program. A crate of its own, which
//! only the binary depends on, so that a change of the page compiles little anew.

/// A file of the page.
#[derive(Debug)]
pub struct File {
    /// Its path, such as `assets/index-Bx1.js`.
    pub name: &'static str,
    /// What is in it.
    pub plain: &'static [u8],
    /// The same, packed, where that is smaller.
    pub brotli: Option<&'static [u8]>,
}

static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file of that name. None has any if the program was built without a page.
pub fn file(name: &str) -> Option<&'static File> {
    FILES.binary_search_by(|file| file.name.cmp(name)).ok().and_then(|at| FILES.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name() {
        assert!(FILES.is_sorted_by_key(|file| file.name));
        for each in FILES {
            assert_eq!(file(each.name).map(|found| found.name), Some(each.name));
        }
        assert!(file("nothing").is_none());
    }
}
