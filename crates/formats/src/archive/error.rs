//! Each way in which a ZIP can lie has its own name here, so that a refusal says which lie it was and what is allowed.

use std::io;

/// Why an archive is refused. Names of entries are escaped and cut, so that they are safe to show.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the sentences below say what each field is")]
pub enum ArchiveError {
    // The archive as a whole.
    /// There is no end record, and nothing that looks like an entry.
    #[error("this is not a ZIP archive: it has no end record")]
    NotZip,
    /// It begins like a ZIP, and a part of it is missing.
    #[error("the ZIP archive is cut off or damaged: {what}")]
    Truncated { what: &'static str },
    /// Two places could be the end, so two readers could see two archives.
    #[error("the ZIP archive can be read in two ways: it has more than one end record; exactly one is allowed")]
    SeveralEnds,
    /// A program or another archive is glued before it.
    #[error("{bytes} bytes come before the first entry; a ZIP archive must begin with its first entry")]
    DataBefore { bytes: u64 },
    /// Something is glued behind it.
    #[error("{bytes} bytes follow the end of the ZIP archive; nothing may follow it")]
    DataAfter { bytes: u64 },
    /// Bytes that belong to no part.
    #[error("{bytes} bytes at offset {at} belong to no entry; the parts of a ZIP archive must lie side by side")]
    Gap { at: u64, bytes: u64 },
    /// An entry that only a reader who ignores the central directory would see.
    #[error("at offset {at} is an entry which the central directory does not list; every entry must be listed")]
    Hidden { at: u64 },
    /// One part of several.
    #[error("the ZIP archive is one part of several; only archives in one piece are allowed")]
    Disks,
    /// The ordinary and the 64-bit end records disagree.
    #[error("the 64-bit end record of the ZIP archive disagrees with the ordinary one: {what}")]
    Zip64End { what: &'static str },
    /// The central directory is not what the end record says.
    #[error("the central directory of the ZIP archive is damaged: {what}")]
    Directory { what: &'static str },
    /// The end record counts other entries than there are.
    #[error("the ZIP archive says that it has {said} entries, and its central directory has another number")]
    Count { said: u64 },

    // Limits.
    /// More bytes than may be read.
    #[error("the archive has {bytes} bytes; at most {allowed} are allowed")]
    Packed { bytes: u64, allowed: u64 },
    /// More bytes than may be written.
    #[error("the files of the archive have more than {allowed} bytes unpacked, which is the most that is allowed")]
    Unpacked { allowed: u64 },
    /// More files and folders than may be made.
    #[error("the archive has {entries} files and folders; at most {allowed} are allowed")]
    Entries { entries: u64, allowed: usize },
    /// A bomb.
    #[error(
        "the files of the archive are more than {allowed} times larger than the archive, which is the most that is allowed"
    )]
    Ratio { allowed: u64 },
    /// A path of too many bytes.
    #[error("{name}: the path has more than {allowed} bytes, which is the most that is allowed")]
    LongPath { name: String, allowed: usize },
    /// A path of too many names.
    #[error("{name}: the path has more than {allowed} names, which is the most that is allowed")]
    Deep { name: String, allowed: usize },

    // Names.
    /// `..`, the way out of the folder.
    #[error("{name}: the path has \"..\", which would lead out of the folder; only paths below it are allowed")]
    Traversal { name: String },
    /// It begins with `/`.
    #[error("{name}: the path is absolute; only relative paths are allowed")]
    Absolute { name: String },
    /// It begins with a drive of Windows.
    #[error("{name}: the path begins with a drive letter; only relative paths are allowed")]
    Drive { name: String },
    /// A backslash, which separates names on Windows only.
    #[error("{name}: the path has a backslash; only \"/\" may separate names")]
    Backslash { name: String },
    /// Nothing, or `.`, where a name should be.
    #[error("{name:?}: the path has an empty part or \".\"; every part must be a name")]
    EmptyPart { name: String },
    /// A NUL, a control character, or one that turns the text around it.
    #[error("{name}: the path has a control character; only visible characters are allowed")]
    Character { name: String },
    /// A dot or space at the end of a name, which Windows drops.
    #[error("{name}: a name in the path ends in a dot or a space, which some systems drop; it must end otherwise")]
    TrailingDot { name: String },
    /// `con`, `nul` and their kin.
    #[error("{name}: a name in the path means a device on Windows; choose another")]
    Reserved { name: String },
    /// A name that no file system keeps.
    #[error("{name}: a name in the path has more than 255 bytes, which is the most that is allowed")]
    LongName { name: String },
    /// It says that it is UTF-8, and is not.
    #[error("{name}: the name is marked as UTF-8 and is not; names must be UTF-8")]
    NotUtf8 { name: String },
    /// Not ASCII, in an encoding nobody names.
    #[error(
        "{name}: the name is neither ASCII nor marked as UTF-8, so it can be read in several ways; make the archive with UTF-8 names"
    )]
    Encoding { name: String },
    /// Its Unicode field says another name.
    #[error("{name}: the entry has a second name in its Unicode field, and it differs; both must be the same")]
    SecondName { name: String },

    // The tree.
    /// Two of the same name: which one wins depends on the reader.
    #[error("{name}: the archive has it twice; every path may be there once")]
    Duplicate { name: String },
    /// Two names that differ in case only.
    #[error("{name} and {other} differ only in upper and lower case, so on some systems they are the same; rename one")]
    CaseTwin { name: String, other: String },
    /// Two names that look the same and are spelled with other code points.
    #[error("{name} and {other} are the same text in different Unicode spellings; rename one")]
    UnicodeTwin { name: String, other: String },
    /// A file where another entry needs a folder.
    #[error("{name}: it is a file, and also a folder with something in it; it may be one of both")]
    FileAndFolder { name: String },

    // What an entry is.
    /// A symbolic link, which could lead anywhere.
    #[error("{name}: it is a link; only files and folders are allowed")]
    Link { name: String },
    /// A device, a pipe or a socket.
    #[error("{name}: it is a device, a pipe or a socket; only files and folders are allowed")]
    Special { name: String },
    /// The name says folder and the mode says file, or the other way round.
    #[error("{name}: its name and its mode disagree on whether it is a folder; only a folder's name ends in \"/\"")]
    Kind { name: String },
    /// A folder with content.
    #[error("{name}: it is a folder and has content; a folder must be empty of bytes")]
    FolderContent { name: String },
    /// Encrypted, or its header is.
    #[error("{name}: it is encrypted; only archives without a password are allowed")]
    Encrypted { name: String },
    /// A compression that is not deflate.
    #[error("{name}: it is packed by method {method}; only stored (0) and deflate (8) are allowed")]
    Method { name: String, method: u16 },
    /// A feature that changes what the bytes mean.
    #[error("{name}: its flags {flags:#06x} ask for a feature that Kitbag does not know; make the archive without it")]
    Flags { name: String, flags: u16 },
    /// Fields behind the name that do not fill their room.
    #[error("{name}: its extra fields are damaged; each must have the length that it says, and be there once")]
    Extra { name: String },

    // What is said twice.
    /// The header before the content disagrees with the central directory.
    #[error("{name}: the central directory and the entry's own header disagree on its {field}; both must say the same")]
    Header { name: String, field: &'static str },
    /// The sizes behind the content disagree with the central directory.
    #[error("{name}: the sizes or the checksum behind its content are missing or differ from the central directory's")]
    Descriptor { name: String },
    /// The 64-bit sizes disagree with the ordinary ones.
    #[error("{name}: its 64-bit sizes are missing or disagree with the ordinary ones; both must say the same")]
    Zip64 { name: String },
    /// Bytes used by two entries: the trick of a bomb without a large ratio.
    #[error("{name}: it overlaps another part of the archive; every entry must have bytes of its own")]
    Overlap { name: String },

    // Content.
    /// Not what was packed.
    #[error("{name}: its content does not match its checksum; the archive is damaged")]
    Checksum { name: String },
    /// Other than it said.
    #[error("{name}: its content has another size than the {said} bytes that the archive says")]
    Size { name: String, said: u64 },
    /// The compressed stream is finished before its bytes are.
    #[error("{name}: bytes follow the end of its compressed content; nothing may be hidden there")]
    LeftOver { name: String },
    /// Not a compressed stream.
    #[error("{name}: its compressed content is damaged")]
    Deflate { name: String },

    /// The reader's own side failed.
    #[error("what was unpacked could not be passed on")]
    Sink(#[source] io::Error),
}

/// The most characters of a name that a message shows.
const SHOWN: usize = 160;

/// A foreign name for a message: one line, visible characters, not too long.
pub(super) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut characters = text.chars().flat_map(|character| match character {
        // These turn the text around them, so that what is shown is not what is there.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => character.escape_unicode().collect::<Vec<_>>(),
        _ => character.escape_debug().collect(),
    });
    let mut short: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
