"""How do signed metadata and its updates look in the API? Bytes are in base64."""

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Base64Bytes, BaseModel, Field
from shoal_wire.metadata import MAX_BIT_LENGTH

from shoal_fleet.trust.expiry import Ending
from shoal_fleet.trust.service import MetadataUpdate, Trusted

MAX_BINS = 1 << MAX_BIT_LENGTH
MAX_ROOTS = 16
"""That one update may bring."""

TargetPath = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99}/){0,2}[A-Za-z0-9][A-Za-z0-9._-]{0,90}$")]
BinName = Annotated[str, Field(pattern=r"^bins-[0-9a-f]{1,8}$")]
TargetFiles = Annotated[Mapping[TargetPath, Base64Bytes], Field(max_length=64)]


class EndingView(BaseModel):
    """Metadata that ends soon, or has ended: `shoal keys refresh` signs it anew."""

    role: str
    """`bins` stands for all of them."""
    version: int
    expires_at: float
    is_expired: bool


class TrustView(BaseModel):
    """The newest root and targets metadata, as the publisher signed them; null before the ceremony."""

    root: str | None
    targets: str | None
    versions: dict[str, int]
    """Newest version of each role: `root`, `targets`, `snapshot`, `timestamp`, `bins-…`."""
    expires: dict[str, float]
    """When what the publisher signed ends: `root`, `targets`, and the first of the `bins`."""
    ending: list[EndingView]
    """What of that ends soon."""

    @classmethod
    def of(
        cls,
        trusted: Trusted,
        *,
        versions: Mapping[str, int],
        expiries: Mapping[str, tuple[int, float]],
        ending: Sequence[Ending],
    ) -> "TrustView":
        """View of what is trusted."""
        return cls(
            root=_text(trusted.root),
            targets=_text(trusted.targets),
            versions=dict(versions),
            expires={role: expires_at for role, (_, expires_at) in expiries.items()},
            ending=[EndingView.model_validate(one, from_attributes=True) for one in ending],
        )


class Ceremony(BaseModel):
    """First metadata of a publisher."""

    root: Base64Bytes
    targets: Base64Bytes
    target_files: TargetFiles


class TrustUpdate(BaseModel):
    """What a publisher has signed anew, each the next version of its role."""

    roots: Annotated[list[Base64Bytes], Field(max_length=MAX_ROOTS)] = []
    targets: Base64Bytes | None = None
    bins: Annotated[dict[BinName, Base64Bytes], Field(max_length=MAX_BINS)] = {}
    target_files: TargetFiles = {}

    def to_update(self) -> MetadataUpdate:
        """The same as the service has it."""
        return MetadataUpdate(roots=self.roots, targets=self.targets, bins=self.bins, files=self.target_files)


class NextKeysView(BaseModel):
    """Public halves of the keys that are to follow those that sign, in base64; null where there are none."""

    snapshot: str | None = None
    timestamp: str | None = None
    assignment: str | None = None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()
