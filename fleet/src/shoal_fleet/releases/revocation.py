"""May a release still be assigned to a device?"""

from shoal_wire.agent_release import AGENT_RELEASE
from sqlalchemy.orm import Session

from shoal_fleet.errors import Refused
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.models import Release
from shoal_fleet.trust import service as trust


def check_assignable(session: Session, release: Release) -> None:
    """Make sure that devices would install a release: the publisher still lists it, above all floors.

    Raises:
        Refused: it was revoked, by itself, by a floor, or by a later release; or its metadata is no longer signed.
    """
    what = f"release {release.name} {release.version}"
    signed = trust.find_floors(session)
    if release.manifest_sha256 in signed.revoked:
        raise Refused(f"{what}: was revoked by the publisher; choose another release")
    for name in releases.read_manifest(session, release).floors:
        floor = signed.floors.get(name, 0)
        if floor > release.version:
            raise Refused(
                f"{what}: revoked by the publisher, who raised the floor of {_thing(name)} to {floor}; choose "
                "that version or a later one"
            )
    for other in releases.list_releases(session):
        if other.name != release.name:
            continue
        for name, floor in releases.read_manifest(session, other).floors.items():
            if floor > release.version:
                raise Refused(
                    f"{what}: revoked by version {other.version}, which sets the floor of {_thing(name)} to {floor}"
                )
    if trust.find_trusted(session).targets is None:
        return
    listed = trust.find_listed(session, name=release.name, version=release.version)
    if listed != release.manifest_sha256:
        found = "nothing" if listed is None else f"another manifest, {listed[:12]}"
        raise Refused(f"{what}: the signed metadata lists {found} in its place, so no device would install it")


def _thing(name: str) -> str:
    return "the agent" if name == AGENT_RELEASE else f"the model {name}"
