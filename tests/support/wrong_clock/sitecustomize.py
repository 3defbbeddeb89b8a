"""First on a process's path, this sets the host's clock wrong for it alone: by ``WRONG_BY`` seconds.

What reads the time of day from Python reads it here; what counts seconds (``time.monotonic``) is left alone, as on a real
host. The method of a built-in type is replaced where the type itself keeps it: a subclass would be another type for the
database's driver.
"""

import ctypes
import datetime
import gc
import os
import time

_BY = float(os.environ["WRONG_BY"])
_time, _time_ns, _now = time.time, time.time_ns, datetime.datetime.now


def _wrong_now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
    return _now(tz) + datetime.timedelta(seconds=_BY)


def _wrong_utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
    return _wrong_now(cls, datetime.UTC).replace(tzinfo=None)


time.time = lambda: _time() + _BY
time.time_ns = lambda: _time_ns() + int(_BY * 1e9)
(_methods,) = gc.get_referents(datetime.datetime.__dict__)
_methods["now"] = classmethod(_wrong_now)
_methods["utcnow"] = classmethod(_wrong_utcnow)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
