"""What becomes of a fleet under a key in a token, and what do other keys say to what that one wrapped?

    kek_probe.py live STATE URI      make a fleet under the key, start it again, leave the key for a file
    kek_probe.py open URI…           wrap by the first, open by each; one line for each, after ": "

A program of its own, as a PKCS#11 module reads where its tokens are once in a process.
"""

import sys
import time
from pathlib import Path

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.kek.schemes import KEY_FILE, open_kek
from shoal_fleet.kek_rotation import rotate
from shoal_fleet.state import StatePaths, initialise, unlock

SECRET = bytes(range(32))


def live(state: str, uri: str) -> None:
    paths, now = StatePaths(Path(state)), time.time()
    made = initialise(paths, now=now, vault=unlock(paths, kek_uri=uri, now=now)).fleet_keys
    assert initialise(paths, now=now).fleet_keys == made
    assert rotate(paths, kek_uri="", to=KEY_FILE, now=now).before == uri
    assert initialise(paths, now=now).fleet_keys == made


def open_by_each(first: str, *others: str) -> None:
    wrapped = open_kek(first, state=Path("/nowhere")).wrap(SECRET)
    for uri in (first, *others):
        try:
            said = "opened" if open_kek(uri, state=Path("/nowhere")).unwrap(wrapped) == SECRET else "another secret"
        except BadConfiguration as error:
            said = str(error)
        print(f": {said}")


if __name__ == "__main__":
    if sys.argv[1] == "live":
        live(*sys.argv[2:])
    else:
        open_by_each(*sys.argv[2:])
