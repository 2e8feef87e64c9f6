//! A shop of packages that are made here, so that nothing is fetched, and a process that buys nowhere else: what the
//! installer knows it knows from variables, and those are a process's own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::zip_build::{stored, zip};

/// Says, in the process that is for a test alone, where the shop is.
const MARK: &str = "KITBAG_TEST_SHOP";

/// The shop, as the process knows it that buys there.
pub(crate) struct Shop(PathBuf);

impl Shop {
    /// In the test's first process: runs it again in one of its own, to its end, and gives none. There: the shop.
    pub(crate) fn enter(test: &str) -> Option<Self> {
        Self::enter_with(test, |_| Vec::new())
    }

    /// The same with more variables, which are made in the shop's folder.
    pub(crate) fn enter_with(
        test: &str,
        variables: impl FnOnce(&Path) -> Vec<(&'static str, PathBuf)>,
    ) -> Option<Self> {
        if let Some(folder) = std::env::var_os(MARK) {
            fs::write(Path::new(&folder).join("entered"), "").unwrap();
            return Some(Self(folder.into()));
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("wheels")).unwrap();
        let shop = Self(folder.path().to_owned());
        shop.sell("kb_tiny", "1.0", "VERSION = 1", &[]);
        shop.sell("kb_tiny", "2.0", "VERSION = 2", &[]);
        shop.sell("kb_big", "1.0", "import kb_tiny\nBIG = kb_tiny.VERSION * 100", &["kb-tiny>=1"]);
        let mut variables = variables(folder.path());
        variables.push((MARK, folder.path().to_owned()));
        let status = again(test, folder.path(), &variables).wait().unwrap();
        assert!(status.success() && folder.path().join("entered").exists(), "{test} has failed in its own process");
        None
    }

    /// Where things of the test may be.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Has a package that is only unpacked.
    pub(crate) fn sell(&self, name: &str, version: &str, code: &str, needs: &[&str]) {
        let about = format!("{name}-{version}.dist-info");
        let needs: String = needs.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
        let files = [
            (format!("{name}/__init__.py"), code.to_owned()),
            (format!("{about}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")),
            (format!("{about}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned()),
        ];
        let record: String = files.iter().map(|(path, _)| format!("{path},,\n")).collect();
        let record = (format!("{about}/RECORD"), format!("{record}{about}/RECORD,,\n"));
        self.put(&format!("{name}-{version}-py3-none-any.whl"), files.into_iter().chain([record]));
    }

    /// Has a package that must be built, by code that writes a file where it is told.
    pub(crate) fn sell_source(&self, name: &str, trace: &Path) {
        let top = format!("{name}-1.0");
        let project = format!(
            "[project]\nname = \"{name}\"\nversion = \"1.0\"\n[build-system]\nrequires = []\nbuild-backend = \"build\"\n\
             backend-path = [\".\"]\n"
        );
        let files = [
            (format!("{top}/pyproject.toml"), project),
            (format!("{top}/PKG-INFO"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")),
            (format!("{top}/build.py"), format!("open({trace:?}, 'w').write('built')\n")),
        ];
        self.put(&format!("{top}.zip"), files);
    }

    fn put(&self, file: &str, files: impl IntoIterator<Item = (String, String)>) {
        let bytes = zip(files.into_iter().map(|(path, text)| stored(path, text)));
        fs::write(self.0.join("wheels").join(file), bytes).unwrap();
    }
}

/// The same test in a process of its own, which buys in a shop.
#[allow(clippy::disallowed_methods, reason = "it is this very program, with other variables")]
pub(crate) fn again(test: &str, shop: &Path, variables: &[(&str, PathBuf)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env("UV_OFFLINE", "1");
    command.env("UV_CACHE_DIR", shop.join("cache")).env("UV_FIND_LINKS", shop.join("wheels"));
    command.envs(variables.iter().map(|(name, value)| (name, value))).spawn().unwrap()
}

/// A program on the path, where it really is.
pub(crate) fn on_the_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = places.into_iter().find(|place| place.is_file());
    found.unwrap_or_else(|| panic!("{name} is not on the path; make test puts it there"))
}

/// A folder of programs: scripts, and a Python that is no shim and needs nothing else.
pub(crate) fn programs(folder: &Path, scripts: &[(&str, String)]) -> PathBuf {
    let folder = folder.join("bin");
    fs::create_dir_all(&folder).unwrap();
    for (name, script) in scripts {
        fs::write(folder.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    if !folder.join("python3").exists() {
        symlink(real_python(), folder.join("python3")).unwrap();
    }
    folder
}

/// The interpreter that `python3` starts.
#[allow(clippy::disallowed_methods, reason = "the tests' own Python says where it is")]
pub(crate) fn real_python() -> PathBuf {
    let ask = "import os, sys; print(os.path.realpath(sys.executable), end='')";
    let said = Command::new("python3").args(["-I", "-S", "-c", ask]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().into()
}
