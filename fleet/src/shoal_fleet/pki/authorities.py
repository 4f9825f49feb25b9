"""Which authorities does the fleet trust while one follows another, and which of them issues?

The first lies in the folder itself, each that follows in a folder of its number: certificates alone, the private keys
are given by number. The newest issues. All have the same name, and each that follows is signed by the one before it as
well (RFC 4210, 4.4: "new with old"): servers show these links, so that a board which knows only an earlier authority,
having been off for years, still recognises its fleet. An authority whose key was removed is retired: what it issued to
devices counts no more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from shoal_fleet.pki import certificates
from shoal_fleet.pki.authority import CERTIFICATE_FILE, Authority, Identity
from shoal_fleet.pki.certificates import CLIENT_DAYS, CRL_DAYS, SERVER_DAYS
from shoal_fleet.pki.errors import BrokenAuthority

LINK_FILE = "link.pem"
MOST = 8
"""Authorities that a fleet may have had: devices are told all that count."""

AuthorityKeys = Mapping[int, ec.EllipticCurvePrivateKey]
"""Private keys by the number of their authority. The retired have none."""


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
    def load(cls, folder: Path, *, keys: AuthorityKeys) -> "Authorities":
        """Read what `Authority.create` and `add_successor` made.

        Raises:
            BrokenAuthority: a file is missing or damaged, or the key of the one that issues.
        """
        places = _places(folder)
        if len(places) not in keys:
            raise BrokenAuthority(
                f"certificate authority {len(places)}: expected its key in the database, found none; restore the "
                "database and the state folder from the same back-up"
            )
        active = [Authority.load(place, key=keys[number]) for number, place in enumerate(places, 1) if number in keys]
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


def list_generations(folder: Path, *, kept: Collection[int]) -> tuple[Generation, ...]:
    """All authorities, the retired too, oldest first. `kept` are the numbers of those whose private keys are kept.

    Raises:
        BrokenAuthority: a certificate is missing or damaged.
    """
    found = []
    for number, place in enumerate(_places(folder), start=1):
        try:
            certificate = x509.load_pem_x509_certificate((place / CERTIFICATE_FILE).read_bytes())
        except (FileNotFoundError, ValueError) as error:
            raise BrokenAuthority(f"certificate authority {number}: {place / CERTIFICATE_FILE}: {error}") from None
        print_of = certificates.fingerprint(certificate)
        found.append(Generation(number, print_of, certificate.not_valid_after_utc, number not in kept))
    return tuple(found)


def next_number(folder: Path) -> int:
    """Number of the authority that would follow the newest.

    Raises:
        BrokenAuthority: there were too many.
    """
    number = len(_places(folder)) + 1
    if number > MOST:
        raise BrokenAuthority(f"{folder}: expected fewer than {MOST} certificate authorities, found {number - 1}")
    return number


def add_successor(folder: Path, *, keys: AuthorityKeys, now: datetime) -> Authority:
    """Make the authority of `next_number`. It counts once its certificate, written last, is on disk.

    Args:
        keys: with its own, which is on disk already, and that of the newest.

    Raises:
        BrokenAuthority: there is none that it could follow, or there were too many.
    """
    number = next_number(folder)
    issuer, key = Authorities.load(folder, keys=keys).issuer, keys[number]
    return Authority.create(folder / str(number), now=now, key=key, files={LINK_FILE: issuer.link(key, now=now)})


def check_followed(folder: Path, number: int) -> None:
    """Make sure that an authority may be retired.

    Raises:
        BrokenAuthority: there is none of that number, or it is the one that issues.
    """
    newest = len(_places(folder))
    if not 1 <= number < newest:
        raise BrokenAuthority(f"certificate authority {number}: expected one that another follows, of {newest}")


def _places(folder: Path) -> list[Path]:
    """Folders of the authorities that were made to the end, oldest first; the first one needn't be whole."""
    places = [folder]
    while (folder / str(len(places) + 1) / CERTIFICATE_FILE).exists():
        places.append(folder / str(len(places) + 1))
    return places
