"""Imports a toolset's module, and never anything else.

`a.b:f` is the file `a/b.py` of the toolset or, if there is none, of its folder `tools`. Names of the standard library stay
Python's for everyone: a toolset's `json.py` is loaded under a name of its own. Names of installed packages are the
toolset's first, so `tools.util` is its own `tools`, whatever package has that name.
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from typing import Any

# Modules of a toolset whose name is somebody else's already.
PRIVATE = "_toolset_"

_ENTRYPOINT = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*):([A-Za-z_]\w*)", re.ASCII)


class NotLoaded(Exception):
    """A tool that cannot be called, and why."""

    def __init__(self, text: str, traceback: str | None = None) -> None:
        super().__init__(text)
        self.traceback = traceback


class _Finder:
    """Finds the top-level modules of the toolset that is loaded now."""

    def __init__(self) -> None:
        self.root = ""
        self.folders: list[str] = []
        # The top-level names that were found in it.
        self.found: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if path is not None or not self.folders:
            return None
        if name in sys.stdlib_module_names:
            # The toolset's folder is first in sys.path; a file queue.py there must not become everyone's queue.
            return PathFinder.find_spec(name, [folder for folder in sys.path if folder not in self.folders])
        own = name[len(PRIVATE) :] if name.startswith(PRIVATE) else name
        for folder in self.folders:
            place = os.path.join(folder, own)
            for file, inside in ((os.path.join(place, "__init__.py"), [place]), (place + ".py", None)):
                if os.path.isfile(file):
                    self.found.add(name)
                    return spec_from_file_location(name, file, submodule_search_locations=inside)
            if _has_code(place, own):
                spec = ModuleSpec(name, None, is_package=True)
                spec.submodule_search_locations = [place]
                self.found.add(name)
                return spec
        return None

    def use(self, root: str, folder: str) -> None:
        if self.root != root:
            self._forget()
            self.root = root
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        if folder not in self.folders:
            self.folders.append(folder)
            self.folders.sort(key=len)
            sys.path.insert(0, folder)
            importlib.invalidate_caches()

    def _forget(self) -> None:
        """Another toolset in the same process (tests do this) must find nothing of the one before."""
        for folder in self.folders:
            if folder in sys.path:
                sys.path.remove(folder)
        for name in list(sys.modules):
            if name.split(".")[0] in self.found:
                del sys.modules[name]
        self.folders = []
        self.found = set()

    def owns(self, module: Any) -> bool:
        try:
            places = [module.__file__] if getattr(module, "__file__", None) else list(getattr(module, "__path__", []))
        except Exception:  # Some modules are objects with ideas of their own.
            return False
        return any(isinstance(place, str) and place.startswith(self.root + os.sep) for place in places)


_finder = _Finder()


def _has_code(place: str, name: str) -> bool:
    # A folder of data must not hide an installed package that has its name.
    try:
        return name == "tools" and os.path.isdir(place) or any(file.endswith(".py") for file in os.listdir(place))
    except OSError:
        return False


def split(entrypoint: str) -> tuple[str, str]:
    """The module and the function of an entrypoint."""
    match = _ENTRYPOINT.fullmatch(entrypoint)
    if match is None or any(part.startswith("__") for part in re.split("[.:]", entrypoint)):
        raise NotLoaded(f"{entrypoint!r} is not an entrypoint: write package.module:function, relative to the toolset")
    return match.group(1), match.group(2)


def _folder(root: str, module: str) -> str:
    path = module.replace(".", os.sep)
    for folder in (root, os.path.join(root, "tools")):
        for file in (os.path.join(folder, path + ".py"), os.path.join(folder, path, "__init__.py")):
            if os.path.isfile(file):
                return folder
    shown = module.replace(".", "/")
    raise NotLoaded(f"the toolset has no file {shown}.py, and no tools/{shown}.py")


def find(root: str, entrypoint: str) -> Callable[..., Any]:
    """The function of an entrypoint. Whatever its module raises while it is imported goes through."""
    root = os.path.abspath(root)
    name, function = split(entrypoint)
    folder = _folder(root, name)
    _finder.use(root, folder)
    top = name.split(".")[0]
    taken = top in sys.stdlib_module_names or (top in sys.modules and not _finder.owns(sys.modules[top]))
    module = importlib.import_module(PRIVATE + name if taken else name)
    file = getattr(module, "__file__", None) or ""
    if not file.startswith(root + os.sep):
        raise NotLoaded(f"{name} is {file or 'a module of Python'}, which is not a file of the toolset")
    shown = os.path.relpath(file, root)
    found = getattr(module, function, None)
    if found is None:
        raise NotLoaded(f"{shown} has no function {function}{_nearest(function, module)}")
    if isinstance(found, type) or not callable(found):
        raise NotLoaded(
            f"{function} in {shown} is {'a class' if isinstance(found, type) else 'no function'}; an entrypoint names a function"
        )
    return found  # type: ignore[no-any-return]


def _nearest(function: str, module: Any) -> str:
    from difflib import get_close_matches

    near = get_close_matches(function, [name for name, value in vars(module).items() if callable(value)], 1)
    return f"; is it {near[0]}?" if near else ""
