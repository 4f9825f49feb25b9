"""Metadata that says it was signed later than now would have boards believe that everything has expired."""

from datetime import UTC, datetime, timedelta

import pytest
from shoal_fleet.errors import Refused
from shoal_fleet.trust.metadata import check_time
from shoal_wire.metadata import SIGNED_AT
from tuf.api.metadata import Targets

from tests.unit.fleet.boards import NOW


def targets(signed_at: object) -> Targets:
    expires = datetime.fromtimestamp(NOW, UTC) + timedelta(days=90)
    return Targets(version=1, expires=expires, unrecognized_fields={SIGNED_AT: signed_at})


@pytest.mark.parametrize("signed_at", [None, NOW, NOW - 86_400 * 400, NOW + 600.0])
def test_time_of_a_clock_that_is_nearly_right_is_taken(signed_at: object) -> None:
    check_time(targets(signed_at), what="targets metadata", now=NOW)


@pytest.mark.parametrize("ahead_s", [3_700.0, 86_400.0 * 730, 86_400.0 * 365 * 7_000])
def test_time_ahead_is_refused_with_what_to_do(ahead_s: float) -> None:
    with pytest.raises(Refused, match=r"targets metadata: was signed at .* later than now.*sign it anew"):
        check_time(targets(NOW + ahead_s), what="targets metadata", now=NOW)
