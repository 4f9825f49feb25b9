"""Does an agent read the state of its own version and older ones, and leave alone what a newer one wrote?"""

import json
from pathlib import Path
from typing import Any

import pytest
from shoal_agent.errors import StateDamaged
from shoal_agent.files import DiskFiles
from shoal_agent.own_trees import STATE_FORMAT
from shoal_agent.self_test import read_state
from shoal_agent.state import DEVICE, load_device

WRITTEN: dict[str, Any] = {
    "device": "d-0123456789abcdef",
    "name": "heron",
    "profile": "raspberry-pi-5",
    "broker_host": "fleet.example",
    "broker_port": 8883,
    "devices_url": "https://fleet.example:8444",
    "token_sha256": "00" * 32,
}


def write(state: Path, **changes: Any) -> bytes:
    content = json.dumps(WRITTEN | changes).encode()
    (state / DEVICE).write_bytes(content)
    return content


@pytest.mark.parametrize("changes", [{}, {"format": 1}, {"format": STATE_FORMAT}])
def test_reads_every_format_up_to_its_own(changes: dict[str, int], tmp_path: Path) -> None:
    write(tmp_path, **changes)
    assert load_device(DiskFiles(), tmp_path).name == "heron"


def test_says_that_a_newer_agent_wrote_it_whatever_else_has_changed(tmp_path: Path) -> None:
    newer = write(tmp_path, format=STATE_FORMAT + 1, broker_port={"of": "another kind"})

    with pytest.raises(StateDamaged, match=f"newer agent .* format {STATE_FORMAT + 1}.* reads up to {STATE_FORMAT}"):
        load_device(DiskFiles(), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [DEVICE]
    assert (tmp_path / DEVICE).read_bytes() == newer


def test_an_agent_on_trial_fails_its_self_test_on_state_that_is_newer(tmp_path: Path) -> None:
    write(tmp_path, format=STATE_FORMAT + 1)
    with pytest.raises(StateDamaged, match="newer agent"):
        read_state(tmp_path, configuration=None)
