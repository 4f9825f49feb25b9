"""How long does the fleet wait before it starts a broker again, and what does it say when there is none?"""

from pathlib import Path

import pytest
from shoal_fleet.broker.errors import BrokerMissing
from shoal_fleet.broker.process import find_mosquitto, next_delay


def test_delays_double_up_to_half_a_minute() -> None:
    delays = [0.0]
    for _ in range(9):
        delays.append(next_delay(delays[-1], lived_s=0.1))
    assert delays[1:] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_broker_that_lived_long_is_started_soon() -> None:
    assert next_delay(30.0, lived_s=3600.0) == 0.5


def test_names_the_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerMissing, match="apt-get install mosquitto"):
        find_mosquitto(folders=[str(tmp_path)])


def test_finds_it_where_only_administrators_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "sbin" / "mosquitto"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_mosquitto(folders=[str(program.parent)]) == str(program)
