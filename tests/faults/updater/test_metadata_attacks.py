"""Which of the attacks that TUF and Uptane name does a board's own trust code stand, against a repository that attacks?

Each attack begins with a board that has seen release 1. It must be refused, with nothing learnt from it, and the board
must go on once the repository is honest again.
"""

import contextlib
import http.server
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from securesystemslib.signer import CryptoSigner
from shoal_agent.daemon.assignment import Verdict, judge
from shoal_agent.fleet_tls import trusting
from shoal_agent.updater.errors import Refused, TryLater, Untrustworthy, UpdateError
from shoal_agent.updater.http_client import WINDOW_S, FleetHttp
from shoal_agent.updater.planning import Board as BoardFacts
from shoal_agent.updater.planning import plan_release
from shoal_agent.updater.repository import Places
from shoal_agent.updater.repository import Repository as Metadata
from shoal_wire import paths
from shoal_wire.manifest import parse_manifest
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from tuf.api.metadata import Snapshot, SuccinctRoles, TargetFile, Targets

from tests.faults.updater.attacked_repository import BINS, DAY_S, NOW, URL, Board, Repository, assign
from tests.faults.updater.publisher import DEVICE, MODEL

FACTS = BoardFacts(
    engines={"onnx": ("onnxruntime",)}, architecture="x86_64", memory_bytes=1 << 30, agent_version="0.1.0"
)


class Attack(NamedTuple):
    """What the attacker does to the repository, and how the board must refuse it."""

    name: str
    does: Callable[[Repository, Board], None]
    refused: type[UpdateError]
    reason: str
    online_keys_suffice: bool = False
    """Whether the attacker has the fleet's keys; else those of nobody."""


def path_of(version: int) -> str:
    return f"{MODEL}/{version}/manifest.json"


def bin_of(path: str) -> str:
    return SuccinctRoles(["x"], 1, 1, "bins").get_role_for_target(path)


def arbitrary_software(repository: Repository, board: Board) -> None:
    """Metadata that lists it, signed by a key of the attacker's."""
    repository.release(2)
    repository.signers["targets"] = [CryptoSigner.generate_ed25519()]
    repository.publish("targets", *BINS)


def arbitrary_assignment_key(repository: Repository, board: Board) -> None:
    """The fleet's online keys, taken over, can't name another assignment key."""
    kept = repository.contents[ASSIGNMENT_KEYS_PATH]
    repository.contents[ASSIGNMENT_KEYS_PATH] = b'{"protocol":1,"keys":["AAAA"]}'
    repository.signers["targets"] = [*repository.signers["snapshot"], *repository.signers["timestamp"]]
    repository.publish("targets")
    repository.contents[ASSIGNMENT_KEYS_PATH] = kept


def rollback_of_the_timestamp(repository: Repository, board: Board) -> None:
    old = repository.files[repository.url_of("timestamp", 0)]
    repository.publish_online()
    board.refresh()
    repository.files[repository.url_of("timestamp", 0)] = old


def rollback_of_targets(repository: Repository, board: Board) -> None:
    """A snapshot by the real key that names the targets of before."""
    repository.publish("targets")
    board.refresh()
    repository.versions["targets"] -= 1
    repository.publish_online()


def rollback_of_a_bin(repository: Repository, board: Board) -> None:
    role = bin_of(path_of(1))
    repository.publish(role)
    board.refresh()
    repository.versions[role] -= 1
    repository.publish_online()


def forgotten_bin(repository: Repository, board: Board) -> None:
    """A snapshot by the real key that lists a bin no longer."""
    repository.versions["snapshot"] += 1
    content = repository.content_of("snapshot")
    assert isinstance(content, Snapshot)
    del content.meta["bins-0.json"]
    repository.keep("snapshot", repository.sign(content, "snapshot"))
    repository.versions["timestamp"] += 1
    repository.keep("timestamp", repository.sign(repository.content_of("timestamp"), "timestamp"))


def indefinite_freeze(repository: Repository, board: Board) -> None:
    """The same answers for ever."""
    board.clock += 2 * DAY_S


def freeze_of_a_board_whose_clock_was_set_back(repository: Repository, board: Board) -> None:
    """The desired document comes another way: its time is later than the frozen metadata may be."""
    board.clock = 0.0
    board.desire(issued_at=NOW + 2 * DAY_S)


def mix_of_an_old_snapshot_and_a_new_timestamp(repository: Repository, board: Board) -> None:
    old = repository.files[repository.url_of("snapshot", 1)]
    repository.publish("targets")
    repository.keep("snapshot", old)


def mix_of_an_old_bin_and_a_new_snapshot(repository: Repository, board: Board) -> None:
    role = bin_of(path_of(1))
    old = repository.files[repository.url_of(role, repository.versions[role])]
    repository.publish(role)
    repository.keep(role, old)


