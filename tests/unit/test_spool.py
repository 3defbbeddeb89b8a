"""What the database could not take waits on disk, in order, and is handed over once."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from celeriac.settle.spool import Spool, waiting


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "celeriac-test" / "spool", "incarnation")


def replayed(spool: Spool) -> list[dict[str, Any]]:
    taken: list[dict[str, Any]] = []
    spool.replay(taken.append)
    return taken


def test_entries_come_back_in_order_and_once(spool: Spool) -> None:
    for number in range(5):
        spool.append({"number": number})

    assert [entry["number"] for entry in replayed(spool)] == [0, 1, 2, 3, 4]
    assert replayed(spool) == []
    assert not spool.path.exists()


def test_nothing_to_replay_is_no_error(spool: Spool) -> None:
    assert spool.replay(lambda entry: None) == 0


def test_any_text_survives_the_disk(spool: Spool) -> None:
    spool.append({"text": "NUL \x00, surrogate \ud800, line\nbreak, 漢"})
    assert replayed(spool) == [{"text": "NUL \x00, surrogate \ud800, line\nbreak, 漢"}]


def test_a_replay_that_fails_keeps_everything_for_the_next(spool: Spool) -> None:
    for number in range(3):
        spool.append({"number": number})

    def take(entry: dict[str, Any]) -> None:
        if entry["number"] == 1:
            raise ConnectionError("the database went away again")

    with pytest.raises(ConnectionError):
        spool.replay(take)
    assert [entry["number"] for entry in replayed(spool)] == [0, 1, 2]


def test_a_half_written_line_is_set_aside_and_the_others_are_taken(spool: Spool) -> None:
    spool.append({"number": 0})
    with spool.path.open("ab") as file:
        file.write(b'{"number": 1, "resu\n')
    spool.append({"number": 2})

    assert [entry["number"] for entry in replayed(spool)] == [0, 2]
    assert (spool.folder / "incarnation.unreadable").read_bytes() == b'{"number": 1, "resu\n'


def test_an_entry_is_on_the_disk_before_the_child_is_free(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(spool.path.read_bytes()), real(fd))[1])

    spool.append({"number": 0})

    assert [json.loads(content) for content in synced] == [{"number": 0}]


def test_a_disk_that_cannot_take_it_is_said(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        spool.append({"number": 0})


def test_a_write_that_the_system_cuts_short_is_continued(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    spool.append({"number": 0, "text": "x" * 100})
    spool.append({"number": 1})
    assert [entry["number"] for entry in replayed(spool)] == [0, 1]


def test_a_disk_that_is_full_in_the_middle_of_a_line_keeps_nothing_of_it(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.append({"number": 0})
    real, written = os.write, []

    def full(fd: int, data: bytes) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(data)
        return real(fd, data[:7])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            spool.append({"number": 1})
    spool.append({"number": 2})

    assert [entry["number"] for entry in replayed(spool)] == [0, 2]


def test_a_child_killed_while_it_wrote_does_not_take_the_next_entry_along(spool: Spool) -> None:
    spool.append({"number": 0})
    with spool.path.open("ab") as file:
        file.write(b'{"number": 1, "resu')
    spool.append({"number": 2})
    assert [entry["number"] for entry in replayed(spool)] == [0, 2]


def test_folder_and_file_are_private_to_the_user(spool: Spool) -> None:
    spool.append({"result": "secret"})
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600


def test_a_folder_that_others_could_enter_is_closed_to_them(spool: Spool) -> None:
    spool.folder.mkdir(parents=True)
    spool.folder.chmod(0o777)
    spool.append({"result": "secret"})
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700


def test_a_link_that_somebody_put_there_is_refused(spool: Spool, tmp_path: Path) -> None:
    spool.folder.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    spool.folder.symlink_to(elsewhere)

    with pytest.raises(PermissionError, match="SPOOL_DIR"):
        spool.append({"result": "secret"})
    assert list(elsewhere.iterdir()) == []


def test_a_folder_of_another_user_is_refused(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.append({"result": "first"})
    owner = spool.folder.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)

    with pytest.raises(PermissionError, match="SPOOL_DIR"):
        spool.append({"result": "secret"})


def _many(folder: str, child: int) -> None:
    spool = Spool(folder, "incarnation")
    for number in range(50):
        spool.append({"child": child, "number": number, "padding": "x" * 2000})


def test_lines_of_several_children_never_mix(spool: Spool) -> None:
    children = [
        multiprocessing.get_context("fork").Process(target=_many, args=(str(spool.folder), n)) for n in range(4)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()

    entries = replayed(spool)

    assert len(entries) == 200
    for n in range(4):
        assert [entry["number"] for entry in entries if entry["child"] == n] == list(range(50))


def test_an_entry_written_while_another_process_replays_is_not_lost(spool: Spool) -> None:
    """The appender has opened the file, the replay empties and removes it, the appender gets the lock."""
    spool.append({"child": -1, "number": -1})
    taken: list[dict[str, Any]] = []
    appender = multiprocessing.get_context("fork").Process(target=_many, args=(str(spool.folder), 0))
    appender.start()
    while appender.is_alive():
        spool.replay(taken.append)
    appender.join()
    spool.replay(taken.append)

    assert [entry["number"] for entry in taken] == [-1, *range(50)]


def test_only_files_with_something_in_them_wait(spool: Spool) -> None:
    assert list(waiting(spool.folder)) == []
    spool.append({"number": 0})
    (spool.folder / "empty.jsonl").touch()
    assert list(waiting(spool.folder)) == [spool.path]
