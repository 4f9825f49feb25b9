"""Does a device take the document that it has again where its key was replaced, and only then?"""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from shoal_agent.daemon.holdings import Holdings
from shoal_agent.files import DiskFiles
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.messages import Desired, TrustReport

DEVICE = "d-1234"
ORDER = (1, 7)


def trust(state: Path, *keys: ed25519.Ed25519PrivateKey) -> None:
    public = [envelope.public_text(key.public_key()) for key in keys]
    (state / "trust.json").write_text(json.dumps({"protocol": 1, "keys": public}))


def signed(key: ed25519.Ed25519PrivateKey) -> tuple[bytes, Desired]:
    desired = Desired(device=DEVICE, epoch=ORDER[0], generation=ORDER[1], issued_at=0.0, assignments=())
    return envelope.seal(encode(desired), envelope.DESIRED, envelope.KeySigner(key)), desired


@pytest.fixture
def holdings(tmp_path: Path) -> Holdings:
    return Holdings(DiskFiles(), tmp_path, device=DEVICE, tree="", on_change=lambda: None)


def test_accepted_document_must_be_followed_by_a_newer_one(holdings: Holdings, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    trust(tmp_path, key)
    holdings.reload()
    holdings.accept(*signed(key))
    assert holdings.floor(ORDER) == ORDER


def test_document_whose_key_was_replaced_may_come_again_signed_anew(holdings: Holdings, tmp_path: Path) -> None:
    old, new = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
    trust(tmp_path, old)
    holdings.reload()
    holdings.accept(*signed(old))
    trust(tmp_path, new)
    holdings.reload()
    assert holdings.floor(ORDER) == (1, 6)
    holdings.accept(*signed(new))
    assert holdings.floor(ORDER) == ORDER


def test_last_look_at_the_metadata_is_read(holdings: Holdings, tmp_path: Path) -> None:
    holdings.reload()
    assert holdings.trust is None
    (tmp_path / "trust-report.json").write_bytes(encode(TrustReport(at=7.0, trouble="expired")))
    holdings.reload()
    assert holdings.trust == TrustReport(at=7.0, trouble="expired")
