"""Does an operator notice that the fleet's log was changed, cut off or written anew?"""

from collections.abc import Sequence
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_fleet.command.audit_log import Known, Reading, load_known, read_file, save_known
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, NotFound, Unreachable, UsageError
from shoal_wire import audit, envelope
from shoal_wire.audit import MAX_ENTRY_BYTES, START, AuditHead
from shoal_wire.envelope import KeySigner
from shoal_wire.errors import Damaged, Malformed, Untrusted

from tests.unit.fleet.command.material import make_login

KEY = Ed25519PrivateKey.generate()
PUBLIC = envelope.public_text(KEY.public_key())


class Log:
    """A fleet's log, and its exports."""

    def __init__(self, *, actor: str = "user:anna", key: Ed25519PrivateKey = KEY) -> None:
        self.heads = [START]
        self.lines: list[bytes] = []
        self._actor = actor
        self._signer = KeySigner(key)

    def grow(self, entries: int) -> "Log":
        for _ in range(entries):
            entry = audit.make_entry(
                self.heads[-1], at=5.0, actor=self._actor, action="device.revoked", subject="d", detail={}
            )
            self.heads.append(audit.follow(self.heads[-1], entry))
            self.lines.append(msgspec.json.encode(entry) + b"\n")
        return self

    def checkpoint(self, entries: int | None = None) -> bytes:
        head = self.heads[-1 if entries is None else entries]
        raw = audit.seal_checkpoint(head, at=6.0, signer=self._signer)
        return b'{"checkpoint":' + raw + b"}\n"

    def export(self) -> list[bytes]:
        return [*self.lines, self.checkpoint()]


def read(lines: Sequence[bytes], known: Known, *, is_whole: bool = True) -> AuditHead:
    reading = Reading(known, what="log")
    for line in lines:
        reading.take(line)
    reading.finish(is_whole=is_whole)
    return reading.head


def test_an_unbroken_log_is_read_to_its_end() -> None:
    log = Log().grow(5)
    assert read(log.export(), Known(key=PUBLIC)) == log.heads[5]
    assert (
        read([*log.lines[:2], log.checkpoint(2), *log.lines[2:], log.checkpoint()], Known(key=PUBLIC)) == log.heads[5]
    )


def test_a_log_that_grew_since_the_last_time_is_good() -> None:
    log = Log().grow(3)
    known = Known(log.heads[3], PUBLIC)
    assert read(log.grow(4).export(), known).sequence == 7


def test_a_log_whose_end_was_cut_off_is_noticed() -> None:
    known = Known(Log().grow(5).heads[5], PUBLIC)
    with pytest.raises(Damaged, match="ends at entry 3, the last time it had 5: its end was cut off"):
        read(Log().grow(3).export(), known)


def test_a_log_that_was_written_anew_with_the_fleets_own_key_is_noticed() -> None:
    known = Known(Log().grow(5).heads[5], PUBLIC)
    with pytest.raises(
        Damaged, match=r"entry 5 has the digest \w+, the last time it had \w+: the log was written anew"
    ):
        read(Log(actor="user:mallory").grow(6).export(), known)


def test_an_entry_that_is_missing_is_named() -> None:
    log = Log().grow(5)
    with pytest.raises(Damaged, match=r"^log: audit entry 4: expected entry 3"):
        read([*log.lines[:2], *log.lines[3:]], Known(key=PUBLIC))


def test_missing_last_lines_of_a_file_are_noticed() -> None:
    log = Log().grow(5)
    for lines in (log.lines, [*log.lines[:3], log.checkpoint(3), log.lines[3]]):
        with pytest.raises(Damaged, match="without a checkpoint: lines are missing at the end"):
            read(lines, Known(key=PUBLIC), is_whole=False)


def test_a_checkpoint_of_other_entries_is_refused() -> None:
    log = Log().grow(5)
    with pytest.raises(Damaged, match="is signed for entry 3 alone"):
        read([*log.lines, log.checkpoint(3)], Known(key=PUBLIC))
    with pytest.raises(Damaged, match="is signed for entry 5 with the digest"):
        read([*log.lines[:3], log.checkpoint()], Known(key=PUBLIC))


def test_a_checkpoint_by_another_key_is_refused() -> None:
    log = Log(key=Ed25519PrivateKey.generate()).grow(2)
    with pytest.raises(Untrusted, match="checkpoint after entry 2: expected a signature by"):
        read(log.export(), Known(key=PUBLIC))


def test_without_a_key_the_chain_alone_is_checked() -> None:
    log = Log().grow(2)
    assert read(log.lines, Known(), is_whole=False).sequence == 2


def test_what_was_seen_is_kept_for_each_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_LOGIN", str(tmp_path / "of a user" / "login.json"))
    first, second = make_login(), make_login()
    assert load_known(first) == Known()
    save_known(first, Known(AuditHead(5, "a" * 64), PUBLIC))
    save_known(second, Known(AuditHead(7, "b" * 64), PUBLIC))
    assert (load_known(first).head.sequence, load_known(second).head.sequence) == (5, 7)
    (kept,) = tmp_path.glob("of a user/*")
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(b"{")
    with pytest.raises(UsageError, match="it says which audit log was seen last"):
        load_known(first)


def test_a_file_with_an_endless_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.ndjson"
    path.write_bytes(b"{}\n" + b"x" * (MAX_ENTRY_BYTES + 1))
    with pytest.raises(Malformed, match="found a longer one"):
        list(read_file(path))


def lines_of(reply: httpx.Response, *, limit_bytes: int = 10) -> list[bytes]:
    with Client(make_login(), transport=httpx.MockTransport(lambda _: reply)) as client:
        return list(client.read_lines("/x", limit_bytes=limit_bytes))


def test_lines_come_whole_however_they_are_sent() -> None:
    pieces = [b"on", b"e\ntw", b"o\nthr", b"ee"]
    assert lines_of(httpx.Response(200, content=iter(pieces))) == [b"one\n", b"two\n", b"three"]
    assert lines_of(httpx.Response(200, content=b"")) == []


def test_lines_that_are_too_long_and_refusals_are_errors() -> None:
    with pytest.raises(CommandError, match="expected lines of at most 10 bytes"):
        lines_of(httpx.Response(200, content=iter([b"a" * 8, b"b" * 8])))
    with pytest.raises(NotFound, match="the reason"):
        lines_of(httpx.Response(404, json={"error": {"code": "x", "message": "the reason"}}))


def test_lines_that_are_cut_off_are_an_error() -> None:
    def cut(request: httpx.Request) -> httpx.Response:
        raise httpx.RemoteProtocolError("peer closed connection", request=request)

    with (
        Client(make_login(), transport=httpx.MockTransport(cut)) as client,
        pytest.raises(Unreachable, match="peer closed connection"),
    ):
        list(client.read_lines("/x", limit_bytes=10))
