"""Which desired documents does a device accept, and which of them give it something to do?"""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from shoal_agent.daemon.assignment import Order, Verdict, judge, needs_updater
from shoal_agent.slots import HeldRelease, Journal, Slot, Slots
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.envelope import KeySigner
from shoal_wire.grant import Grant
from shoal_wire.messages import Assignment, Desired
from shoal_wire.update import TERMINAL, UpdateState

KEY = ed25519.Ed25519PrivateKey.generate()
FOREIGN = ed25519.Ed25519PrivateKey.generate()
DEVICE = "d-test"


def make_assignment(version: int, *, release: str = "notes") -> Assignment:
    digest = hashlib.sha256(b"%d" % version).hexdigest()
    return Assignment(release=release, version=version, manifest_sha256=digest, grants=(Grant(digest, 1, ""),))


def make_desired(*assignments: Assignment, order: Order = (1, 1), device: str = DEVICE) -> Desired:
    return Desired(device=device, epoch=order[0], generation=order[1], issued_at=0.0, assignments=assignments)


def sealed(desired: Desired, *, key: ed25519.Ed25519PrivateKey = KEY, kind: str = envelope.DESIRED) -> bytes:
    return envelope.seal(encode(desired), kind, KeySigner(key))


def verdict(raw: bytes, *, accepted: Order | None = None) -> Verdict:
    return judge(raw, device=DEVICE, keys=[KEY.public_key()], accepted=accepted).verdict


@pytest.mark.parametrize(
    ("order", "accepted", "expected"),
    [
        ((1, 1), None, Verdict.ACCEPT),
        ((0, 0), None, Verdict.ACCEPT),
        ((1, 2), (1, 1), Verdict.ACCEPT),
        ((2, 0), (1, 9), Verdict.ACCEPT),
        ((1, 1), (1, 1), Verdict.IGNORE),
        ((1, 1), (1, 2), Verdict.IGNORE),
        ((1, 9), (2, 0), Verdict.IGNORE),
    ],
)
def test_only_a_newer_document_is_accepted(order: Order, accepted: Order | None, expected: Verdict) -> None:
    assert verdict(sealed(make_desired(order=order)), accepted=accepted) is expected


def test_a_signature_by_an_unknown_key_asks_for_keys() -> None:
    assert verdict(sealed(make_desired(), key=FOREIGN)) is Verdict.ASK_FOR_KEYS


def test_refuses_a_document_for_another_device() -> None:
    judgement = judge(sealed(make_desired(device="d-other")), device=DEVICE, keys=[KEY.public_key()], accepted=None)
    assert judgement.verdict is Verdict.REFUSE
    assert "d-other" in judgement.reason and judgement.desired is None


def test_refuses_another_kind_of_document_with_a_good_signature() -> None:
    assert verdict(sealed(make_desired(), kind=envelope.ACK)) is Verdict.REFUSE


def test_refuses_a_document_that_claims_a_known_key() -> None:
    claimed = sealed(make_desired(), key=FOREIGN).replace(
        KeySigner(FOREIGN).key_id.encode(), KeySigner(KEY).key_id.encode()
    )
    assert verdict(claimed) is Verdict.REFUSE


def test_refuses_a_release_that_is_assigned_twice() -> None:
    assert verdict(sealed(make_desired(make_assignment(1), make_assignment(2)))) is Verdict.REFUSE


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff", b"[" * 100_000, b"x" * (3 << 20)])
def test_refuses_bytes_that_are_no_document(raw: bytes) -> None:
    assert verdict(raw) is Verdict.REFUSE


def make_slots(version: int | None, *, refused: tuple[Order, ...] = ()) -> Slots:
    held = None
    if version is not None:
        assignment = make_assignment(version)
        journal = Journal(epoch=1, generation=1, assignment=assignment, state=UpdateState.COMMITTED)
        held = HeldRelease(reference=journal.target, epoch=1, generation=1, variant="v", grants=())
    return Slots(slots={"notes": Slot(current=held, refused=refused)})


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        (Slots(), True),
        (make_slots(None), True),
        (make_slots(1), True),
        (make_slots(2), False),
        (make_slots(1, refused=((1, 7),)), False),
        (make_slots(1, refused=((1, 6), (0, 7))), True),
    ],
)
def test_a_release_that_is_not_current_needs_the_updater_unless_it_was_refused(slots: Slots, expected: bool) -> None:
    desired = make_desired(make_assignment(2), order=(1, 7))
    assert needs_updater(desired, slots=slots, own=Slot(), journal=None) is expected


def test_a_generation_whose_journal_could_not_be_read_is_not_tried_again() -> None:
    desired = make_desired(make_assignment(2), order=(1, 7))
    journal = Journal(epoch=1, generation=7, assignment=make_assignment(2), state=UpdateState.UNKNOWN)
    assert not needs_updater(desired, slots=Slots(), own=Slot(), journal=journal)
    newer = make_desired(make_assignment(2), order=(1, 8))
    assert needs_updater(newer, slots=Slots(), own=Slot(), journal=journal)


@pytest.mark.parametrize("state", UpdateState)
def test_an_update_that_has_not_ended_needs_the_updater(state: UpdateState) -> None:
    journal = Journal(epoch=1, generation=1, assignment=make_assignment(2), state=state)
    assert needs_updater(None, slots=make_slots(2), own=Slot(), journal=journal) is (state not in TERMINAL)
