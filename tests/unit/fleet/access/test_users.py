"""Do people get in with their password alone, and out again when something is taken from them?"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shoal_fleet.access import login_sessions, users
from shoal_fleet.access.known_browsers import KNOWN_S, MAX_BY_USER
from shoal_fleet.access.login_sessions import IDLE_S, LIFETIME_S, Begun, LoginAttempt
from shoal_fleet.access.models import KnownBrowser, LoginSession, User
from shoal_fleet.access.passwords import MAX_PASSWORD_CHARACTERS, Passwords, check_password
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.audit.models import AuditRow
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, NotAllowed, NotFound, Refused, TooSoon
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.unit.fleet.access.people import PASSWORD, add_user, quick_passwords
from tests.unit.fleet.boards import NOW, close_database, make_database

PASSWORDS = quick_passwords()


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    add_user(made, "anna", Role.OPERATOR)
    yield made
    close_database(made)


def log_in(
    sessions: Sessions,
    *,
    name: str = "anna",
    password: str = PASSWORD,
    at: float = NOW,
    passwords: Passwords = PASSWORDS,
) -> str:
    """Returns the session's secret."""
    return begin(sessions, name=name, password=password, at=at, passwords=passwords).session


def begin(
    sessions: Sessions,
    *,
    name: str = "anna",
    password: str = PASSWORD,
    at: float = NOW,
    passwords: Passwords = PASSWORDS,
    browser: str = "",
) -> Begun:
    attempt = LoginAttempt(name=name, password=password, address="192.0.2.1", browser=browser)
    with sessions() as session:
        login_sessions.count_attempt(session, attempt, now=at)
    with sessions() as session:
        return login_sessions.log_in(session, attempt, passwords=passwords, now=at)


def recognise(sessions: Sessions, secret: str, *, at: float = NOW) -> frozenset[Held]:
    with sessions() as session:
        return login_sessions.recognise(session, secret, now=at).held


def test_a_session_tells_who_it_is(sessions: Sessions) -> None:
    assert recognise(sessions, log_in(sessions)) == {Held(EVERYWHERE, Role.OPERATOR)}


def test_neither_password_nor_cookie_is_kept(sessions: Sessions, tmp_path: Path) -> None:
    begun = begin(sessions)
    close_database(sessions)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"$argon2id$" in kept
    assert PASSWORD.encode() not in kept
    assert begun.session.encode() not in kept
    assert begun.browser.encode() not in kept


