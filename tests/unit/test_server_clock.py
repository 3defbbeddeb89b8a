"""A clock of the server that was set is told from one that runs, and from statements that waited."""

from __future__ import annotations

import pytest

from celeriac.fleet.server_clock import ServerClock


class Ours:
    """Our own monotonic clock, in the test's hands."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def after(looks: list[tuple[float, float, float]]) -> bool:
    """Whether a step was seen after looks of (asked, answered) on our clock and what the server said."""
    ours = Ours()
    server = ServerClock(ours)
    for asked, answered, told in looks:
        ours.now = answered
        server.saw(asked, told)
    return server.stepped_within(5.0)


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param([(100.0, 100.1, 5000.0)], id="a first look"),
        pytest.param([(100.0, 100.1, 5000.0), (130.0, 130.1, 5030.0)], id="a long pause between looks"),
        pytest.param([(100.0, 108.0, 5000.0), (108.5, 108.6, 5008.5)], id="an answer that came late"),
        pytest.param([(100.0, 100.1, 5000.0), (100.5, 108.0, 5008.0)], id="a statement that waited"),
        pytest.param([(100.0, 100.1, 5000.0), (100.5, 100.6, 5001.4)], id="a clock that is slewed"),
        pytest.param([(100.0, 100.1, 5000.0), (100.5, 100.6, 4000.0)], id="a step back"),
    ],
)
def test_is_no_step(looks: list[tuple[float, float, float]]) -> None:
    assert not after(looks)


def test_a_step_forward_is_seen_and_forgotten_when_evidence_is_old_again() -> None:
    ours = Ours()
    server = ServerClock(ours)
    server.saw(100.0, 5000.0)
    ours.now = 100.6
    server.saw(100.5, 5002.5)
    assert server.stepped_within(5.0)
    ours.now = 105.7
    server.saw(105.6, 5007.6)
    assert not server.stepped_within(5.0)
