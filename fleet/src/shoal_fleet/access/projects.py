"""Which projects are there, and to which does a release belong?"""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.models import Project, ReleaseName
from shoal_fleet.access.roles import EVERYWHERE, PROJECT, Reach, check_name, choose_project, is_within
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotFound


def list_projects(session: Session, *, within: Reach) -> Sequence[Project]:
    """Those in reach, by name."""
    query = select(Project).order_by(Project.name)
    return session.scalars(query if EVERYWHERE in within else query.where(Project.name.in_(sorted(within)))).all()


def create_project(session: Session, name: str, *, now: float, actor: str) -> Project:
    """Make a project.

    Raises:
        Refused: a name that can't be one.
        Conflict: there is one of that name.
    """
    check_name(name, pattern=PROJECT, what="project")
    with writing(session):
        if session.get(Project, name) is not None:
            raise Conflict(f"project {name!r}: there is one of that name")
        project = Project(name=name, created_at=now)
        session.add(project)
        audit.append(session, actor=actor, action="project.made", subject=name, detail={}, now=now)
    return project


def check_project(session: Session, name: str) -> None:
    """Make sure that a role can count in a project.

    Raises:
        NotFound: it is neither a project nor EVERYWHERE.
    """
    if name != EVERYWHERE and session.get(Project, name) is None:
        raise NotFound(f"project {name[:80]!r}: there is none of that name; look at `shoal project list`")


def claim_release_name(session: Session, name: str, *, project: str | None, within: Reach) -> str:
    """The project of the releases of a name, in the caller's transaction. The first release of it decides.

    Raises:
        Conflict: the name is that of releases of another project.
        WrongRole, Refused: see `roles.choose_project`.
        NotFound: no such project.
    """
    row = session.get(ReleaseName, name)
    if row is None:
        chosen = choose_project(project, within)
        check_project(session, chosen)
        session.add(ReleaseName(name=name, project=chosen))
        session.flush()
        return chosen
    chosen = row.project if project is None and is_within(row.project, within) else choose_project(project, within)
    if chosen != row.project:
        raise Conflict(f"release {name!r}: expected a name that no other project has, found one that is taken")
    return row.project


def check_target_within(session: Session, path: str, *, within: Reach) -> None:
    """Make sure that a target isn't of the releases of another project: those are in a folder of their name.

    What lies elsewhere, such as the keys of assignments, is the whole fleet's.

    Raises:
        NotFound: it is; the answer is that for a target that isn't here.
    """
    row = session.get(ReleaseName, path.partition("/")[0])
    if row is not None and not is_within(row.project, within):
        raise NotFound(f"target {path[:200]!r}: not here")


def project_of_release(session: Session, name: str) -> str:
    """The project of the releases of that name.

    Raises:
        NotFound: there was never one.
    """
    row = session.get(ReleaseName, name)
    if row is None:
        raise NotFound(f"release {name[:80]!r}: not of this fleet")
    return row.project
