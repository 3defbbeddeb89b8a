"""A short-named temporary folder that says whose it is, and the removal of those whose owner was killed."""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

_PREFIX = "celeriac-"
_LOCK = "owner.lock"
# A Unix socket's path ends at 107 bytes; this leaves room for our own names below the folder.
_LONGEST_ROOT = 60
_YOUNG = 60  # seconds in which a folder may still be waiting for its owner's lock


class Scratch:
    """A folder locked by this process for as long as it lives; `remove()` takes it away.

    Who is killed removes nothing, so each new owner removes the unlocked folders of the same user. The lock, not a
    process id, tells the living: ids are used again, and differ between containers that share a temporary folder.
    """

    def __init__(self) -> None:
        root = Path(tempfile.gettempdir())
        if len(os.fsencode(root)) > _LONGEST_ROOT or not _passable(root):
            root = Path("/tmp")  # noqa: S108 -- mkdtemp below makes a folder that only we can enter
        remove_leftovers(root)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        self._lock = (self.path / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove the folder and what is in it; a second call does nothing."""
        if not self._lock.closed:
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()


def _passable(root: Path) -> bool:
    # Root's servers run under an account that needs to pass through on its way to what is its own.
    return os.geteuid() != 0 or all(folder.stat().st_mode & stat.S_IXOTH for folder in (root, *root.resolve().parents))


def remove_leftovers(root: Path) -> None:
    """Remove the folders below `root` whose owners are gone."""
    for folder in root.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if folder.parent.stat().st_uid != os.getuid() or time.time() - folder.stat().st_mtime < _YOUNG:
                continue
            with folder.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder.parent, ignore_errors=True)
        except OSError:
            continue  # its owner lives, or another process is removing it just now
