//! Any bytes as a `toolset.yaml`: nothing may panic, and what is accepted must survive being written and read again.
#![no_main]

use kitbag_formats::manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match manifest::read(bytes) {
        Ok(read) => {
            let written = manifest::write(&read.definition);
            // A manifest in its smallest spelling may be larger than is allowed when it is written out.
            if written.len() <= 1 << 20 {
                let again = manifest::read(written.as_bytes()).expect("what we write we read");
                assert_eq!(again.definition, read.definition);
                assert_eq!(manifest::write(&again.definition), written);
            }
        }
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
});
