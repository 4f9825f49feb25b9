"""Which steps does the demo take, each through the commands that a user would type, each with evidence?

Rollouts, which are steps as well, are in `rollouts`.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Iterable

import msgspec
from shoal_wire.encoding import decode_struct

from shoal_fleet.command.account import Login
from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.boards import BOARDS, DIGITS, FACES, NOTES, Board, Feed, agent_configuration, boards_with
from shoal_fleet.command.demo.evidence import Shown, every_item_answered_once, on_every_board
from shoal_fleet.command.demo.items import Placing, stop_all
from shoal_fleet.command.demo.programs import Begun, Programs, command
from shoal_fleet.command.demo.rollouts import read_draft
from shoal_fleet.command.demo.stage import Scene, Stage
from shoal_fleet.command.views import Device, parse

RELEASES = {NOTES: 4, FACES: 1}
"""Of networks that were trained elsewhere; those of the workbench are in `digits`."""
_ENDLESS = 1_000_000
_SEEDS_APART = 100_000
"""Each board hears and sees something else."""


class Addresses(msgspec.Struct, frozen=True):
    """Content of addresses.json, which the fleet writes once it listens."""

    operators_url: str


def begin_releases(stage: Stage, programs: Programs) -> tuple[Begun, ...]:
    """Begin to fetch the trained networks and to build the release folders from them: it takes a while."""
    out = ("build", "--out", str(stage.releases), "--json")
    return tuple(programs.begin(sys.executable, "-m", feed.package, *out) for feed in RELEASES)


def start_fleet(stage: Stage, programs: Programs) -> tuple[Shown, str]:
    """Start the fleet and log in to it; also returns its address."""
    made = programs.run(command("shoal-fleet"), "init", "--state", str(stage.fleet))
    ports = ("--port", "0", "--devices-port", "0", "--broker-port", "0")
    programs.start("fleet", command("shoal-fleet"), "serve", "--state", str(stage.fleet), *ports)

    def listening() -> str | None:
        path = stage.fleet / "addresses.json"
        return decode_struct(path.read_bytes(), Addresses, what=str(path)).operators_url if path.exists() else None

    url = programs.wait_for("the fleet's address", listening, timeout_s=60)
    fingerprint = ("--authority-sha256", made["authority_sha256"])
    programs.run(command("shoal"), "login", url, "--token-file", "-", *fingerprint, "--json", stdin=made["token"])
    health = _client(stage).get("/api/v1/health")
    evidence = {"url": url, "health": health}
    return Shown(ok=True, evidence=evidence, words=(f"fleet, broker and database are up at {url}",)), url


def enrol(stage: Stage, programs: Programs) -> tuple[Shown, Scene]:
    """Make the publisher's keys, enrol each board with a one-time token and start its agent."""
    programs.run(command("shoal"), "keys", "init", "--publisher", str(stage.publisher), "--json")
    tokens = _make_tokens(programs)
    _enrol_boards(stage, programs, tokens)
    client = _client(stage)
    named = {device.name: device.id for device in parse(client.get("/api/v1/devices"), list[Device], what="devices")}
    scene = Scene(stage, programs, client, named)
    thief = _begin_theft(stage, programs, token=tokens[BOARDS[0]])
    shown = {board.name: _show_enrolled(scene, board) for board in BOARDS}
    worked_twice = _has_worked(stage, programs, thief)
    again = "a token worked TWICE" if worked_twice else "a token was refused the second time"
    every = on_every_board(shown, token_worked_twice=worked_twice)
    return every._replace(ok=every.ok and not worked_twice, words=(again,)), scene


def take_releases(scene: Scene, building: Iterable[Begun]) -> tuple[Shown, None]:
    """Wait for the release folders, and begin to place sounds in each board's folder."""
    for begun in building:
        scene.programs.result(begun)
    folders = sorted(path.parent.name for path in scene.stage.releases.glob("*/release.json"))
    drafts = {folder: read_draft(scene.stage, folder) for folder in folders}
    _place(scene, NOTES)
    variants = {
        folder: [variant.name for model in draft.models for variant in model.variants]
        for folder, draft in drafts.items()
    }
    counts = Counter(draft.name for draft in drafts.values())
    ok = counts == {feed.model: count for feed, count in RELEASES.items()}
    words = tuple(f"{draft.name} {draft.version} as {', '.join(variants[name])}" for name, draft in drafts.items())
    return Shown(ok=ok, evidence={"built": variants}, words=words), None


