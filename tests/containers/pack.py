"""Packs this interpreter, its standard library and one distribution with all that it needs into the root of an image.

    python pack.py DISTRIBUTION ARCHIVE

What is packed is what this machine has: no package index and no registry is asked for anything.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tarfile

HOME = "opt/python"
# What no server needs.
LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "__pycache__", "site-packages", "dist-packages", "pydoc_data"}


def needed(name, extras, found):
    """The distributions that one needs, itself among them."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found and extras <= found[key][1]:
        return
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        # It is needed elsewhere alone, on another system.
        return
    found[key] = (distribution, extras | (found[key][1] if key in found else set()))
    for requirement in distribution.requires or []:
        named = re.match(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?", requirement)
        only_with = re.search(r"extra == ['\"]([^'\"]+)", requirement)
        if not only_with or only_with[1] in extras:
            needed(named[1], {extra.strip() for extra in (named[2] or "").split(",")} - {""}, found)


def libraries(path):
    """The shared libraries that a file is linked with."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return {word for word in said.split() if word.startswith("/")}


def main(name, archive):
    linked, program = set(), os.path.realpath(sys.executable)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    with tarfile.open(archive, "w") as tar:
        written = set()

        def add(path, target):
            if target in written:
                return
            written.add(target)
            info = tar.gettarinfo(os.path.realpath(path), target)
            info.uid = info.gid = 0
            info.mode = 0o755
            with open(path, "rb") as content:
                tar.addfile(info, content)
            if path == program or path.endswith(".so") or ".so." in os.path.basename(path):
                linked.update(libraries(path))

        for folder in ["tmp", "workspace", "kitbag", "etc", "proc", "dev", "sys"]:
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        add(program, f"{HOME}/bin/python3")
        standard = sysconfig.get_path("stdlib")
        for folder, below, files in os.walk(standard):
            below[:] = [one for one in below if one not in LEFT_OUT and not one.startswith("config-")]
            for file in files:
                path = os.path.join(folder, file)
                if os.path.isfile(path):
                    add(path, f"{HOME}/lib/{version}/{os.path.relpath(path, standard)}")
        found = {}
        needed(name, set(), found)
        for distribution, _ in found.values():
            for file in distribution.files or []:
                path = str(file.locate())
                if not file.parts[0].startswith("..") and "__pycache__" not in file.parts and os.path.isfile(path):
                    add(path, f"{HOME}/lib/{version}/site-packages/{file}")
        # Libraries stand where the linker looks for them; each may need others.
        done = set()
        while linked - done:
            for path in sorted(linked - done):
                done.add(path)
                add(path, path.lstrip("/"))
                linked.update(libraries(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