@pytest.mark.parametrize(
    ("name", "password"),
    [("anna", "wrong"), ("anna", ""), ("nobody", PASSWORD), ("", ""), ("anna", PASSWORD + " "), ("Anna", PASSWORD)],
)
def test_the_answer_is_the_same_whatever_was_wrong(sessions: Sessions, name: str, password: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        log_in(sessions, name=name, password=password)
    assert str(caught.value) == "login: name or password is wrong"


class CountingPasswords(Passwords):
    """Counts how often a password was hashed."""

    def __init__(self) -> None:
        super().__init__(quick_passwords()._hasher)
        self.checked = 0

    def matches(self, password_hash: str | None, password: str) -> bool:
        self.checked += 1
        return super().matches(password_hash, password)


@pytest.mark.parametrize("name", ["anna", "nobody", "gone"])
def test_every_wrong_attempt_costs_one_hash(sessions: Sessions, name: str) -> None:
    add_user(sessions, "gone", Role.VIEWER)
    with sessions() as session:
        users.set_disabled(session, "gone", is_disabled=True, actor="host:test", now=NOW)
    passwords = CountingPasswords()
    with pytest.raises(NotAllowed):
        log_in(sessions, name=name, password="wrong", passwords=passwords)
    assert passwords.checked == 1


def test_an_attempt_that_comes_too_soon_is_not_looked_at(sessions: Sessions) -> None:
    for _ in range(5):
        with pytest.raises(NotAllowed):
            log_in(sessions, password="wrong")
    passwords = CountingPasswords()
    with pytest.raises(TooSoon):
        log_in(sessions, passwords=passwords)
    assert passwords.checked == 0
    log_in(sessions, at=NOW + 2)
    with pytest.raises(NotAllowed, match="wrong"):
        log_in(sessions, password="wrong", at=NOW + 2)


def test_a_known_browser_keeps_its_cookie_and_is_not_kept_out_by_others(sessions: Sessions) -> None:
    known = begin(sessions).browser
    for _ in range(5):
        with pytest.raises(NotAllowed):
            log_in(sessions, password="wrong")
    with pytest.raises(TooSoon):
        log_in(sessions)
    assert begin(sessions, browser=known).browser == known


def test_a_known_browser_of_somebody_else_is_worth_nothing(sessions: Sessions) -> None:
    add_user(sessions, "bert", Role.VIEWER)
    of_bert = begin(sessions, name="bert").browser
    for _ in range(5):
        with pytest.raises(NotAllowed):
            begin(sessions, password="wrong", browser=of_bert)
    with pytest.raises(TooSoon):
        begin(sessions, browser=of_bert)


def test_guesses_with_a_stolen_browser_cookie_are_slowed_down_too(sessions: Sessions) -> None:
    known = begin(sessions).browser
    for _ in range(10 + 5):
        with pytest.raises(NotAllowed):
            begin(sessions, password="wrong", browser=known)
    with pytest.raises(TooSoon):
        begin(sessions, browser=known)


def test_browsers_are_forgotten(sessions: Sessions) -> None:
    first = begin(sessions).browser
    for number in range(1, MAX_BY_USER + 1):
        begin(sessions, at=NOW + number)
    with sessions() as session:
        assert len(session.scalars(select(KnownBrowser)).all()) == MAX_BY_USER
    assert begin(sessions, at=NOW + 100, browser=first).browser != first
    later = NOW + 100 + KNOWN_S
    begin(sessions, at=later)
    with sessions() as session:
        assert len(session.scalars(select(KnownBrowser)).all()) == 1


def test_a_session_ends_when_nobody_uses_it(sessions: Sessions) -> None:
    secret = log_in(sessions)
    recognise(sessions, secret, at=NOW + IDLE_S - 1)
    recognise(sessions, secret, at=NOW + 2 * IDLE_S - 2)
    with pytest.raises(NotAllowed, match="has ended"):
        recognise(sessions, secret, at=NOW + 3 * IDLE_S)


def test_a_session_ends_however_it_is_used(sessions: Sessions) -> None:
    secret, at = log_in(sessions), NOW
    while at + IDLE_S / 2 < NOW + LIFETIME_S:
        at += IDLE_S / 2
        recognise(sessions, secret, at=at)
    with pytest.raises(NotAllowed, match="has ended"):
        recognise(sessions, secret, at=NOW + LIFETIME_S)


def test_sessions_that_ended_are_swept_away(sessions: Sessions) -> None:
    log_in(sessions)
    log_in(sessions, at=NOW + IDLE_S)
    with sessions() as session:
        assert len(session.scalars(select(LoginSession)).all()) == 1


def test_logging_out_ends_this_session_alone(sessions: Sessions) -> None:
    first, second = log_in(sessions), log_in(sessions)
    with sessions() as session:
        login_sessions.log_out(session, first)
    with pytest.raises(NotAllowed):
        recognise(sessions, first)
    recognise(sessions, second)


def change_password(session: Session) -> None:
    users.set_password(session, "anna", "another long one", passwords=PASSWORDS, actor="host:test", now=NOW)


def change_roles(session: Session) -> None:
    users.set_roles(session, "anna", [Held("default", Role.VIEWER)], actor="host:test", now=NOW)


def disable(session: Session) -> None:
    users.set_disabled(session, "anna", is_disabled=True, actor="host:test", now=NOW)


@pytest.mark.parametrize("change", [change_password, change_roles, disable])
def test_sessions_end_when_something_is_taken_away(sessions: Sessions, change: Callable[[Session], None]) -> None:
    add_user(sessions, "bert", Role.VIEWER)
    secret, other = log_in(sessions), log_in(sessions, name="bert")
    with sessions() as session:
        change(session)
    with pytest.raises(NotAllowed, match="has ended"):
        recognise(sessions, secret)
    recognise(sessions, other)


def test_a_disabled_user_stays_out_until_enabled(sessions: Sessions) -> None:
    with sessions() as session:
        disable(session)
    with pytest.raises(NotAllowed):
        log_in(sessions)
    with sessions() as session, pytest.raises(Conflict, match="disabled already"):
        disable(session)
    with sessions() as session:
        users.set_disabled(session, "anna", is_disabled=False, actor="host:test", now=NOW)
    log_in(sessions)


def test_the_old_password_stops_counting(sessions: Sessions) -> None:
    with sessions() as session:
        change_password(session)
    with pytest.raises(NotAllowed):
        log_in(sessions)
    log_in(sessions, password="another long one")


def test_a_hash_of_other_parameters_is_made_anew(sessions: Sessions) -> None:
    log_in(sessions, passwords=quick_passwords(time_cost=2))
    with sessions() as session:
        kept = session.scalars(select(User.password_hash)).one()
    assert kept is not None
    assert "t=2" in kept
    log_in(sessions)


@pytest.mark.parametrize(
    ("password", "is_good"),
    [
        ("elevenchars", False),
        ("twelve chars", True),
        ("aaaaaaaaaaaa", True),
        ("\N{SNOWMAN}" * 12, True),
        ("x" * MAX_PASSWORD_CHARACTERS, True),
        ("x" * (MAX_PASSWORD_CHARACTERS + 1), False),
        ("", False),
    ],
)
def test_length_is_all_that_is_asked_of_a_password(password: str, is_good: bool) -> None:
    if is_good:
        check_password(password)
        return
    with pytest.raises(Refused) as caught:
        check_password(password)
    assert password == "" or password not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "user:anna", "x" * 64, "anna\n"])
def test_refuses_names_that_are_not_safe_everywhere(sessions: Sessions, name: str) -> None:
    with pytest.raises(Refused, match="name"):
        add_user(sessions, name, Role.VIEWER)


def test_refuses_a_second_user_of_a_name_and_a_project_that_is_not_there(sessions: Sessions) -> None:
    with pytest.raises(Conflict, match="one of that name"):
        add_user(sessions, "anna", Role.ADMIN)
    with pytest.raises(NotFound, match="project 'nowhere'"):
        add_user(sessions, "bert", Role.VIEWER, project="nowhere")
    with sessions() as session:
        assert [one.row.name for one in users.list_users(session)] == ["anna"]
        assert users.list_roles(session, users.find_user(session, "anna")) == [Held(EVERYWHERE, Role.OPERATOR)]


def test_the_audit_log_has_who_came_in_and_never_a_mistyped_name(sessions: Sessions) -> None:
    log_in(sessions)
    for name in ("anna", "my password, typed in the wrong field"):
        with pytest.raises(NotAllowed):
            log_in(sessions, name=name, password="wrong")
    with sessions() as session:
        rows = session.scalars(select(AuditRow).where(AuditRow.action.startswith("login.")))
        found = [(row.actor, row.action, row.subject) for row in rows]
    assert found == [
        ("user:anna", "login.succeeded", "anna"),
        ("fleet", "login.failed", "anna"),
        ("fleet", "login.failed", ""),
    ]
