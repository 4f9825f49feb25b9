"""Which certificate is trusted once its fingerprint was compared?"""

import pytest
from cryptography.hazmat.primitives import hashes
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.login import read_authority

from tests.unit.fleet.command.material import make_certificate, pem


def test_second_certificate_behind_the_first_is_not_taken_along() -> None:
    """A man in the middle may send the true certificate, for its fingerprint, and his own behind it."""
    true, foreign = make_certificate("true"), make_certificate("foreign")
    read = read_authority(pem(true) + pem(foreign), what="test")
    assert read.fingerprint(hashes.SHA256()) == true.fingerprint(hashes.SHA256())
    assert pem(read) == pem(true)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"\xff", pem(make_certificate("x"))[:200], b" " * (1 << 17)])
def test_what_is_no_certificate_is_refused(raw: bytes) -> None:
    with pytest.raises(CommandError, match="expected a certificate in PEM"):
        read_authority(raw, what="test")


def test_more_than_a_certificate_may_be_is_refused() -> None:
    with pytest.raises(CommandError, match="expected a certificate in PEM"):
        read_authority(pem(make_certificate("x")) + b" " * (1 << 17), what="test")
