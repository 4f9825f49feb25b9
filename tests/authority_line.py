"""How does a test get authorities that follow each other? Certificates in a folder, private keys in memory."""

from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from shoal_fleet.pki.authorities import Authorities, add_successor, check_followed, next_number
from shoal_fleet.pki.authority import Authority


class AuthorityLine:
    """A fleet's authorities, from the first on."""

    def __init__(self, folder: Path, *, now: datetime) -> None:
        self.folder = folder
        self._now = now
        self.keys = {1: ec.generate_private_key(ec.SECP256R1())}
        Authority.create(folder, key=self.keys[1], now=now)

    @property
    def authorities(self) -> Authorities:
        """Those that count, as a server loads them."""
        return Authorities.load(self.folder, keys=self.keys)

    def follow(self) -> None:
        """Make the next one."""
        self.keys.setdefault(next_number(self.folder), ec.generate_private_key(ec.SECP256R1()))
        add_successor(self.folder, keys=self.keys, now=self._now)

    def retire(self, number: int) -> None:
        """End one that another follows."""
        check_followed(self.folder, number)
        del self.keys[number]
