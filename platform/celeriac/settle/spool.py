"""Outcomes that the database could not take wait on disk, in order, and are replayed once.

One file an incarnation, one JSON object a line, flushed to the disk before the child is free. Written by the children (append,
under an exclusive lock, so that lines of two children never mix), replayed when the database answers again by
whichever worker of this database on this host comes first: one that died with a full spool is given up a few seconds later, and from then on
its outcomes are refused and its jobs run again. Replaying twice is harmless: every line carries
its fence, and the ledger takes an outcome once. A half-written last line (power loss) is set aside, not guessed at.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

logger = logging.getLogger("celeriac")

#: Read too: an appender looks at how the file ends.
_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT


class Spool:
    """The spool of one incarnation in *folder*; the folder is made private to this user."""

    def __init__(self, folder: str | Path, incarnation: str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / f"{incarnation}.jsonl"

    def append(self, entry: dict[str, Any]) -> None:
        """Write *entry* and wait until it is on the disk. Raises ``OSError`` when the disk can't take it."""
        self._make_private()
        line = json.dumps(entry).encode("ascii") + b"\n"
        fd = os.open(self.path, _APPEND, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # The file may have been emptied and removed by a replay between open and lock: then write the new one, which may be, too.
            while os.fstat(fd).st_nlink == 0:
                os.close(fd)
                fd = os.open(self.path, _APPEND, 0o600)
                fcntl.flock(fd, fcntl.LOCK_EX)
            _write(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)

    def replay(self, take: Callable[[dict[str, Any]], None], *, wait: bool = True) -> int:
        """Hand every entry to *take* in order, then remove the file. Returns how many were handed over; with *wait* off none when
        somebody else is at it.

        An exception from *take* ends the replay; what was taken is taken again next time, which the fences make harmless.
        """
        try:
            fd = os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            return 0
        with os.fdopen(fd, "rb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 0
            count = 0
            if os.fstat(file.fileno()).st_nlink == 0:
                return 0  # replayed and removed by another worker between open and lock
            for number, line in enumerate(file, 1):
                try:
                    entry = json.loads(line)
                except ValueError:
                    self._set_aside(line, number)
                    continue
                take(entry)
                count += 1
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        return count

    def _make_private(self) -> None:
        """The folder, ours alone: outcomes carry results, and its default lies where every user of the host may write."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for folder in (self.folder, self.folder.parent):
            found = os.lstat(folder)
            foreign = found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode)
            if (foreign and folder == self.folder) or (foreign and folder.name.startswith("celeriac-")):
                raise PermissionError(
                    f"{folder} isn't this user's own folder; remove it, or set CELERIAC['SPOOL_DIR'] to one that is"
                )
        self.folder.chmod(0o700)

    def _set_aside(self, line: bytes, number: int) -> None:
        aside = self.folder / f"{self.path.stem}.unreadable"
        with aside.open("ab") as file:
            file.write(line)
        logger.error("Line %d of the spool %s is unreadable and was set aside in %s", number, self.path, aside)


def _write(fd: int, line: bytes) -> None:
    """All of *line* or nothing of it: a torn line would take the next one along."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line  # a child was killed while it wrote
    try:
        while line:
            line = line[os.write(fd, line) :]
    except OSError:
        os.ftruncate(fd, size)
        raise


def waiting(folder: str | Path) -> Iterator[Path]:
    """Spool files that have something in them."""
    for path in sorted(Path(folder).glob("*.jsonl")):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size:
                yield path
