"""How is TOML that a person or a stranger wrote read, so that nothing but an error comes of nonsense?"""

import tomllib
from typing import Any

from shoal_wire.errors import Malformed


def read_toml(raw: bytes, *, what: str) -> dict[str, Any]:
    """The values of a TOML document, called `what` in errors. The caller has bounded its length.

    Raises:
        Malformed: not UTF-8, not TOML, or nested more deeply than this interpreter parses.
    """
    try:
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        raise Malformed(f"{what}: not TOML: expected text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"{what}: not TOML: {error}") from None
    except RecursionError:
        raise Malformed(f"{what}: not TOML: nested too deeply") from None
