"""Does a TLS library accept each certificate for what it is for, and for nothing else?"""

import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from shoal_fleet.pki.authority import Authority, read_certificate


class Board(Protocol):
    key_pem: bytes

    def csr(self, *, common_name: str = "") -> bytes: ...


def chain(folder: Path, *, name: str, certificate: bytes, key: bytes) -> Path:
    path = folder / f"{name}.pem"
    path.write_bytes(certificate + key)
    return path


def handshake(*, server: Path, client: Path, authority: Path, crls: tuple[Path, ...] = (), name: str) -> None:
    """A TLS 1.3 handshake in memory, both sides strict. Raises ssl.SSLError where one side refuses."""
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context, own in ((listening, server), (connecting, client)):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(authority)
        context.load_cert_chain(own)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    listening.verify_mode = ssl.CERT_REQUIRED
    for crl in crls:
        listening.load_verify_locations(crl)
        listening.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        connecting.wrap_bio(down, up, server_hostname=name),
        listening.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.fixture
def folder(tmp_path: Path, authority: Authority) -> Path:
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    return tmp_path


@pytest.fixture
def server(folder: Path, authority: Authority, now: datetime) -> Path:
    made = authority.issue_server(["127.0.0.1", "fleet.example"], now=now)
    return chain(folder, name="server", certificate=made.certificate_pem, key=made.key_pem)


@pytest.fixture
def device_pem(authority: Authority, now: datetime, board: Board) -> bytes:
    return authority.issue_client(board.csr(), device_id="board-0001", now=now)


@pytest.fixture
def device(folder: Path, device_pem: bytes, board: Board) -> Path:
    return chain(folder, name="device", certificate=device_pem, key=board.key_pem)


@pytest.mark.parametrize("name", ["127.0.0.1", "fleet.example"])
def test_device_and_server_accept_each_other(folder: Path, server: Path, device: Path, name: str) -> None:
    handshake(server=server, client=device, authority=folder / "ca.pem", name=name)


def test_device_refuses_another_server_name(folder: Path, server: Path, device: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server=server, client=device, authority=folder / "ca.pem", name="elsewhere.example")


def test_device_cannot_pose_as_server(folder: Path, device: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(server=device, client=device, authority=folder / "ca.pem", name="127.0.0.1")


def test_server_certificate_is_no_client_certificate(folder: Path, server: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(server=server, client=server, authority=folder / "ca.pem", name="127.0.0.1")


def test_revocation_counts_beside_a_list_of_the_same_second(
    folder: Path, server: Path, device: Path, device_pem: bytes, authority: Authority, now: datetime
) -> None:
    before, after = folder / "before.pem", folder / "after.pem"
    before.write_bytes(authority.crl([], now=now, previous_pem=None))
    serial = read_certificate(device_pem).serial
    after.write_bytes(authority.crl([(serial, now)], now=now, previous_pem=before.read_bytes()))
    ca = folder / "ca.pem"
    handshake(server=server, client=device, authority=ca, crls=(before,), name="127.0.0.1")
    for crls in ((before, after), (after, before)):
        with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
            handshake(server=server, client=device, authority=ca, crls=crls, name="127.0.0.1")


def test_revocation_counts_beside_a_list_that_a_wrong_clock_dated_ahead(
    folder: Path, server: Path, device: Path, device_pem: bytes, authority: Authority, now: datetime
) -> None:
    ahead, present = folder / "ahead.pem", folder / "present.pem"
    ahead.write_bytes(authority.crl([], now=now + timedelta(days=2), previous_pem=None))
    present.write_bytes(authority.crl([], now=now, previous_pem=ahead.read_bytes()))
    ca, name = folder / "ca.pem", "127.0.0.1"
    handshake(server=server, client=device, authority=ca, crls=(ahead, present), name=name)
    revoked = [(read_certificate(device_pem).serial, now)]
    present.write_bytes(authority.crl(revoked, now=now, previous_pem=ahead.read_bytes()))
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(server=server, client=device, authority=ca, crls=(ahead, present), name=name)


def test_board_whose_clock_is_weeks_behind_accepts_a_new_server(
    folder: Path, device: Path, authority: Authority, now: datetime
) -> None:
    # The board's clock can't be set here, so the server's is ahead by what the board's would be behind.
    ahead = authority.issue_server(["127.0.0.1"], now=now + timedelta(days=29))
    server = chain(folder, name="ahead", certificate=ahead.certificate_pem, key=ahead.key_pem)
    handshake(server=server, client=device, authority=folder / "ca.pem", name="127.0.0.1")