def missing_assignment_keys(repository: Repository, board: Board) -> None:
    kept = repository.contents.pop(ASSIGNMENT_KEYS_PATH)
    repository.publish("targets")
    repository.contents[ASSIGNMENT_KEYS_PATH] = kept


def missing_metadata(repository: Repository, board: Board) -> None:
    repository.publish("targets")
    del repository.files[repository.url_of("targets", repository.versions["targets"])]


def one_key_of_two(repository: Repository, board: Board) -> None:
    """A threshold of two, of which one key was stolen."""
    repository.signers["targets"].append(CryptoSigner.generate_ed25519())
    repository.thresholds["targets"] = 2
    repository.publish("root", "targets", *BINS)
    board.refresh()
    stolen, repository.signers["targets"] = repository.signers["targets"], repository.signers["targets"][:1]
    root = repository.versions["root"]
    repository.versions["targets"] += 1
    content = repository.content_of("targets")
    repository.keep("targets", repository.sign(content, "targets"))
    repository.publish_online()
    repository.signers["targets"], repository.versions["root"] = stolen, root


def root_by_the_new_keys_alone(repository: Repository, board: Board) -> None:
    repository.signers["root"] = [CryptoSigner.generate_ed25519()]
    repository.publish("root")


def endless_timestamp(repository: Repository, board: Board) -> None:
    repository.endless.add(repository.url_of("timestamp", 0))


def endless_root(repository: Repository, board: Board) -> None:
    repository.endless.add(repository.url_of("root", 2))


def endless_targets(repository: Repository, board: Board) -> None:
    repository.publish("targets")
    repository.endless.add(repository.url_of("targets", repository.versions["targets"]))


def dropped_requests(repository: Repository, board: Board) -> None:
    repository.down = True


ATTACKS = (
    Attack("arbitrary software", arbitrary_software, Untrustworthy, "targets was signed by 0/1 keys"),
    Attack("arbitrary assignment key", arbitrary_assignment_key, Untrustworthy, "targets was signed by 0/1 keys", True),
    Attack("rollback", rollback_of_the_timestamp, Untrustworthy, "New timestamp version"),
    Attack("rollback of targets", rollback_of_targets, Untrustworthy, "Expected targets.json version", True),
    Attack("rollback of a bin", rollback_of_a_bin, Untrustworthy, "Expected bins-. *", True),
    Attack("forgotten bin", forgotten_bin, Untrustworthy, "missing info for 'bins-0.json'", True),
    Attack("indefinite freeze", indefinite_freeze, Untrustworthy, "timestamp.json is expired.*by this board's clock"),
    Attack(
        "indefinite freeze, clock set back",
        freeze_of_a_board_whose_clock_was_set_back,
        Untrustworthy,
        "timestamp.json is expired.*by the newest signed time.*this board's clock is behind: 1970",
    ),
    Attack("mix and match of snapshots", mix_of_an_old_snapshot_and_a_new_timestamp, Untrustworthy, "Observed hash"),
    Attack("missing targets", missing_assignment_keys, Untrustworthy, f"names no {ASSIGNMENT_KEYS_PATH}"),
    Attack("missing metadata", missing_metadata, TryLater, "status 404"),
    Attack("key compromise below threshold", one_key_of_two, Untrustworthy, "targets was signed by 1/2 keys"),
    Attack("key compromise of root", root_by_the_new_keys_alone, Untrustworthy, "root was signed by 0/1 keys"),
    Attack("endless data in the timestamp", endless_timestamp, TryLater, "exceeding the maximum"),
    Attack("endless data in root", endless_root, TryLater, "exceeding the maximum"),
    Attack("endless data in targets", endless_targets, TryLater, "exceeding the maximum"),
    Attack("drop request, denial of service", dropped_requests, TryLater, "connection refused"),
)


@pytest.fixture
def repository() -> Repository:
    return Repository()


@pytest.fixture
def board(repository: Repository, tmp_path: Path) -> Board:
    board = Board(tmp_path, repository)
    board.refresh()
    return board


def known(board: Board) -> dict[str, bytes]:
    """What the board goes by."""
    names = ("trust.json", "floors.json", "revoked.json")
    return {name: path.read_bytes() for name in names if (path := board.records.state / name).exists()}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name.replace(" ", "-"))
