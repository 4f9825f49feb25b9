"""How does a test write into the audit log?"""

from shoal_fleet.audit import service
from shoal_fleet.database import Sessions, writing

from tests.unit.fleet.boards import NOW


def append(
    sessions: Sessions, action: str, *, actor: str = "user:anna", subject: str = "d-yard", detail: object = None
) -> None:
    with sessions() as session, writing(session):
        service.append(
            session, actor=actor, action=action, subject=subject, detail={"of": detail} if detail else {}, now=NOW
        )
