"""What do the tests bring along for a board? A fleet, the agent's package, two releases of one model, and items for it.

The model reads handwritten digits; its first release is in fp32, its second in INT8, both made by the workbench. The
items are pictures whose digits are known, so that an answer can be wrong and not only missing.
"""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

from hil.board import Board
from hil.host_fleet import HostFleet, wait_for
from hil.strategy import STATE

ROOT = Path(__file__).resolve().parents[1]
BUILD_S = 900.0
ANSWER_S = 900.0
ROLLOUT_S = 1800.0
JUDGED_BY = 25
"""Items at once, more than the answers by which a board judges a release (20)."""
AGENT = "shoal-agent"
SOURCE = "digits"
FOLDER = f"{STATE}/{SOURCE}"
FILTERS = "32,64"
"""Of the network: a hundredth of the example's work. It reads 98 % of the digits, and an emulated board can run it."""
_PICTURES = 3000


class NoPackage(Exception):
    """There is no such package for this board."""


class Picture(NamedTuple):
    """An item."""

    file: Path
    digit: str


class Bench:
    """Everything that the tests bring. One board is fed at a time."""

    name = "board-under-test"
    model = "digits"

    def __init__(self, folder: Path, *, fleet: HostFleet, package: Path | None, threads: int = 0) -> None:
        """Begin to make the releases, in a process beside.

        Args:
            package: of the agent, with others beside it; None: they are made of these sources.
            threads: that the agent may use; 0: as many as the board has.
        """
        self.fleet = fleet
        self.configuration = _configuration(threads)
        self._package = package
        self._packages = folder / "packages"
        self._releases = folder / "releases"
        self._pictures = folder / "pictures"
        self.placed: list[Picture] = []
        """All items that were given to the board so far."""
        self._are_released = False
        program = [sys.executable, "-m", "shoal_converters.digits"]
        self._log = folder / "releases.log"
        with self._log.open("wb") as log:
            build = [*program, "build", "--out", str(self._releases), "--filters", FILTERS]
            self._building = subprocess.Popen(build, stdout=log, stderr=log)
        place = [*program, "digits", "--out", str(self._pictures), "--count", str(_PICTURES), "--json"]
        said = subprocess.run(place, capture_output=True, text=True, check=True).stdout
        lines = [json.loads(line) for line in said.splitlines()]
        self._all = [Picture(self._pictures / line["file"], line["words"]) for line in lines]

    def close(self) -> None:
        """End what still runs."""
        if self._building.poll() is None:
            self._building.terminate()
            self._building.wait()

    def package(self, board: Board, *, name: str = AGENT) -> Path:
        """A package for this board: the agent's, unless another is named. One that isn't there is made: seconds.

        Raises:
            NoPackage: none was made, or is beside the one that was named.
        """
        if self._package is not None and name == AGENT:
            return self._package
        distribution = board.run(". /etc/os-release; echo $VERSION_CODENAME")
        if self._package is None:
            _make_package(name, distribution=distribution, machine=board.run("uname -m"), out=self._packages)
        folder = self._packages if self._package is None else self._package.parent
        release = board.run(". /etc/os-release; echo deb$VERSION_ID")
        pattern = f"{name}_*{release}_{board.run('dpkg --print-architecture')}.deb"
        found = sorted(folder.glob(pattern))
        if not found:
            raise NoPackage(f"no {pattern} in {folder}: make it with `make packages`")
        return max(found, key=lambda path: path.stat().st_mtime)

    def create_releases(self) -> None:
        """Wait until the releases are made, then sign and upload both; only the first time."""
        if self._are_released:
            return
        code = self._building.wait(BUILD_S)
        assert code == 0, f"the releases can't be made:\n{self._log.read_text()}"
        for version in (1, 2):
            self.fleet.create_release(self._releases / f"release-{version}")
        self._are_released = True

    def put_release(self, board: Board, version: int, folder: str) -> None:
        """Copy a release's folder to the board, as the workbench wrote it; the agent's user may read it."""
        self.create_releases()
        archive_file = self._releases.parent / "release.tar"
        with tarfile.open(archive_file, "w") as archive:
            archive.add(self._releases / f"release-{version}", ".")
        board.put(archive_file, f"{folder}.tar")
        board.run(f"mkdir -p {folder} && tar -xf {folder}.tar --no-same-owner -C {folder} && chmod -R a+rX {folder}")

    def place(self, board: Board, *, count: int) -> list[Picture]:
        """Move that many pictures, each of them new, into the folder from which the agent takes work."""
        chosen = self._all[len(self.placed) : len(self.placed) + count]
        assert len(chosen) == count, "all pictures were used up"
        self.placed += chosen
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for picture in chosen:
                archive.add(picture.file, picture.file.name)
        archive_file = self._pictures.parent / "pictures.tar.gz"
        archive_file.write_bytes(packed.getvalue())
        board.put(archive_file, "/tmp/pictures.tar.gz")
        incoming = f"{STATE}/.incoming"
        board.run(
            f"install -d -o shoal-agent {incoming} {FOLDER} && tar -xzf /tmp/pictures.tar.gz --no-same-owner "
            f"-C {incoming} && chmod 644 {incoming}/* && mv {incoming}/* {FOLDER}/"
        )
        return chosen

    def see_through(self, board: Board, rollout: int) -> str:
        """Until a rollout has ended, give the board what it judges the release by; returns the rollout's state."""

        def look() -> str | None:
            update = self.fleet.device(self.name)["reported"]["update"]
            if update is not None and update["state"] == "probation":
                self.place(board, count=JUDGED_BY)
            return self.fleet.ended_state(rollout)

        return wait_for(f"rollout {rollout} ends", look, timeout_s=ROLLOUT_S)

    def answered(self, pictures: list[Picture], *, timeout_s: float = ANSWER_S) -> list[dict[str, Any]]:
        """Wait until each picture has an answer in the fleet's database; returns these answers.

        Raises:
            AssertionError: some have none in time, one has two, or a digit is wrong more often than the network is.
        """
        names = {picture.file.name for picture in pictures}

        def look() -> list[dict[str, Any]] | None:
            found = [row for row in self.fleet.answers(self.name) if row["item"] in names]
            return found if len({row["item"] for row in found}) == len(names) else None

        found = wait_for(f"{len(names)} answers", look, timeout_s=timeout_s)
        assert len(found) == len(names), "an item was answered twice"
        digits = {picture.file.name: picture.digit for picture in pictures}
        right = sum(_first_label(row) == digits[row["item"]] for row in found)
        assert right >= 0.9 * len(found) or len(found) - right <= 1, f"{right} of {len(found)} digits are right"
        return found

    def last_answer(self) -> int:
        """Row of the newest answer that the fleet has; 0 before the first."""
        return max((row["id"] for row in self.fleet.answers(self.name)), default=0)

    def is_serving(self, board: Board) -> bool:
        """Have an item answered, and say whether the answer came."""
        return len(self.answered(self.place(board, count=1))) == 1


def _make_package(name: str, *, distribution: str, machine: str, out: Path) -> None:
    """Not compressed: that takes minutes, and a virtual board takes longer to unpack it than to receive it."""
    which = ["--package", name, "--distribution", distribution, "--machine", machine]
    program = [sys.executable, str(ROOT / "packaging/packages.py"), *which, "--compression", "none", "--out", str(out)]
    done = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise NoPackage(f"{name} for {distribution}, {machine}: packaging/packages.py failed:\n{done.stdout[-2000:]}")


def _first_label(row: dict[str, Any]) -> str | None:
    classes = row["answer"].get("classes", [])
    return str(classes[0]["label"]) if classes else None


def _configuration(threads: int) -> str:
    """Text of agent.toml. Tuning is asked for by the tests that are about it."""
    return (
        f"threads = {threads}\n\n[tuning]\nat_install = false\nall_variants = false\n\n"
        f'[[sources]]\nkind = "folder"\nname = "{SOURCE}"\npath = "{FOLDER}"\nrelease = "digits"\n'
    )