def test_attack_on_the_metadata_is_refused_and_leaves_no_trace(
    attack: Attack, repository: Repository, board: Board
) -> None:
    before, honest = known(board), dict(repository.signers)
    attack.does(repository, board)

    with pytest.raises(attack.refused, match=attack.reason):
        board.refresh()

    assert known(board) == before
    assert repository.sent_bytes < 6_000_000
    # Honest again: what the real keys sign is taken, above all version numbers that were used up.
    repository.signers, repository.endless, repository.down = honest, set(), False
    if attack.name == "key compromise of root":
        del repository.files[repository.url_of("root", repository.versions["root"])]
        repository.versions["root"] -= 1
    repository.now = max(board.clock, NOW + 3 * DAY_S)
    board.clock = repository.now
    for role in ("targets", *BINS):
        repository.versions[role] += 1
    repository.publish("targets", *BINS)
    assert board.refresh().trouble == ""


def test_manifest_that_was_swapped_is_not_taken(repository: Repository, board: Board) -> None:
    """Arbitrary software, by whoever serves the files: a malicious mirror."""
    raw = repository.contents[path_of(1)]
    target = TargetFile.from_data(path_of(1), raw, ["sha256"])
    url = f"{URL}{paths.TUF_TARGETS}{target.get_prefixed_paths()[0]}"
    for served, reason in (
        (raw[:-1] + b"]", "Observed hash"),
        (raw[:-1], "Observed length"),
        (raw + b" ", "exceeding the maximum"),
    ):
        repository.files[url] = served
        with pytest.raises(TryLater, match=reason):
            board.fetch(raw, 1)
    repository.endless.add(url)
    with pytest.raises(TryLater, match="exceeding the maximum"):
        board.fetch(raw, 1)
    repository.endless.clear()
    repository.files[url] = raw
    assert board.fetch(raw, 1) == raw


def test_old_bin_under_a_new_snapshot_is_refused(repository: Repository, board: Board) -> None:
    """Mix and match: the bin is asked for when a release is, not before."""
    raw = repository.contents[path_of(1)]
    mix_of_an_old_bin_and_a_new_snapshot(repository, board)
    with pytest.raises(Untrustworthy, match=r"Expected bins-\d v2, got v1"):
        board.fetch(raw, 1)


def test_release_that_nobody_signed_is_refused(repository: Repository, board: Board) -> None:
    """The fleet's assignment key, taken over, can't make a release."""
    with pytest.raises(Refused, match="not signed by the release key"):
        board.fetch(b"{}", 7)
    with pytest.raises(Refused, match="assigned with digest"):
        board.fetch(b"{}", 1)


def test_release_in_a_bin_of_others_is_not_found(repository: Repository, board: Board) -> None:
    """Extraneous: listed, by the right keys, where no client looks for it."""
    raw = repository.release(2)
    (other,) = set(BINS) - {bin_of(path_of(2))}
    repository.versions[other] += 1
    content = repository.content_of(other)
    assert isinstance(content, Targets)
    content.targets[path_of(2)] = TargetFile.from_data(path_of(2), raw, ["sha256"])
    repository.keep(other, repository.sign(content, "targets"))
    repository.publish_online()
    with pytest.raises(Refused, match="not signed by the release key"):
        board.fetch(raw, 2)


def test_manifest_of_another_model_is_refused(repository: Repository, board: Board) -> None:
    """Wrong software: signed, and at a path where it doesn't belong."""
    raw = repository.release(2, name="front-door-detector", path=path_of(2))
    repository.publish(bin_of(path_of(2)))
    manifest = parse_manifest(board.fetch(raw, 2))
    with pytest.raises(Refused, match="its manifest is of front-door-detector 2"):
        plan_release(manifest, assign(raw, 2), floors={}, board=FACTS)


def test_fast_forward_ends_with_the_keys_that_were_stolen(repository: Repository, board: Board) -> None:
    """Versions and times as far ahead as they go, by the fleet's keys; root then names others."""
    honest_now = repository.signed_at
    repository.signed_at = lambda: NOW + 5000 * 365 * DAY_S
    for role in ("snapshot", "timestamp"):
        repository.versions[role] = 2**31 - 1
    repository.publish_online()
    with contextlib.suppress(Untrustworthy):
        board.refresh()
    ahead = board.trust().read_time()
    assert ahead.is_clock_behind
    assert ahead.at <= NOW + 90 * DAY_S  # no further than what the offline keys signed
    repository.versions |= {"snapshot": 5, "timestamp": 5}
    repository.signed_at = honest_now
    repository.publish_online()
    with pytest.raises(Untrustworthy):
        board.refresh()

    repository.replace_keys("snapshot", "timestamp")
    repository.publish_online()

    assert board.refresh().is_clock_behind is False
    assert board.trust().read_time().at == pytest.approx(board.clock)


