"""This process's own command line, in words that still mean the same.

Celery enters ``--workdir`` when its options are read. What was relative to the folder that the process was started in (the script, entries of
``PYTHONPATH``, the folder itself) would be looked for inside of the new one when a worker starts anew or brings a scheduler along.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Final

#: Options of the interpreter that take the next argument, and those that end its own options.
_TAKE_VALUE: Final = frozenset({"-X", "-W", "--check-hash-based-pycs"})
_MODULE_OR_CODE: Final = re.compile(r"-[a-zA-Z]*[mc]")


def again(orig_argv: list[str]) -> list[str]:
    """The command line (``sys.orig_argv``) that starts the same program from where the process is now."""
    return [sys.executable, *_without_folder(_with_absolute_script(orig_argv[1:]))]


def environment() -> dict[str, str]:
    """The environment to start it in: what was on the path by a relative name is on it by its full one."""
    kept = dict(os.environ)
    asked = [entry for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry]
    found = [entry if os.path.isabs(entry) else _on_path(entry) for entry in asked]
    if _is_module(sys.orig_argv[1:]) and sys.path and sys.path[0] != os.getcwd():
        # `python -m` looks in the folder where it is started, which is no longer ours.
        found.insert(0, sys.path[0])
    if found != asked:
        kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(found))
    return kept


def _on_path(entry: str) -> str:
    """The interpreter made every entry absolute at its start, in the folder that was the current one then."""
    tail = os.sep + os.path.normpath(entry)
    return next((known for known in sys.path if os.path.isabs(known) and known.endswith(tail)), entry)


def _is_module(arguments: list[str]) -> bool:
    return _script(arguments) is None and any(_MODULE_OR_CODE.fullmatch(argument) for argument in arguments)


def _script(arguments: list[str]) -> int | None:
    """Where the script's path stands; ``None`` where a module is run, or code."""
    skip = False
    for position, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument in _TAKE_VALUE:
            skip = True
        elif _MODULE_OR_CODE.fullmatch(argument):
            return None
        elif not argument.startswith("-"):
            return position
    return None


def _with_absolute_script(arguments: list[str]) -> list[str]:
    position = _script(arguments)
    if position is None or os.path.isabs(arguments[position]):
        return arguments
    # Absolute since Python 3.9, in the folder of the start.
    full = getattr(sys.modules["__main__"], "__file__", None) or arguments[position]
    return [*arguments[:position], full, *arguments[position + 1 :]]


def _without_folder(arguments: list[str]) -> list[str]:
    """We are in ``--workdir`` already."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip or argument.startswith("--workdir="):
            skip = False
            continue
        if argument == "--workdir":
            skip = True
            continue
        kept.append(argument)
    return kept
