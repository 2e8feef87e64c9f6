//! The two commands that an executor's own tools need of the program that it is part of, for the tests of this crate.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // Before any runtime: this process must have one thread.
        ["guard-keeper", sample] => kitbag_guard::keeper::main(&PathBuf::from(sample), false)?,
        ["guard-keeper", "--plain", sample] | ["guard-keeper", sample, "--plain"] => {
            kitbag_guard::keeper::main(&PathBuf::from(sample), true)?;
        }
        [kitbag_executor::tools::COMMAND, file] => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(kitbag_executor::tools::serve(&PathBuf::from(file)))?;
        }
        _ => return Err(format!("this program has no command {words:?}").into()),
    }
    Ok(())
}
