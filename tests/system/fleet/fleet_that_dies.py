"""A fleet that is killed right before it acknowledges a batch: after the commit, and before a byte of the ack is sent.

Put together from the fleet's own parts, with one in between that kills. Arguments: database, port of the broker,
certificate of the authority, client certificate with key.
"""

import os
import signal
import ssl
import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_fleet.database import make_sessions, open_engine
from shoal_fleet.kek.vault import Vault
from shoal_fleet.messaging.dispatch import Dispatcher
from shoal_fleet.messaging.inbox import Inbox, Message
from shoal_fleet.messaging.link import Link
from shoal_fleet.rollouts.publication import Receipt
from shoal_wire.envelope import KeySigner


class KillingPublisher:
    """Whoever publishes through this one dies."""

    def publish(self, topic: str, payload: bytes, *, retain: bool, receipt: Receipt | None) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return False


def main(database: str, port: str, authority: str, chain: str) -> None:
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(chain)
    inbox = Inbox()
    dispatcher = Dispatcher(
        make_sessions(open_engine(Path(database))),
        publisher=KillingPublisher(),
        signer=KeySigner(Ed25519PrivateKey.generate()),
        vault=Vault(bytes(32)),
        clock=time.time,
    )
    Link(host="127.0.0.1", port=int(port), context=context, inbox=inbox).start()
    while True:
        work = inbox.take(timeout_s=60)
        if isinstance(work, Message):
            dispatcher.dispatch(work)
        elif work is not None:
            print("ready", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
