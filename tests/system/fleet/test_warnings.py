"""Is whoever looks at a running fleet told what would soon do harm: a changed log, metadata that ends?"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.fleet_site import Fleet, FleetProgram, basic, run_fleet


def warnings_of(fleet: Fleet) -> list[str]:
    return [str(one) for one in fleet.get("/api/v1/warnings")["warnings"]]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A fleet whose publisher signed for ten days, and whose log was changed by somebody who has the database."""
    with run_fleet(tmp_path) as running:
        running.publisher.targets.expires = running.publisher.expiry(10)
        running.begin()
        assert warnings_of(running) == []
        assert running.program.end() == 0
    with closing(sqlite3.connect(tmp_path / "state" / "fleet.db")) as database:
        database.execute("DROP TRIGGER audit_entry_no_update")
        database.execute("UPDATE audit_entry SET digest = lower(hex(randomblob(32)))")
        database.commit()
    return running


def test_a_changed_log_and_metadata_that_ends_soon_are_warnings(fleet: Fleet) -> None:
    fleet.program = FleetProgram(fleet.program.state)
    again = Fleet(fleet.program, token=fleet.token)
    try:
        wait_until(lambda: len(warnings_of(again)) == 2, what="two warnings")
        changed, ending = warnings_of(again)
        assert "the log was changed; compare it with the last export" in changed
        assert "targets metadata ends at" in ending and "shoal keys refresh" in ending
        assert again.get("/api/v1/health") == {"status": "degraded"}
        page = again.http.get("/status", headers=basic(again.token)).text
        assert "the log was changed" in page and "targets metadata ends at" in page
    finally:
        again.http.close()
        again.program.end()
