"""Does a chain show what was changed, taken out, put in or moved, and name where?"""

import hashlib
import json
from collections.abc import Sequence

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shoal_wire import audit, envelope
from shoal_wire.audit import MAX_ENTRY_BYTES, START, AuditEntry, AuditHead
from shoal_wire.envelope import KeySigner
from shoal_wire.errors import Damaged, Malformed, Untrusted, WireError

AT = 1_800_000_000.123456
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def chain(length: int) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    head = START
    for number in range(length):
        entry = audit.make_entry(
            head,
            at=AT + number,
            actor="user:anna",
            action="device.revoked",
            subject=f"d-{number}",
            detail={"n": number},
        )
        head = audit.follow(head, entry)
        entries.append(entry)
    return entries


def walk(entries: Sequence[AuditEntry]) -> AuditHead:
    head = START
    for entry in entries:
        head = audit.follow(head, entry)
    return head


def test_digest_is_sha256_over_the_fields_in_a_list() -> None:
    """Computed with the standard library alone, as anyone who checks an export would."""
    entry = audit.make_entry(
        START, at=AT, actor="user:zoë", action="policy.changed", subject="rollouts", detail={"b": [1, None], "a": "é"}
    )
    fields = [
        "shoal-audit-1",
        1,
        1_800_000_000_123,
        "user:zoë",
        "policy.changed",
        "rollouts",
        '{"a":"\\u00e9","b":[1,null]}',
        "0" * 64,
    ]
    assert entry.digest == hashlib.sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()
    assert (entry.sequence, entry.at, entry.previous) == (1, 1_800_000_000.123, "0" * 64)


def test_unbroken_chain_ends_at_its_last_entry() -> None:
    entries = chain(5)
    assert walk(entries) == AuditHead(5, entries[-1].digest)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at", 1.0),
        ("actor", "user:bert"),
        ("action", "device.enrolled"),
        ("subject", "d-9"),
        ("detail", {"n": 7}),
        ("digest", "a" * 64),
    ],
)
def test_changed_field_is_found_at_that_entry(field: str, value: object) -> None:
    entries = chain(5)
    entries[2] = replace(entries[2], **{field: value})
    with pytest.raises(Damaged, match=r"^audit entry 3: its digest is .* it was changed after it was written"):
        walk(entries)


def test_changed_entry_with_a_digest_that_fits_breaks_the_next() -> None:
    entries = chain(5)
    changed = replace(entries[2], actor="user:bert")
    entries[2] = replace(changed, digest=audit.digest_of(changed))
    with pytest.raises(Damaged, match=r"^audit entry 4: follows an entry with the digest"):
        walk(entries)


def test_entry_taken_out_put_in_or_moved_is_found() -> None:
    entries = chain(5)
    for broken, found in (
        ([*entries[:2], *entries[3:]], 4),
        ([*entries[:2], entries[1], *entries[2:]], 2),
        ([entries[1], entries[0], *entries[2:]], 2),
        (entries[1:], 2),
    ):
        with pytest.raises(Damaged, match=rf"^audit entry {found}: expected entry"):
            walk(broken)


@given(
    detail=st.dictionaries(st.text(max_size=8), json_values, max_size=4),
    texts=st.tuples(st.text(), st.text()),
    at=st.floats(0, 4e9),
)
@settings(max_examples=100, deadline=None)
def test_entry_keeps_its_digest_through_json(detail: dict[str, object], texts: tuple[str, str], at: float) -> None:
    entry = audit.make_entry(START, at=at, actor=texts[0], action="x.y", subject=texts[1], detail=detail)
    line = msgspec.json.encode(entry)
    assert len(line) <= MAX_ENTRY_BYTES
    assert audit.follow(START, audit.parse_entry(line, what="line")).sequence == 1


def test_long_texts_are_cut_and_a_long_detail_is_kept_as_its_digest() -> None:
    detail = {"reason": "é" * 5000}
    entry = audit.make_entry(START, at=AT, actor="a" * 1000, action="x.y", subject="line\n\x1b[2J", detail=detail)
    text = json.dumps(detail, separators=(",", ":"))
    assert entry.detail == {"cut_bytes": len(text), "cut_sha256": hashlib.sha256(text.encode()).hexdigest()}
    assert (len(entry.actor), entry.subject) == (300, "line??[2J")


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"\xff", b'{"sequence":0}', b'{"sequence":1' + b" " * MAX_ENTRY_BYTES]
)
def test_what_is_no_entry_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed, match=r"^line 7"):
        audit.parse_entry(line, what="line 7")


def test_checkpoint_is_signed_for_its_purpose_alone() -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    head = AuditHead(5, "b" * 64)
    raw = audit.seal_checkpoint(head, at=AT, signer=KeySigner(key))
    checkpoint = audit.open_checkpoint(raw, key.public_key(), what="checkpoint")
    assert (checkpoint.sequence, checkpoint.digest, checkpoint.at) == (5, "b" * 64, AT)
    with pytest.raises(Untrusted):
        audit.open_checkpoint(raw, other.public_key(), what="checkpoint")
    with pytest.raises(Untrusted):
        envelope.verify(raw, envelope.DESIRED, [key.public_key()], what="desired")
    with pytest.raises(WireError):
        audit.open_checkpoint(raw[:-3], key.public_key(), what="checkpoint")
