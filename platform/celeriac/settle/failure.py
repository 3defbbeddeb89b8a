"""An exception as strings. Only strings cross process and storage borders: exceptions hold locks, sockets and hostile ``__str__``."""

from __future__ import annotations

import hashlib
import re
import traceback
from typing import Final

from celeriac import codes, text
from celeriac.outcomes import Failure

MESSAGE: Final = 4000
TRACEBACK: Final = 20000
_LINE: Final = re.compile(r'File "(?P<file>[^"]+)", line \d+, in (?P<function>.+)')


def describe(error: BaseException, trace: str | None = None) -> Failure:
    """*error* with its code, class path, message, traceback and fingerprint.

    Arguments:
        error: what was raised. Its own ``code`` counts if it is a well-formed error code.
        trace: the traceback as text, where the caller has it; else it is taken from the exception.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if trace is None:
        trace = _traceback(error)
    code = _own_code(error) or _shipped(error)
    return Failure(
        code=code,
        kind=text.storable(name, 255),
        message=text.safe_str(error, MESSAGE),
        traceback=text.storable(trace, TRACEBACK),
        fingerprint=fingerprint(code, trace),
    )


def _own_code(error: BaseException) -> str | None:
    try:
        own = getattr(error, "code", None)
    except Exception:  # a property of a user's class; what it raises must not decide about the job
        return None
    return own if isinstance(own, str) and codes.is_well_formed(own) else None


def fingerprint(code: str, trace: str) -> str:
    """Code and the last five frames without line numbers, hashed: what failed alike has the same one."""
    frames = [f"{m['file'].rsplit('/', 1)[-1]}:{m['function']}" for m in _LINE.finditer(trace)][-5:]
    return hashlib.sha256("|".join([code, *frames]).encode("utf-8", "replace")).hexdigest()[:32]


def _shipped(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return codes.OUT_OF_MEMORY
    if type(error).__name__ == "SoftTimeLimitExceeded":
        return codes.SOFT_TIME_LIMIT
    return codes.UNCLASSIFIED


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as exc:  # a user's __str__ or __cause__ may raise; the attempt still has to be recorded
        return f"<no traceback: formatting it raised {type(exc).__qualname__}>"
