"""What do tests of the operator's command build with: certificates, logins, release folders, fleets' keys?"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from shoal_fleet.command.account import Login
from shoal_fleet.command.publisher import FleetKeys

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def make_certificate(name: str) -> x509.Certificate:
    """A certificate authority that signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, NOW, NOW + timedelta(days=9000))
    return builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
        key, hashes.SHA256()
    )


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def make_login(url: str = "https://fleet.example:8443") -> Login:
    return Login(url=url, token="shoal_secret", authority=pem(make_certificate("authority")).decode())


def make_fleet_keys() -> FleetKeys:
    """Public keys as a fleet would give them."""
    snapshot, timestamp, assignment = (_text(_spki(ed25519.Ed25519PrivateKey.generate().public_key())) for _ in "123")
    hpke = _text(x25519.X25519PrivateKey.generate().public_key().public_bytes_raw())
    return FleetKeys(snapshot, timestamp, assignment, hpke)


def make_draft(name: str, version: int, files: Mapping[str, str]) -> dict[str, object]:
    """Text of a `release.json`; `files` are names with their paths, the first of them the model."""
    golden = {"name": "a", "file": next(iter(files)), "expected": {}, "comparison": {"name": "equal"}, "source": "test"}
    model = {
        "name": name,
        "task": "a test",
        "inputs": [],
        "outputs": [],
        "pre": [],
        "post": [],
        "variants": [{"name": "only", "format": "onnx", "precision": "fp32", "files": [next(iter(files))]}],
        "golden": [golden],
    }
    return {
        "name": name,
        "version": version,
        "created_at": "2026-01-01",
        "licence": "none",
        "provenance": "a test",
        "models": [model],
        "files": [{"name": name, "role": "model", "path": path} for name, path in files.items()],
    }


def write_release_folder(folder: Path, *, name: str, version: int, contents: Mapping[str, bytes]) -> Path:
    """A release folder with one file for each of `contents`, under its own name."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    draft = make_draft(name, version, {file: file for file in contents})
    (folder / "release.json").write_text(json.dumps(draft))
    return folder


def _spki(key: ed25519.Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