def test_keys_that_the_publisher_replaced_sign_nothing_any_more(repository: Repository, board: Board) -> None:
    stolen = repository.signers["targets"]
    repository.replace_keys("targets")
    repository.publish("targets", *BINS)
    assert board.refresh().root == 2
    raw = repository.release(2)
    repository.signers["targets"] = stolen
    repository.publish("targets", *BINS)
    with pytest.raises(Untrustworthy, match="targets was signed by 0/1 keys"):
        board.fetch(raw, 2)


def test_board_that_was_away_for_years_walks_the_chain_of_roots(repository: Repository, board: Board) -> None:
    for year in range(3):
        repository.now = board.clock = NOW + (year + 1) * 300 * DAY_S
        repository.replace_keys("root", "targets", "snapshot", "timestamp")
    repository.publish("targets", *BINS)
    assert board.refresh().root == 4


def test_floor_that_was_seen_never_sinks(repository: Repository, board: Board) -> None:
    repository.revoke(floors={MODEL: 3})
    repository.publish("targets")
    board.refresh()
    repository.revoke(floors={MODEL: 2})
    repository.publish("targets")
    board.refresh()
    assert board.records.floors() == {MODEL: 3}


def test_release_that_was_revoked_is_refused(repository: Repository, board: Board) -> None:
    raw = repository.contents[path_of(1)]
    repository.revoke(revoked=[assign(raw, 1).manifest_sha256])
    repository.publish("targets")
    with pytest.raises(Refused, match="was revoked by the release key"):
        board.fetch(raw, 1)


@pytest.mark.parametrize("content", [b"", b"{", b'{"protocol":1,"floors":{"x":-1}}', b'{"protocol":0}'])
def test_floors_that_nobody_can_read_are_refused(repository: Repository, board: Board, content: bytes) -> None:
    repository.contents["keys/floors.json"] = content
    repository.publish("targets")
    with pytest.raises(Untrustworthy, match=r"keys/floors\.json as it is signed now can't be used"):
        board.refresh()


def test_replayed_desired_document_is_ignored(board: Board) -> None:
    """Replay of an older generation, by the broker or whoever has it."""
    key = board.repository.assignment_key
    keys = [key.public_key()]
    old = board.desire(generation=6)
    for accepted, verdict in (((1, 5), Verdict.ACCEPT), ((1, 6), Verdict.IGNORE), ((1, 7), Verdict.IGNORE)):
        assert judge(old, device=DEVICE, keys=keys, accepted=accepted).verdict is verdict
    stranger = board.desire(generation=9, key=ed25519.Ed25519PrivateKey.generate())
    assert judge(stranger, device=DEVICE, keys=keys, accepted=(1, 6)).verdict is Verdict.ASK_FOR_KEYS


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[" * 16_000,
        b"\xff\xfe",
        b'{"signatures":[],"signed":{"_type":"timestamp","version":1.5}}',
        b'{"signatures":[{"keyid":1,"sig":2}],"signed":{"_type":"timestamp","spec_version":"1.0.31","version":9,'
        b'"expires":"2030-01-01T00:00:00Z","meta":{"snapshot.json":{"version":"9"}}}}',
        b'{"signatures":[],"signed":{"_type":"root","spec_version":"1.0.31","version":2,"consistent_snapshot":true,'
        b'"expires":"2030-01-01T00:00:00Z","keys":{},"roles":{"root":{"keyids":[[1]],"threshold":1}}}}',
    ],
)
@pytest.mark.parametrize("role", ["timestamp", "root"])
def test_metadata_that_nobody_can_read_puts_the_update_off(
    repository: Repository, board: Board, role: str, raw: bytes
) -> None:
    """It must not look as if the updater had failed: after some failures a release is never tried again."""
    repository.files[repository.url_of(role, 2)] = raw
    with pytest.raises(Untrustworthy, match="this board keeps what it runs"):
        board.refresh()


class Trickle(http.server.BaseHTTPRequestHandler):
    """Promises much and sends one byte at a time."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 20))
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b" ")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def trickling(certificates: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Trickle)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_slow_retrieval_is_given_up(trickling: str, certificates: Path, board: Board) -> None:
    """The clock of the connection runs as if each byte took a second."""
    seconds = iter(range(10_000_000))
    context = trusting([x509.load_pem_x509_certificate((certificates / "ca.pem").read_bytes())], at=time.time())
    context.load_cert_chain(certificates / "device.crt", certificates / "device.key")
    source = FleetHttp(trickling, context=context, monotonic=lambda: float(next(seconds)) * WINDOW_S)
    metadata = Metadata(
        root=board.repository.files[board.repository.url_of("root", 1)],
        cache=board.records.state / "tuf" / "slow",
        files=board.records.files,
        source=source,
        places=Places.of_fleet(trickling),
    )
    with pytest.raises(TryLater, match=r"slower than 1024 bytes/s over 60 s"):
        metadata.refresh(at=NOW)
    source.close()
