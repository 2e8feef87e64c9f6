//! Any bytes as a `SKILL.md`: nothing may panic, what the strict reader takes the lenient one takes too, and both read the
//! same.
#![no_main]

use kitbag_formats::skill::{self, Strictness};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for folder in [None, Some("a")] {
        let lenient = skill::read(bytes, folder, Strictness::Lenient);
        match skill::read(bytes, folder, Strictness::Strict) {
            Ok(strict) => assert_eq!(lenient.expect("a good skill is good enough").skill, strict.skill),
            Err(problems) => assert!(!problems.to_string().is_empty()),
        }
    }
    if let Ok(value) = serde_json::from_slice(bytes)
        && let Ok(bundle) = skill::Bundle::from_json(&value)
    {
        assert_eq!(skill::Bundle::from_json(&bundle.to_json()).expect("what we write we read"), bundle);
    }
});
