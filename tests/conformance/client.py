"""How is the board's own metadata code pointed at a test suite for TUF clients?

The command line of tuf-conformance's client-under-test, over plain HTTP:

    python -m tests.conformance.client --metadata-dir DIR init ROOT
    python -m tests.conformance.client --metadata-dir DIR --metadata-url URL refresh
    python -m tests.conformance.client --metadata-dir DIR --metadata-url URL \\
        --target-name NAME --target-base-url URL --target-dir DIR download

Exit code 0 where all was verified, else 1. The suite looks at `root.json`, `timestamp.json`, `snapshot.json` and
`targets.json` in the metadata folder; what `init` was given is kept beside, as enrolment does.
"""

import argparse
import contextlib
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from shoal_agent.files import DiskFiles
from shoal_agent.updater.errors import TryLater, UpdateError
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.repository import Places, Repository
from tuf.api.exceptions import RepositoryError

TRUSTED = "trusted-root.json"
MAX_TARGET_BYTES = 64 << 20
PIECE_BYTES = 64 << 10


class PlainHttp:
    """The web without the fleet's certificates."""

    @contextlib.contextmanager
    def get(self, url: str) -> Iterator[Answer]:
        """As the updater's connection does."""
        try:
            with urllib.request.urlopen(url, timeout=60) as response:
                yield Answer(response.status, None, None, iter(lambda: response.read(PIECE_BYTES), b""))
        except urllib.error.HTTPError as error:
            with error:
                yield Answer(error.code, None, None, iter(()))
        except OSError as error:
            raise TryLater(f"{url}: {error}") from error

    def is_vouched_for_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        """Nobody vouches for a plain web server."""
        del authorities
        return False


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit code."""
    options = _parse(arguments)
    try:
        options.run(options)
    except (UpdateError, RepositoryError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _init(options: argparse.Namespace) -> None:
    folder: Path = options.metadata_dir
    folder.mkdir(parents=True, exist_ok=True)
    raw = options.root.read_bytes()
    _open(folder, raw, url="")
    (folder / TRUSTED).write_bytes(raw)


def _refresh(options: argparse.Namespace) -> Repository:
    folder: Path = options.metadata_dir
    repository = _open(
        folder, (folder / TRUSTED).read_bytes(), url=options.metadata_url, targets=options.target_base_url
    )
    now = time.time()
    repository.refresh(at=now)
    repository.check_expiry(at=now)
    return repository


def _download(options: argparse.Namespace) -> None:
    repository = _refresh(options)
    target = repository.find(options.target_name)
    if target is None:
        raise TryLater(f"{options.target_name}: not signed")
    raw = repository.fetch(target, limit_bytes=MAX_TARGET_BYTES)
    (options.target_dir / quote(options.target_name, safe="")).write_bytes(raw)


def _open(folder: Path, root: bytes, *, url: str, targets: str = "") -> Repository:
    places = Places(metadata=url.rstrip("/") + "/", targets=targets.rstrip("/") + "/")
    return Repository(root=root, cache=folder, files=DiskFiles(), source=PlainHttp(), places=places)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.conformance.client")
    parser.add_argument("--metadata-dir", type=Path, required=True)
    parser.add_argument("--metadata-url", default="")
    parser.add_argument("--target-name", default="")
    parser.add_argument("--target-base-url", default="")
    parser.add_argument("--target-dir", type=Path, default=Path())
    commands = parser.add_subparsers(required=True)
    init = commands.add_parser("init")
    init.add_argument("root", type=Path)
    init.set_defaults(run=_init)
    for name, run in (("refresh", _refresh), ("download", _download)):
        commands.add_parser(name).set_defaults(run=run)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
