"""How does a command get from what the fleet lists now to what the publisher signs next, and how does it end?"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shoal_fleet.command.client import Client
from shoal_fleet.command.metadata import Change
from shoal_fleet.command.output import print_result
from shoal_fleet.command.pending import make_pending
from shoal_fleet.command.present import Present
from shoal_fleet.command.publisher import Publisher
from shoal_fleet.command.publishing import conclude, open_present, open_publisher


class Changing:
    """A change under way. Made by `changing`."""

    def __init__(self, arguments: argparse.Namespace, *, client: Client, publisher: Publisher) -> None:
        self.client = client
        self.publisher = publisher
        self.present: Present = open_present(client, publisher)[0]
        self.made = Change(self.present, now=datetime.now(UTC))
        self._as_json: bool = arguments.json

    def publish(self, *, title: str, says: Sequence[str], **rest: Any) -> Path | None:
        """Sign it, then publish it; or write it down for others who must sign: the path of that file.

        `rest` are further fields of `Pending`.

        Raises:
            UsageError, CommandError: nothing can be signed here, or the fleet refuses it.
        """
        pending = make_pending(
            self.made.finish(),
            trusted_root=self.present.root.to_bytes(),
            fleet=self.client.login.url,
            title=title,
            says=tuple(says),
            **rest,
        )
        return conclude(pending, client=self.client, publisher=self.publisher)

    def end(self, *, title: str, says: Sequence[str], gone: Sequence[str] = (), **rest: Any) -> None:
        """The same, and print how it went. `gone` are paths of releases that are no longer listed."""
        waits = self.publish(title=title, says=says, **rest)
        result: dict[str, object] = {"title": title, "unlisted": list(gone)}
        if waits is not None:
            result["waits"] = str(waits)
        done = "published" if waits is None else f"waits for other signatures in {waits}"
        text = "\n".join([f"{title}: {done}", *(f"no longer listed: {path}" for path in gone)])
        print_result(result, as_json=self._as_json, text=text)


@contextmanager
def changing(arguments: argparse.Namespace) -> Iterator[Changing]:
    """A change of what the fleet lists now, in the publisher's folder that the options name, which is locked meanwhile.

    Raises:
        UsageError, CommandError: as `publishing.open_publisher` and `publishing.open_present`.
    """
    publisher = open_publisher(arguments)
    with publisher.locked(), Client() as client:
        yield Changing(arguments, client=client, publisher=publisher)