def show_photographs(scene: Scene) -> None:
    """Begin to place photographs in the folders of the boards that look for faces."""
    _place(scene, FACES)


def show_digits(scene: Scene) -> None:
    """Begin to place pictures of digits in the folder of the board that reads them."""
    _place(scene, DIGITS)


def account_for_items(scene: Scene) -> tuple[Shown, None]:
    """Place no more, and compare what was placed with the fleet's database, board by board."""
    for board, feed in scene.placings:
        scene.programs.let_end(_placing(board, feed))
    stop_all(scene.placings.values())
    shown = scene.programs.settle(lambda: _account(scene), is_settled=lambda one: one.ok, timeout_s=120)
    return shown, None


def _account(scene: Scene) -> Shown:
    answers = scene.answers()
    shown = {}
    for board in BOARDS:
        device, folder = scene.devices[board.name], scene.stage.board(board)
        shown[board.name] = every_item_answered_once(
            device,
            {feed.source: scene.placed(board, feed).values() for feed in board.feeds},
            [answer for answer in answers if answer.device == device],
            [f"{feed.source}/{path.name}" for feed in board.feeds for path in (folder / feed.source).iterdir()],
        )
    return on_every_board(shown)


def _make_tokens(programs: Programs) -> dict[Board, str]:
    begun = {
        board: programs.begin(command("shoal"), "device", "token", "--name", board.name, "--json") for board in BOARDS
    }
    return {board: programs.result(one)["token"] for board, one in begun.items()}


def _enrol_boards(stage: Stage, programs: Programs, tokens: dict[Board, str]) -> None:
    begun = []
    for board, token in tokens.items():
        _make_folders(stage, board)
        state = ("--state", str(stage.agent(board)))
        enrolment = (command("shoal-agent"), "enrol", "-", "--profile", "generic-x86-64", *state)
        begun.append(programs.begin(*enrolment, stdin=token))
    for one in begun:
        programs.result(one)
    for board in tokens:
        programs.start(board.name, command("shoal-agent"), "run", "--state", str(stage.agent(board)))


def _make_folders(stage: Stage, board: Board) -> None:
    agent = stage.agent(board)
    agent.mkdir(parents=True, mode=0o700)
    (agent / "agent.toml").write_text(agent_configuration(board, folder=stage.board(board)))
    for feed in board.feeds:
        (stage.board(board) / feed.source).mkdir()


def _show_enrolled(scene: Scene, board: Board) -> Shown:
    what = f"the first signed report of {board.name}"
    reported = scene.programs.wait_for(what, lambda: scene.reported(board), timeout_s=60)
    device = scene.devices[board.name]
    evidence = {"device": device, "profile": reported.profile, "agent": reported.agent_version}
    return Shown(ok=True, evidence=evidence, words=(f"is {device}; may use {board.engine} only",))


def _begin_theft(stage: Stage, programs: Programs, *, token: str) -> Begun:
    """Another board, with other keys, tries a token that was used."""
    return programs.begin(command("shoal-agent"), "enrol", "-", "--state", str(stage.folder / "thief"), stdin=token)


def _has_worked(stage: Stage, programs: Programs, theft: Begun) -> bool:
    programs.result(theft, may_fail=True)
    thief = stage.folder / "thief"
    worked = (thief / "device.json").exists()
    shutil.rmtree(thief, ignore_errors=True)
    return worked


def _place(scene: Scene, feed: Feed) -> None:
    """Begin to place items of a kind for every board that answers them."""
    for number, board in enumerate(boards_with(feed)):
        seed = ("--seed", str(1 + number * _SEEDS_APART))
        out = ("--count", str(_ENDLESS), "--pace", str(feed.pace_s), "--json")
        folder = ("--out", str(scene.stage.board(board) / feed.source))
        words = (sys.executable, "-m", feed.package, feed.source, *out, *seed, *folder)
        program = scene.programs.start(_placing(board, feed), *words, reads=True)
        scene.placings[board, feed] = Placing(program)


def _placing(board: Board, feed: Feed) -> str:
    """Name of the program that places items."""
    return f"{board.name}-{feed.source}"


def _client(stage: Stage) -> Client:
    return Client(decode_struct(stage.login.read_bytes(), Login, what=str(stage.login)))
