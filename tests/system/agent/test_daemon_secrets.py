"""A source whose setting names a secret begins when the fleet sends it, and changes with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.messages import Desired
from shoal_wire.secret import SealedSecret, seal_secret

from tests.system.agent.board import DEVICE_ID, MODEL, Board, enrolled_board
from tests.system.fleet.broker_site import Site, wait_until

NAME = "camera-1"


@pytest.fixture
def board(tmp_path: Path, broker_site: Site) -> Iterator[Board]:
    """A board whose one source has a path with a secret in it."""
    with enrolled_board(tmp_path, broker_site) as made:
        made.configure(tunes=False)
        configuration = made.state / "agent.toml"
        hidden = f"{made.items.parent}/${{secret:{NAME}}}"
        configuration.write_text(configuration.read_text().replace(str(made.items), hidden))
        yield made


def seal(board: Board, value: str, *, counter: int) -> SealedSecret:
    return seal_secret(value, board.keys.hpke.public_key(), device=DEVICE_ID, name=NAME, counter=counter)


def assign(board: Board, *secrets: SealedSecret, generation: int) -> None:
    desired = Desired(
        device=DEVICE_ID,
        epoch=1,
        generation=generation,
        issued_at=0.0,
        assignments=(board.assignment(1),),
        secrets=secrets,
    )
    board.fleet.publish_desired(envelope.seal(encode(desired), envelope.DESIRED, board.fleet.signer))


def wait_answered(board: Board, *names: str) -> None:
    wait_until(lambda: {one.item for one in board.fleet.answers()} >= set(names), what=f"answers to {names}")


def test_source_waits_for_its_secret_and_follows_it(board: Board) -> None:
    board.trust_fleet()
    (board.items / "first.wav").write_bytes(b"sound")
    assign(board, generation=1)
    with board.daemon():
        wait_until(lambda: bool(board.fleet.events("source-waits")), what="the missing secret is told")
        assert f"secret {NAME}: this device hasn't got one" in board.fleet.events("source-waits")[0].detail
        assert board.fleet.answers() == []

        assign(board, seal(board, board.items.name, counter=1), generation=2)
        wait_answered(board, "first.wav")

        other = board.items.with_name("other")
        other.mkdir()
        (other / "second.wav").write_bytes(b"sound")
        assign(board, seal(board, other.name, counter=2), generation=3)
        wait_answered(board, "second.wav")
    assert {answer.reference.release for answer in board.fleet.answers()} == {MODEL}


def test_secret_is_in_no_file_of_the_board(board: Board) -> None:
    board.trust_fleet()
    secret = "correct-horse-battery"
    items = board.items.with_name(secret)
    items.mkdir()
    (items / "first.wav").write_bytes(b"sound")
    assign(board, seal(board, secret, counter=1), generation=1)
    with board.daemon() as process:
        wait_answered(board, "first.wav")
        process.kill()
    for file in board.state.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
