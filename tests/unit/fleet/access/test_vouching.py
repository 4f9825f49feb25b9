"""Does a login end when the identity provider no longer vouches for the person?"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shoal_fleet.access import login_sessions, users
from shoal_fleet.access.oidc import Person, Refresh, Vouched
from shoal_fleet.access.roles import Held, Role
from shoal_fleet.access.vouching import LOOK_EVERY_S, LOOK_S, RECHECK_S, Vouching
from shoal_fleet.audit import service as audit
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions
from shoal_fleet.errors import NotAllowed, ProviderDown

from tests.unit.fleet.boards import NOW, close_database, make_database

SESSION_S = 3600.0
KEEPER, CHIEF = Held("default", Role.OPERATOR), Held("*", Role.ADMIN)


class FakeProvider:
    """Says of everybody what a test has it say, and counts its answers."""

    def __init__(self) -> None:
        self.now = NOW
        self.held = frozenset({KEEPER})
        self.refusal: NotAllowed | None = None
        self.costs_s = 0.0
        self.asked: list[str] = []

    def vouch(self, subject: str, *, token: str | None) -> Vouched:
        refresh = None if token is None else Refresh(token, "nonce", subject)
        return Vouched(Person(subject, subject, self.held), refresh)

    def renew(self, refresh: Refresh) -> Vouched:
        self.asked.append(refresh.token)
        self.now += self.costs_s
        if self.refusal is not None:
            raise self.refusal
        return self.vouch(refresh.subject, token=f"{refresh.token}+")


class Door:
    """People come in by the provider, and time goes by."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.provider = FakeProvider()
        self.vouching = Vouching(sessions, provider=self.provider, session_s=SESSION_S, clock=lambda: self.provider.now)

    def come_in(self, subject: str = "carla", *, token: str | None = "a token") -> str:
        return self.vouching.begin(self.provider.vouch(subject, token=token))

    def let_pass(self, seconds: float) -> None:
        """As the fleet does it: a look each `LOOK_EVERY_S`."""
        until = self.provider.now + seconds
        while self.provider.now + LOOK_EVERY_S <= until:
            self.provider.now += LOOK_EVERY_S
            self.vouching.look()
        self.provider.now = until

    def is_in(self, secret: str) -> bool:
        try:
            with self.sessions() as session:
                login_sessions.recognise(session, secret, now=self.provider.now)
        except NotAllowed:
            return False
        return True

    def roles(self, name: str = "carla") -> set[Held]:
        with self.sessions() as session:
            return set(users.list_roles(session, users.find_user(session, name)))


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    sessions = make_database(tmp_path / "fleet.db")
    yield Door(sessions)
    close_database(sessions)


def lose_all_groups(provider: FakeProvider) -> None:
    provider.held = frozenset()


def change_groups(provider: FakeProvider) -> None:
    provider.held = frozenset({CHIEF})


def end_at_provider(provider: FakeProvider) -> None:
    provider.refusal = NotAllowed("login: the provider has ended it")


@pytest.mark.parametrize(
    ("change", "roles"), [(lose_all_groups, set()), (change_groups, {CHIEF}), (end_at_provider, {KEEPER})]
)
def test_what_the_provider_takes_away_is_gone_within_15_minutes(
    door: Door, change: Callable[[FakeProvider], None], roles: set[Held]
) -> None:
    secret = door.come_in()
    change(door.provider)
    assert door.is_in(secret)
    door.let_pass(900)
    assert (door.is_in(secret), door.roles()) == (False, roles)


def test_a_login_that_nobody_uses_ends_although_the_provider_vouches(door: Door) -> None:
    secret = door.come_in()
    door.let_pass(login_sessions.IDLE_S + 2 * RECHECK_S)
    assert not door.is_in(secret)
    assert len(door.provider.asked) == login_sessions.IDLE_S // RECHECK_S


def test_a_login_goes_on_while_the_provider_vouches(door: Door) -> None:
    secret = door.come_in()
    for _ in range(8):
        door.let_pass(1200)
        assert door.is_in(secret)
    assert door.provider.asked[:3] == ["a token", "a token+", "a token++"]


@pytest.mark.parametrize("token", [None, "a token"], ids=["no-refresh-token", "provider-down"])
def test_without_the_providers_word_a_login_ends_by_itself(door: Door, token: str | None) -> None:
    secret = door.come_in(token=token)
    door.provider.refusal = ProviderDown("login: no answer")
    door.let_pass(SESSION_S - 1)
    assert door.is_in(secret)
    door.let_pass(1)
    assert not door.is_in(secret)


def test_after_a_restart_a_login_ends_by_itself(door: Door) -> None:
    secret = door.come_in()
    door.vouching = Door(door.sessions).vouching
    door.let_pass(SESSION_S)
    assert not door.is_in(secret)


def test_who_comes_again_without_a_role_loses_what_they_had(door: Door) -> None:
    secret = door.come_in()
    lose_all_groups(door.provider)
    with pytest.raises(NotAllowed, match="has a role here"):
        door.come_in()
    assert (door.is_in(secret), door.roles()) == (False, set())


def test_nobody_is_asked_for_who_has_logged_out(door: Door) -> None:
    secret = door.come_in()
    with door.sessions() as session:
        login_sessions.log_out(session, secret)
    door.let_pass(3 * RECHECK_S)
    assert door.provider.asked == []


def test_who_is_disabled_here_is_not_let_in_by_a_renewal(door: Door) -> None:
    door.come_in()
    with door.sessions() as session:
        users.set_disabled(session, "carla", is_disabled=True, actor="host:test", now=NOW)
    door.let_pass(900)
    assert door.provider.asked == []


def test_a_slow_provider_is_asked_for_everybody_in_turn(door: Door) -> None:
    for number in range(6):
        door.come_in(f"person-{number}", token=str(number))
        door.provider.now += 1
    door.provider.refusal, door.provider.costs_s = ProviderDown("login: no answer"), LOOK_S / 2
    door.provider.now += RECHECK_S
    door.vouching.look()
    assert door.provider.asked == ["0", "1", "2"]
    door.vouching.look()
    assert set(door.provider.asked) == {"0", "1", "2", "3", "4", "5"}


def test_the_log_has_why_a_login_ended(door: Door) -> None:
    door.come_in()
    end_at_provider(door.provider)
    door.let_pass(900)
    with door.sessions() as session:
        (entry,) = audit.list_entries(session, before=None, wanted=Filter(action="login.ended"), limit=9)
    assert (entry.subject, entry.detail) == ("carla", {"reason": "login: the provider has ended it"})
