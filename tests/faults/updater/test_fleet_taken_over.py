"""Whoever has the fleet's server, with all of its online keys: what can they have a board do, and what not?

The attacker signs snapshots, timestamps and assignments, and serves what they like. Root and releases are signed by the
publisher's keys, which are elsewhere.
"""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from securesystemslib.signer import CryptoSigner
from shoal_agent.daemon.assignment import judge
from shoal_agent.updater.errors import Refused, TryLater, Untrustworthy
from shoal_agent.updater.planning import Board as BoardFacts
from shoal_agent.updater.planning import plan_release
from shoal_wire import envelope, paths
from shoal_wire.encoding import encode
from shoal_wire.errors import Untrusted
from shoal_wire.manifest import parse_manifest
from shoal_wire.messages import Assignment, Desired
from shoal_wire.secret import open_secret, seal_secret
from tuf.api.metadata import Root, SuccinctRoles, TargetFile, Targets

from tests.faults.updater.attacked_repository import BINS, DAY_S, NOW, URL, Board, Repository, assign
from tests.faults.updater.publisher import DEVICE, MODEL

FACTS = BoardFacts(
    engines={"onnx": ("onnxruntime",)}, architecture="x86_64", memory_bytes=1 << 30, agent_version="0.1.0"
)


@pytest.fixture
def repository() -> Repository:
    """With two releases, both signed by the publisher."""
    made = Repository()
    made.release(2)
    made.publish("targets", *BINS)
    return made


@pytest.fixture
def board(repository: Repository, tmp_path: Path) -> Board:
    made = Board(tmp_path, repository)
    made.refresh()
    return made


def path_of(version: int) -> str:
    return f"{MODEL}/{version}/manifest.json"


def manifest_of(repository: Repository, version: int) -> bytes:
    return repository.contents[path_of(version)]


def assigned(repository: Repository, assignment: Assignment) -> bytes:
    """A desired document by the key that the attacker has."""
    desired = Desired(device=DEVICE, epoch=1, generation=3, issued_at=NOW, assignments=(assignment,))
    return envelope.seal(encode(desired), envelope.DESIRED, envelope.KeySigner(repository.assignment_key))


def online_signers(repository: Repository) -> list[CryptoSigner]:
    """All that the attacker can sign metadata with."""
    return [*repository.signers["snapshot"], *repository.signers["timestamp"], CryptoSigner(repository.assignment_key)]


def freeze_targets(repository: Repository, *, days: float) -> None:
    """Serve what there is, dated anew by the keys that the attacker has."""
    repository.now = NOW + days * DAY_S
    repository.publish_online()


@pytest.mark.parametrize("version", [2, 1])
def test_may_assign_any_signed_release_at_or_above_the_floor(
    repository: Repository, board: Board, version: int
) -> None:
    raw = manifest_of(repository, version)
    document = assigned(repository, assign(raw, version))
    keys = [repository.assignment_key.public_key()]
    desired = judge(document, device=DEVICE, keys=keys, accepted=(1, 2)).desired
    assert desired is not None
    (assignment,) = desired.assignments
    manifest = parse_manifest(board.fetch(raw, version))
    assert plan_release(manifest, assignment, floors={MODEL: version}, board=FACTS)


def test_may_withhold_a_revocation_until_what_the_release_key_signed_expires(
    repository: Repository, board: Board
) -> None:
    raw = manifest_of(repository, 1)
    for days in (30.0, 80.0):
        freeze_targets(repository, days=days)
        board.clock = repository.now
        assert board.fetch(raw, 1) == raw
    freeze_targets(repository, days=91.0)
    board.clock = repository.now
    with pytest.raises(Untrustworthy, match=r"New targets is expired.*this board keeps what it runs"):
        board.fetch(raw, 1)


def test_cannot_have_a_board_forget_a_revocation_that_it_has_seen(repository: Repository, board: Board) -> None:
    raw = manifest_of(repository, 1)
    repository.revoke(revoked=[assign(raw, 1).manifest_sha256])
    repository.publish("targets")
    board.refresh()
    repository.versions["targets"] -= 1
    repository.publish_online()
    with pytest.raises(Untrustworthy, match=r"Expected targets\.json version"):
        board.refresh()
    assert board.records.revoked().revoked == (assign(raw, 1).manifest_sha256,)


def test_cannot_have_a_board_go_below_a_floor_that_it_has_seen(repository: Repository, board: Board) -> None:
    repository.revoke(floors={MODEL: 2})
    repository.publish("targets")
    board.refresh()
    repository.versions["targets"] -= 1
    repository.publish_online()
    with pytest.raises(Untrustworthy, match=r"Expected targets\.json version"):
        board.refresh()
    raw = manifest_of(repository, 1)
    with pytest.raises(Refused, match="below its floor, 2"):
        plan_release(parse_manifest(raw), assign(raw, 1), floors=board.records.floors(), board=FACTS)


def test_cannot_sign_a_release(repository: Repository, board: Board) -> None:
    """Neither in a bin, nor in the targets metadata, nor by bytes of its own under a signed path."""
    repository.signers["targets"] = online_signers(repository)
    forged = repository.release(3)
    role = SuccinctRoles(["x"], 1, 1, "bins").get_role_for_target(path_of(3))
    repository.publish(role)
    with pytest.raises(Untrustworthy, match=r"was signed by 0/1 keys"):
        board.fetch(forged, 3)
    repository.publish("targets")
    with pytest.raises(Untrustworthy, match=r"was signed by 0/1 keys"):
        board.refresh()


def test_cannot_put_a_manifest_of_its_own_at_a_signed_path(repository: Repository, board: Board) -> None:
    raw = manifest_of(repository, 2)
    forged = raw.replace(b'"version":2', b'"version":9')
    assert forged != raw
    target = TargetFile.from_data(path_of(2), raw, ["sha256"])
    repository.files[f"{URL}{paths.TUF_TARGETS}{target.get_prefixed_paths()[0]}"] = forged
    with pytest.raises(Refused, match="assigned with digest"):
        board.fetch(forged, 2)
    with pytest.raises(TryLater, match="Observed hash"):
        board.fetch(raw, 2)


def test_cannot_name_itself_the_publisher(repository: Repository, board: Board) -> None:
    """A root by keys of its own, and one that gives its online keys the role of releases."""
    stolen = online_signers(repository)
    repository.versions["root"] += 1
    content = repository.content_of("root")
    assert isinstance(content, Root)
    content.add_key(stolen[0].public_key, Targets.type)
    for signers in (stolen, [CryptoSigner.generate_ed25519()], []):
        repository.keep("root", repository.sign(content, "root", signers=signers))
        with pytest.raises(Untrustworthy, match=r"root was signed by 0/1 keys"):
            board.refresh()


def test_cannot_read_a_secret_that_was_set_before() -> None:
    """It keeps what was sealed to a device; its own key doesn't open it."""
    device, fleet = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    sealed = seal_secret("hunter2", device.public_key(), device=DEVICE, name="camera-1", counter=1)
    with pytest.raises(Untrusted):
        open_secret(sealed, fleet, device=DEVICE)
    assert open_secret(sealed, device, device=DEVICE) == "hunter2"
