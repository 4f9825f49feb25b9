"""How does a test or a benchmark drive a real front, as the daemon would?"""

import base64
import hashlib
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from shoal_agent import front_messages as messages
from shoal_agent.slots import HeldRelease
from shoal_wire import sealed_file
from shoal_wire.encoding import canonical, encode
from shoal_wire.manifest import Manifest, SealedFile, parse_draft
from shoal_wire.messages import Answer, ReleaseReference
from shoal_worker.channel import Channel, ChannelTimeout

DEVICE = "d-test"
DEADLINE_S = 60.0


class Board:
    """The daemon's end of the channel, and the disk that it shares with the front."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store"
        self.inbox = folder / "inbox"
        self.store.mkdir()
        self.inbox.mkdir()
        self.sources = {"mic": messages.Source("mic", "folder", str(self.inbox), "note-events")}
        self.keys: dict[str, str] = {}
        self.answers: list[Answer] = []
        self.health: messages.Health | None = None
        self.deaths: list[messages.WorkerDied] = []
        self.configuration = messages.Configure(device=DEVICE, threads=1)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._channels: list[Channel] = []

    def start_front(self, *options: str) -> tuple[Channel, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "shoal_agent.front", "--fd", str(theirs.fileno()), *options]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self._processes.append(process)
        channel = Channel(ours)
        self._channels.append(channel)
        channel.greet(role="daemon")
        sources = () if options else tuple(self.sources.values())
        send(channel, msgspec.structs.replace(self.configuration, sources=sources))
        return channel, process

    @property
    def front_pids(self) -> list[int]:
        """Of the fronts that were started, the last one last."""
        return [process.pid for process in self._processes]

    def hold(self, folder: Path, *, memory_bytes: int = 0, of: str = "") -> HeldRelease:
        """Seal a release folder into the store, as publisher and updater would.

        `memory_bytes` is what its variants say that they need, or the one whose name is `of`.
        """
        draft = parse_draft((folder / "release.json").read_bytes())
        files = []
        for file in draft.files:
            plaintext, key = (folder / file.path).read_bytes(), secrets.token_bytes(32)
            parts = list(sealed_file.seal(plaintext, key))
            digests = sealed_file.digest(parts)
            (self.store / digests.ciphertext_sha256).write_bytes(b"".join(parts))
            self.keys[digests.ciphertext_sha256] = base64.b64encode(key).decode()
            files.append(
                SealedFile(
                    name=file.name,
                    role=file.role,
                    plaintext_sha256=hashlib.sha256(plaintext).hexdigest(),
                    plaintext_bytes=len(plaintext),
                    ciphertext_sha256=digests.ciphertext_sha256,
                    ciphertext_bytes=digests.ciphertext_bytes,
                    chunk_bytes=sealed_file.CHUNK_BYTES,
                    chunk_sha256s=digests.chunk_sha256s,
                    suite=sealed_file.AES_256_GCM,
                )
            )
        fields = {name: getattr(draft, name) for name in draft.__struct_fields__}
        fields["models"] = tuple(
            msgspec.structs.replace(
                model,
                variants=tuple(
                    msgspec.structs.replace(variant, memory_bytes=memory_bytes if of in ("", variant.name) else 0)
                    for variant in model.variants
                ),
            )
            for model in draft.models
        )
        raw = encode(Manifest(**{**fields, "files": tuple(files)}))
        digest = hashlib.sha256(raw).hexdigest()
        (self.store / digest).write_bytes(raw)
        reference = ReleaseReference(draft.name, draft.version, digest)
        return HeldRelease(reference=reference, epoch=1, generation=draft.version, variant="onnx-fp32", grants=())

    def load(self, channel: Channel, held: HeldRelease) -> messages.Serving | messages.LoadFailed:
        slot = held.reference.release
        order = messages.Load(slot=slot, held=held, store=str(self.store), content_keys=self.keys)
        send(channel, order)
        replies = (messages.Serving, messages.LoadFailed)
        reply = self.follow(channel, until=lambda reply: isinstance(reply, replies) and reply.slot == slot)
        assert isinstance(reply, replies)
        return reply

    def follow(self, channel: Channel, *, until: Callable[[Any], bool]) -> Any:
        """Take messages, confirming answers as the outbox would, until one is wanted."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                message = messages.parse_from_front(channel.receive(1.0)[0])
            except ChannelTimeout:
                continue
            if isinstance(message, messages.Answers):
                self.answers += message.items
                send(channel, messages.Stored(answer_ids=tuple(answer.answer_id for answer in message.items)))
            elif isinstance(message, messages.Health):
                self.health = message
            elif isinstance(message, messages.WorkerDied):
                self.deaths.append(message)
            if until(message):
                return message
        raise AssertionError("the front didn't say what was expected in time")

    def follow_answers(self, channel: Channel, count: int) -> list[Answer]:
        self.follow(channel, until=lambda _: len(self.answers) >= count)
        return self.answers

    def place(self, name: str, raw: bytes, *, source: str = "mic") -> str:
        """Put an item in the folder of a source; returns the id that its answer must have (docs/protocol.md)."""
        inbox = Path(self.sources[source].path)
        (inbox / f".{name}").write_bytes(raw)
        (inbox / f".{name}").replace(inbox / name)
        identity = ["shoal/answer/v1", DEVICE, source, name, hashlib.sha256(raw).hexdigest()]
        return hashlib.sha256(canonical(identity)).hexdigest()  # type: ignore[arg-type]

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        for process in self._processes:
            process.kill()
            process.wait()


def send(channel: Channel, message: messages.FromDaemon) -> None:
    channel.send(messages.as_frame(message))
