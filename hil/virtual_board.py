"""How is a virtual board switched on, cut off and disturbed?

labgrid's driver for QEMU, and what a bench has beside it: a plug that is pulled without warning, a network cable, a
clock that may be wrong when the board starts, memory of another size. Each board writes to an overlay of its own, which
outlives power cuts and is gone with the tests.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import attr
from labgrid.driver import QEMUDriver
from labgrid.factory import target_factory
from labgrid.step import step

from hil.image.build import Image, find_or_make

MANAGE = "manage"
"""Network by which the tests reach the board."""
FLEET = "fleet"
"""Network by which the board reaches its fleet: this machine is 10.0.2.2 there."""
_SSH_ADDRESS = "10.0.9.15"
_NETWORKS = (
    ("-netdev", f"user,id={MANAGE},net=10.0.9.0/24,restrict=on"),
    ("-device", f"virtio-net-pci,netdev={MANAGE},mac=52:54:00:5a:00:01,romfile="),
    ("-netdev", f"user,id={FLEET},net=10.0.2.0/24"),
    ("-device", f"virtio-net-pci,netdev={FLEET},mac=52:54:00:5a:00:02,romfile="),
)
"""The addresses are those that the image's `files/` give these cards. No ROM: nothing starts from a network."""


@target_factory.reg_driver
@attr.s(eq=False)
class VirtualBoardDriver(QEMUDriver):  # type: ignore[misc] # labgrid is untyped
    """QEMU with an overlay over the image that `hil/image` makes. Takes all arguments of QEMUDriver.

    In the environment's file, $SHOAL_HIL_IMAGE and $SHOAL_HIL_DISK stand for the image's folder and for the overlay.
    """

    bindings = {"networkservice": "NetworkService"}  # noqa: RUF012 (as labgrid has it)

    memory: str
    status: int
    _cmd: list[str]
    _child: subprocess.Popen[bytes] | None
    _clientsocket: socket.socket | None

    clock: str = attr.ib(default="", validator=attr.validators.instance_of(str))
    """What the clock shows at the next start, as in 2019-01-01T00:00:00; empty: the time."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._folder: Path | None = None
        self._image: Image | None = None

    @property
    def console_log(self) -> Path:
        """What the board wrote on its console since it was switched on last."""
        assert self._folder is not None, "the board was never switched on"
        return self._folder / "console.log"

    def on_activate(self) -> None:
        if self._folder is None:
            self._image = find_or_make(tell=lambda line: print(line, file=sys.stderr, flush=True))
            self._folder = Path(tempfile.mkdtemp(prefix="shoal-board-"))
            os.environ["SHOAL_HIL_IMAGE"] = str(self._image.folder)
            os.environ["SHOAL_HIL_DISK"] = str(self._folder / "disk.qcow2")
            self.make_fresh_disk()
            self.networkservice.port = _free_port()
        super().on_activate()
        # labgrid's console is a socket, and QEMU stands still once a few hundred bytes of it weren't read.
        place = self._cmd.index("chardev:serialsocket")
        self._cmd[place] = f"file:{self.console_log}"

    def get_qemu_base_args(self) -> list[str]:
        """The command line, with what is set for the next start."""
        assert self._image is not None
        arguments: list[str] = super().get_qemu_base_args()
        arguments += ["-initrd", str(self._image.initrd), *(word for pair in _NETWORKS for word in pair)]
        return arguments + (["-rtc", f"base={self.clock}"] if self.clock else [])

    def make_fresh_disk(self) -> None:
        """A disk as it was when the image was made. The board must be off."""
        assert self._image is not None
        backing = ["-b", str(self._image.disk), "-F", "raw"]
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", *backing, os.environ["SHOAL_HIL_DISK"]]
        subprocess.run(overlay, check=True)

    def prepare(self, *, clock: str = "", memory: str = "") -> None:
        """What the board has from its next start on. It must be off. Empty: as it was, but for the clock."""
        self.clock = clock
        self.memory = memory or self.memory
        self.target.deactivate(self)
        self.target.activate(self)

    @step()  # type: ignore[untyped-decorator]
    def on(self) -> None:
        """Switch on. Doesn't wait until the board is up."""
        is_first = not self._forwarded_ports
        super().on()
        if is_first:
            self.add_port_forward("tcp", "127.0.0.1", self.networkservice.port, _SSH_ADDRESS, 22, MANAGE)

    @step()  # type: ignore[untyped-decorator]
    def off(self) -> None:
        """Pull the plug: QEMU is killed. What the board hadn't written to its disk is gone."""
        if not self.status:
            return
        child = self._child
        assert child is not None and self._clientsocket is not None
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        self._clientsocket.close()
        self._clientsocket = self._child = None
        self.status = 0

    def set_network(self, *, is_plugged: bool) -> None:
        """Plug or pull the cable to the fleet. The tests still reach the board."""
        self.monitor_command("set_link", {"name": FLEET, "up": is_plugged})

    def discard(self) -> None:
        """Remove the overlay for good."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
