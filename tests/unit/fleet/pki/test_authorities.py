"""Do an authority and the one that follows it both count, for boards that know either, until the first is retired?"""

import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from shoal_fleet.pki.authorities import Authorities, list_generations
from shoal_fleet.pki.authority import crl_end, read_certificate
from shoal_fleet.pki.certificates import split_crls
from shoal_fleet.pki.errors import BrokenAuthority

from tests.authority_line import AuthorityLine

ADDRESS = "127.0.0.1"


class Board(Protocol):
    key_pem: bytes

    def csr(self, *, common_name: str = "") -> bytes: ...


class Stage:
    """A fleet's authorities, and handshakes as its servers and its boards make them."""

    def __init__(self, folder: Path, board: Board, *, now: datetime) -> None:
        self.folder = folder
        self.board = board
        self.now = now
        self.line = AuthorityLine(folder, now=now)
        self.anchors = [self.authorities.certificate_pem]
        """What a board knows that was enrolled under each authority."""

    @property
    def authorities(self) -> Authorities:
        return self.line.authorities

    @property
    def retired(self) -> list[bool]:
        return [one.is_retired for one in list_generations(self.folder, kept=self.line.keys)]

    def follow(self) -> None:
        self.line.follow()
        self.anchors.append(self.authorities.certificate_pem)

    def client(self) -> bytes:
        return self.authorities.issue_client(self.board.csr(), device_id="d-board", now=self.now)

    def handshake(self, *, anchor: bytes, client: bytes, revoked: Sequence[int] = ()) -> None:
        """TLS 1.3 in memory, both sides strict. Raises ssl.SSLError where one side refuses."""
        authorities = self.authorities
        made = authorities.issue_server([ADDRESS], now=self.now)
        crl = authorities.crl([(serial, self.now) for serial in revoked], now=self.now, previous_pem=None)
        listening, connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context, trusted, own in (
            (listening, authorities.trusted_pem, made.certificate_pem + made.key_pem),
            (connecting, anchor, client + self.board.key_pem),
        ):
            chain = self.folder / "chain.pem"
            chain.write_bytes(own)
            context.load_cert_chain(chain)
            context.load_verify_locations(cadata=trusted.decode())
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        (self.folder / "crl.pem").write_bytes(crl)
        listening.load_verify_locations(self.folder / "crl.pem")
        listening.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        listening.verify_mode = ssl.CERT_REQUIRED
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [connecting.wrap_bio(down, up, server_hostname=ADDRESS), listening.wrap_bio(up, down, server_side=True)]
        for _ in range(4):
            for end in ends:
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue


@pytest.fixture
def stage(tmp_path: Path, board: Board, now: datetime) -> Stage:
    return Stage(tmp_path / "authority", board, now=now)


def test_one_authority_alone_issues_and_has_no_links(stage: Stage) -> None:
    authorities = stage.authorities
    assert (authorities.links, len(authorities.trusted), stage.retired) == ((), 1, [False])
    stage.handshake(anchor=stage.anchors[0], client=stage.client())


def test_boards_of_either_authority_and_servers_know_each_other(stage: Stage) -> None:
    old_client = stage.client()
    stage.follow()
    new_client = stage.client()
    for anchor in (*stage.anchors, b"".join(stage.anchors)):
        for client in (old_client, new_client):
            stage.handshake(anchor=anchor, client=client)


def test_a_revocation_counts_whichever_authority_issued(stage: Stage) -> None:
    old_client = stage.client()
    stage.follow()
    for client in (old_client, stage.client()):
        with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
            stage.handshake(anchor=stage.anchors[0], client=client, revoked=[read_certificate(client).serial])


def test_what_a_retired_authority_issued_counts_no_more_but_boards_that_know_it_find_their_fleet(stage: Stage) -> None:
    old_client = stage.client()
    stage.follow()
    stage.line.retire(1)
    assert stage.retired == [True, False]
    stage.handshake(anchor=stage.anchors[0], client=stage.client())
    with pytest.raises(ssl.SSLCertVerificationError):
        stage.handshake(anchor=stage.anchors[0], client=old_client)


def test_a_board_that_slept_through_two_changes_finds_its_fleet(stage: Stage) -> None:
    stage.follow()
    stage.line.retire(1)
    stage.follow()
    stage.line.retire(2)
    for anchor in stage.anchors:
        stage.handshake(anchor=anchor, client=stage.client())


def test_lists_follow_those_that_are_in_use(stage: Stage) -> None:
    first = stage.authorities.crl([], now=stage.now, previous_pem=None)
    stage.follow()
    second = stage.authorities.crl([], now=stage.now, previous_pem=first)
    third = stage.authorities.crl([], now=stage.now, previous_pem=second)
    assert [len(split_crls(lists)) for lists in (first, second, third)] == [1, 2, 2]
    assert crl_end(third) == (stage.now + timedelta(days=30)).replace(microsecond=0)


def test_a_successor_that_was_cut_short_counts_for_nothing_and_is_made_again(stage: Stage) -> None:
    before = stage.authorities.fingerprint
    stage.follow()
    (stage.folder / "2" / "ca.pem").unlink()
    assert stage.authorities.fingerprint == before
    stage.follow()
    assert stage.retired == [False, False]


def test_only_one_that_was_followed_can_be_retired(stage: Stage) -> None:
    with pytest.raises(BrokenAuthority, match="expected one that another follows"):
        stage.line.retire(1)
    stage.follow()
    with pytest.raises(BrokenAuthority, match="expected one that another follows"):
        stage.line.retire(2)


def test_the_key_of_the_one_that_issues_must_be_there(stage: Stage) -> None:
    stage.follow()
    del stage.line.keys[2]
    with pytest.raises(BrokenAuthority, match="certificate authority 2: expected its key in the database"):
        _ = stage.authorities


def test_find_knows_the_first_without_a_name_and_no_retired_one(stage: Stage) -> None:
    first = stage.authorities.fingerprint
    stage.follow()
    found = stage.authorities.find(None)
    assert found is not None and found.fingerprint == first
    stage.line.retire(1)
    assert stage.authorities.find(first) is None
    assert stage.authorities.find(stage.authorities.fingerprint) is not None
