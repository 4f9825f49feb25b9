"""Is what a child said wrongly told in words that fit a log?"""

import pytest
from shoal_agent.daemon.protocol import (
    ProtocolBroken,
    parse_front_message,
    parse_tuning_message,
    parse_updater_message,
)


@pytest.mark.parametrize("parse", [parse_front_message, parse_tuning_message, parse_updater_message])
@pytest.mark.parametrize("kind", ["a" * 10_000, "nobody"])
def test_error_names_the_type_and_repeats_little_of_what_came(parse, kind: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ProtocolBroken, match=f"a message of type '{kind[:40]}'") as caught:
        parse({"type": kind})
    assert len(str(caught.value)) < 700
