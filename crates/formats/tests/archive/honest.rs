//! Archives as common tools make them must be read. Those of Python are made here; the others are kept as files, because
//! their tools are not on every machine.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::whole;
use kitbag_formats::archive::{Archive, Limits};

/// Runs a script with bytes for its input, and gives its output.
#[allow(clippy::disallowed_methods, reason = "another program is the judge here, with a script of ours")]
pub fn python(script: &str, input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("python3");
    let mut child = command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // These inputs are small, and the scripts read all before they write.
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}");
    output.stdout
}

#[test]
fn kept_archives() {
    let content = "hello hello hello hello hello\n";
    for (tool, bytes, files) in [
        ("zip", &include_bytes!("honest/infozip.zip")[..], 3),
        ("zip into a pipe", include_bytes!("honest/infozip-pipe.zip"), 3),
        ("zip into a pipe, stored", include_bytes!("honest/infozip-pipe-stored.zip"), 3),
        ("zip with 64-bit fields", include_bytes!("honest/infozip-zip64.zip"), 3),
        ("zip with a comment, an entry replaced", include_bytes!("honest/infozip-update.zip"), 3),
        ("jar", include_bytes!("honest/java.jar"), 5),
        ("jar, stored", include_bytes!("honest/java-stored.jar"), 5),
    ] {
        let archive = Archive::open(bytes, &Limits::BUNDLE).unwrap_or_else(|error| panic!("{tool}: {error}"));
        archive.verify().unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_eq!(archive.entries().len(), files, "{tool}");
        assert_eq!(archive.read(archive.entry("a.txt").unwrap()).unwrap(), content.as_bytes(), "{tool}");
        assert_eq!(archive.entry("sub/run.sh").unwrap().executable(), tool.starts_with("zip"), "{tool}");
        assert_eq!(archive.entry("zero").unwrap().size(), 0, "{tool}");
        assert!(archive.folders().iter().any(|folder| folder.as_str() == "sub"), "{tool}");
    }
}

#[test]
fn kept_archives_of_other_tools() {
    for (tool, bytes, counts) in [
        ("7-Zip", &include_bytes!("honest/7z.zip")[..], (4, 2)),
        ("jszip, streamed", include_bytes!("honest/jszip-stream.zip"), (3, 2)),
        ("yazl, in part with 64-bit fields", include_bytes!("honest/yazl.zip"), (6, 1)),
        ("archiver with 64-bit fields", include_bytes!("honest/archiver-zip64.zip"), (7, 3)),
        ("adm-zip", include_bytes!("honest/adm-zip.zip"), (7, 3)),
        ("fflate, streamed", include_bytes!("honest/fflate-stream.zip"), (2, 0)),
    ] {
        let archive = Archive::open(bytes, &Limits::BUNDLE).unwrap_or_else(|error| panic!("{tool}: {error}"));
        archive.verify().unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_eq!((archive.entries().len(), archive.folders().len()), counts, "{tool}");
        assert!(archive.read(archive.entry("a.txt").unwrap()).unwrap().starts_with(b"hello"), "{tool}");
    }
}

#[test]
fn what_python_makes() {
    let script = |open: &str, each: &str| {
        format!(
            r#"
import io, sys, zipfile
class Pipe:
    def __init__(self): self.out = b""
    def write(self, b): self.out += bytes(b); return len(b)
    def flush(self): pass
pipe, memory = Pipe(), io.BytesIO()
z = zipfile.ZipFile({open})
for name, content in [("b/ü.txt", b"text " * 1000), ("a.txt", b"hello"), ("zero", b""), ("__MACOSX/._a", b"x"), (".DS_Store", b"y")]:
    {each}
z.comment = b"a comment"
z.mkdir("folder") if hasattr(z, "mkdir") else z.writestr("folder/", b"")
z.close()
sys.stdout.buffer.write(pipe.out or memory.getvalue())
"#
        )
    };
    let plain = "z.writestr(name, content)";
    let wide = "f = z.open(name, 'w', force_zip64=True); f.write(content); f.close()";
    let mut wanted = vec![
        (".DS_Store".to_owned(), b"y".to_vec()),
        ("__MACOSX/._a".to_owned(), b"x".to_vec()),
        ("a.txt".to_owned(), b"hello".to_vec()),
        ("b/ü.txt".to_owned(), b"text ".repeat(1000)),
        ("zero".to_owned(), vec![]),
    ];
    wanted.sort();
    for (open, each) in [
        ("memory, 'w'", plain),
        ("memory, 'w', zipfile.ZIP_DEFLATED", plain),
        ("pipe, 'w'", plain),
        ("pipe, 'w', zipfile.ZIP_DEFLATED", plain),
        ("memory, 'w', zipfile.ZIP_DEFLATED", wide),
        ("pipe, 'w', zipfile.ZIP_DEFLATED", wide),
    ] {
        let bytes = python(&script(open, each), b"");
        let archive = Archive::open(&bytes, &Limits::BUNDLE).unwrap_or_else(|error| panic!("{open}, {each}: {error}"));
        assert_eq!(archive.folders().len(), 1);
        assert_eq!(whole(&bytes, &Limits::BUNDLE).unwrap(), wanted, "{open}, {each}");
    }
}
