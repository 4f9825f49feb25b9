"""Which authorities does the fleet trust while one follows another, and which of them issues?

The first lies in the folder itself, each that follows in a folder of its number. The newest issues. All have the same
name, and each that follows is signed by the one before it as well (RFC 4210, 4.4: "new with old"): servers show these
links, so that a board which knows only an earlier authority, having been off for years, still recognises its fleet. An
authority whose key was removed is retired: what it issued to devices counts no more.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from shoal_fleet.pki import certificates
from shoal_fleet.pki.authority import CERTIFICATE_FILE, KEY_FILE, Authority, Identity
from shoal_fleet.pki.certificates import CLIENT_DAYS, CRL_DAYS, SERVER_DAYS
from shoal_fleet.pki.errors import BrokenAuthority
from shoal_fleet.pki.files import sync_folder

LINK_FILE = "link.pem"
MOST = 8
"""Authorities that a fleet may have had: devices are told all that count."""


class Generation(msgspec.Struct, frozen=True):
    """One authority of the fleet."""

    number: int
    fingerprint: str
    """SHA-256 of the certificate's DER, in hex."""
    not_after: datetime
    is_retired: bool


class Authorities:
    """All authorities of a fleet, oldest first. Made by `load`, or of one authority by `alone`."""

    def __init__(self, *, certificates: Sequence[bytes], links: Sequence[bytes], active: Sequence[Authority]) -> None:
        """`certificates` of all that ever were, `links` from each to the next, `active` those that aren't retired."""
        self._certificates = [x509.load_pem_x509_certificate(pem) for pem in certificates]
        self._links = tuple(links)
        self._active = tuple(active)

    @classmethod
    def alone(cls, authority: Authority) -> "Authorities":
        """One authority, which nobody follows yet."""
        return cls(certificates=[authority.certificate_pem], links=[], active=[authority])

    @classmethod
    def load(cls, folder: Path) -> "Authorities":
        """Read what `Authority.create` and `add_successor` made.

        Raises:
            BrokenAuthority: a file is missing or damaged.
        """
        places = _places(folder)
        active = [Authority.load(place) for place in places if (place / KEY_FILE).exists() or place == places[-1]]
        try:
            pems = [(place / CERTIFICATE_FILE).read_bytes() for place in places]
            links = [(place / LINK_FILE).read_bytes() for place in places[1:]]
            return cls(certificates=pems, links=links, active=active)
        except FileNotFoundError as error:
            raise BrokenAuthority(f"certificate authority: {error.filename} is missing") from None
        except ValueError as error:
            raise BrokenAuthority(f"certificate authority in {folder}: damaged file ({error})") from None

    @property
    def issuer(self) -> Authority:
        """The one that issues."""
        return self._active[-1]

    @property
    def fingerprint(self) -> str:
        """Of the one that issues: SHA-256 of the DER, in hex."""
        return self.issuer.fingerprint

    @property
    def certificate_pem(self) -> bytes:
        """Of the one that issues."""
        return self.issuer.certificate_pem

    @property
    def trusted(self) -> tuple[str, ...]:
        """Certificates in PEM of all that aren't retired: whom servers let in, and what devices are told to trust."""
        return tuple(authority.certificate_pem.decode() for authority in self._active)

    @property
    def trusted_pem(self) -> bytes:
        """The same, one after the other."""
        return "".join(self.trusted).encode()

    @property
    def links(self) -> tuple[str, ...]:
        """The links in PEM, newest first: each leads from an authority to the one before it."""
        return tuple(link.decode() for link in reversed(self._links))

    @property
    def generations(self) -> tuple[Generation, ...]:
        """All authorities, the retired too, oldest first."""
        active = {authority.fingerprint for authority in self._active}
        return tuple(
            Generation(number, print_of, certificate.not_valid_after_utc, print_of not in active)
            for number, certificate in enumerate(self._certificates, start=1)
            for print_of in [certificates.fingerprint(certificate)]
        )

    def find(self, fingerprint: str | None) -> Authority | None:
        """The authority of that fingerprint, None where it is retired or unknown. None stands for the first."""
        wanted = fingerprint or certificates.fingerprint(self._certificates[0])
        return next((authority for authority in self._active if authority.fingerprint == wanted), None)

    def issue_server(self, names: Sequence[str], *, now: datetime, valid_days: int = SERVER_DAYS) -> Identity:
        """As `Authority.issue_server`; the certificate is followed by the links."""
        made = self.issuer.issue_server(names, now=now, valid_days=valid_days)
        return Identity(key_pem=made.key_pem, certificate_pem=made.certificate_pem + "".join(self.links).encode())

    def issue_fleet(self, *, now: datetime, valid_days: int = SERVER_DAYS) -> Identity:
        """As `Authority.issue_fleet`."""
        return self.issuer.issue_fleet(now=now, valid_days=valid_days)

    def issue_client(self, csr_pem: bytes, *, device_id: str, now: datetime, valid_days: int = CLIENT_DAYS) -> bytes:
        """As `Authority.issue_client`."""
        return self.issuer.issue_client(csr_pem, device_id=device_id, now=now, valid_days=valid_days)

    def crl(
        self,
        revoked: Iterable[tuple[int, datetime]],
        *,
        now: datetime,
        previous_pem: bytes | None,
        valid_days: int = CRL_DAYS,
    ) -> bytes:
        """A revocation list in PEM of each authority that isn't retired, to follow those in `previous_pem`.

        Serials are random numbers of 159 bits, so each list may name all.
        """
        entries = list(revoked)
        before = certificates.split_crls(previous_pem or b"")
        lists = []
        for authority in self._active:
            mine = next((pem for pem in before if _has_signed(authority, pem)), None)
            lists.append(authority.crl(entries, now=now, previous_pem=mine, valid_days=valid_days))
        return b"".join(lists)


def _has_signed(authority: Authority, crl_pem: bytes) -> bool:
    """A list that was damaged on the disk is nobody's: the next one is dated and numbered by the clock then."""
    try:
        return authority.has_signed(crl_pem)
    except ValueError:
        return False


def add_successor(folder: Path, *, now: datetime) -> Authority:
    """Make the authority that follows the newest. It counts once its certificate, written last, is on disk.

    Raises:
        BrokenAuthority: there is none that it could follow, or there were too many.
    """
    places = _places(folder)
    if len(places) >= MOST:
        raise BrokenAuthority(f"{folder}: expected fewer than {MOST} certificate authorities, found {len(places)}")
    place = folder / str(len(places) + 1)
    key = ec.generate_private_key(ec.SECP256R1())
    link = Authority.load(places[-1]).link(key, now=now)
    return Authority.create(place, now=now, key=key, files={LINK_FILE: link})


def retire(folder: Path, number: int) -> None:
    """Remove the key of an authority: from the next start on, what it issued to devices counts no more.

    Raises:
        BrokenAuthority: there is none of that number, or it is the one that issues.
    """
    places = _places(folder)
    if not 1 <= number < len(places):
        raise BrokenAuthority(f"certificate authority {number}: expected one that another follows, of {len(places)}")
    (places[number - 1] / KEY_FILE).unlink(missing_ok=True)
    sync_folder(places[number - 1])


def _places(folder: Path) -> list[Path]:
    """Folders of the authorities that were made to the end, oldest first; the first one needn't be whole."""
    places = [folder]
    while (folder / str(len(places) + 1) / CERTIFICATE_FILE).exists():
        places.append(folder / str(len(places) + 1))
    return places
