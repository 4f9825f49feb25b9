"""Do rows of the server end at the caller's projects, with no query around that?"""

import pytest

from tests.repository.scoped_queries import ALLOWED, FLEET, find_all, find_around


def test_no_module_goes_around_the_limit_on_projects() -> None:
    assert find_all() == []


def test_the_modules_that_may_are_there() -> None:
    assert [name for name in ALLOWED if not (FLEET / name).is_file()] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("select(Device.__table__)", ["__table__"]),
        ("from sqlalchemy import text\nsession.execute(text('SELECT 1'))", ["text"]),
        ("from sqlalchemy import text as sql\nsession.execute(sql('SELECT 1'))", ["sql"]),
        ("session.connection().execute(query)", ["connection()"]),
        ("connection.exec_driver_sql('SELECT 1')", ["exec_driver_sql"]),
        ("from sqlalchemy import select\nsession.scalars(select(Device))", []),
        ("def show(text: str) -> str:\n    return text", []),
    ],
)
def test_finds_what_goes_around_it(source: str, names: list[str]) -> None:
    assert [one.name for one in find_around(source, module="m.py")] == names
