"""What does a test need to play a person who logs in?"""

from argon2 import PasswordHasher
from shoal_fleet.access import users
from shoal_fleet.access.passwords import Passwords
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.database import Sessions

from tests.unit.fleet.boards import NOW

PASSWORD = "correct horse battery"


def quick_passwords(*, time_cost: int = 1) -> Passwords:
    """Argon2id at a cost that a test can pay."""
    return Passwords(PasswordHasher(time_cost=time_cost, memory_cost=64, parallelism=1))


def add_user(sessions: Sessions, name: str, *roles: Role, project: str = EVERYWHERE) -> None:
    with sessions() as session:
        users.add_user(
            session,
            name=name,
            password=PASSWORD,
            held=[Held(project, role) for role in roles],
            passwords=quick_passwords(),
            actor="host:test",
            now=NOW,
        )
