"""Does a person approve by a button what somebody else started, and nobody else's page for them?"""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.gate import Caller, Gate
from shoal_fleet.access.models import Project
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.console import login
from shoal_fleet.console import routes as console
from shoal_fleet.database import Sessions, writing
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import approvals, service
from shoal_fleet.rollouts.machine import RolloutState
from shoal_fleet.rollouts.policy import set_approvals_needed
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.messages import ProbationLimits
from sqlalchemy.orm import Session

from tests.unit.fleet.access.people import PASSWORD, add_user, quick_passwords
from tests.unit.fleet.boards import NOW, Board, add_release, close_database, make_database, make_keys
from tests.unit.fleet.console.browser import HOME, Browser


class Site:
    """A fleet in which rollout 1, started by anna, waits for one approval."""

    def __init__(self, sessions: Sessions, keys: OnlineKeys) -> None:
        self.sessions = sessions
        self.app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        install_error_answers(self.app)
        gate = Gate(sessions, clock=lambda: NOW)

        def approve(session: Session, rollout_id: int, caller: Caller) -> None:
            approvals.approve(session, rollout_id, by=caller.actor, person=caller.person, vault=keys.vault, now=NOW)

        self.app.include_router(
            login.make_router(
                sessions=sessions,
                gate=gate,
                clock=lambda: NOW,
                passwords=quick_passwords(),
                addresses=ClientAddresses(),
            )
        )
        self.app.include_router(
            console.make_router(
                sessions=gate.sessions, gate=gate, clock=lambda: NOW, describe=self.app.openapi, approve=approve
            )
        )
        with sessions() as session:
            set_approvals_needed(session, 1, by="user:anna", now=NOW)
        with sessions() as session:
            wanted = RolloutStart("notes", 1, ("all",), ProbationLimits())
            service.start(session, wanted, by="token:ci", person="user:anna", vault=keys.vault, now=NOW)

    def come_in(self, name: str) -> "Person":
        person = Person(self.app)
        assert person.send("/login", name=name, password=PASSWORD).status_code == 303
        return person

    def state(self) -> RolloutState:
        with self.sessions() as session:
            return service.find_rollout(session, 1).state


class Person(Browser):
    """Somebody who is logged in and looks at the status."""

    def sees_button(self) -> bool:
        return 'action="/rollouts/1/approve"' in self.get("/status").text

    def press(self) -> httpx.Response:
        """The button; where there is none, as if there were."""
        word = re.findall(r'name="csrf" value="([^"]+)"', self.get("/status").text)[0]
        return self.send("/rollouts/1/approve", csrf=word)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made, keys = make_database(tmp_path / "fleet.db"), make_keys()
    with made() as session, writing(session):
        session.add(Project(name="yard", created_at=NOW))
    Board("heron").enrol(made)
    add_release(made, keys, name="notes", version=1)
    for name, role, project in (
        ("anna", Role.ADMIN, "*"),
        ("bert", Role.OPERATOR, "default"),
        ("vera", Role.VIEWER, "*"),
        ("yves", Role.OPERATOR, "yard"),
    ):
        add_user(made, name, role, project=project)
    yield Site(made, keys)
    close_database(made)


def test_somebody_else_approves_by_the_button_and_it_begins(site: Site) -> None:
    bert = site.come_in("bert")
    assert bert.sees_button()
    reply = bert.press()
    assert (reply.status_code, reply.headers["Location"]) == (303, "/status")
    assert site.state() is RolloutState.RUNNING
    assert not bert.sees_button()


@pytest.mark.parametrize(("name", "status"), [("anna", 409), ("vera", 403), ("yves", 409)])
def test_who_may_not_sees_no_button_and_gets_nowhere_without(site: Site, name: str, status: int) -> None:
    """Anna started it by a token of hers, Vera only reads, Yves has another project."""
    person = site.come_in(name)
    assert not person.sees_button()
    reply = person.press()
    assert reply.status_code == status
    assert site.state() is RolloutState.WAITING


def test_a_refusal_is_told_on_the_page(site: Site) -> None:
    page = site.come_in("anna").press().text
    assert "user:anna started it, expected the approval of somebody else" in page
    assert "<script>" not in page


@pytest.mark.parametrize(("origin", "word"), [("https://evil.example", None), (HOME, "guessed"), (HOME, "")])
def test_a_form_of_another_site_approves_nothing(site: Site, origin: str, word: str | None) -> None:
    bert = site.come_in("bert")
    own = re.findall(r'name="csrf" value="([^"]+)"', bert.get("/status").text)[0]
    reply = bert.send("/rollouts/1/approve", origin=origin, csrf=own if word is None else word)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "cross_site")
    assert site.state() is RolloutState.WAITING
