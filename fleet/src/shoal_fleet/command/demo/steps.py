"""Which steps does the demo take, each through the commands that a user would type, each with evidence?"""

import shutil
import sys
import time
from typing import Any

import msgspec
from shoal_wire.encoding import decode_struct
from shoal_wire.update import UpdateState

from shoal_fleet.command.account import Login
from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.evidence import Expected, Shown, every_sound_answered_once, update_ended
from shoal_fleet.command.demo.programs import Programs, command
from shoal_fleet.command.demo.sounds import SOURCE, Sounds
from shoal_fleet.command.demo.stage import DEVICE, MODEL, Scene, Stage
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.views import Device, parse

PACE_S = 0.4
"""A sound every so often: less than half of what one core answers."""
RELEASES = 4
_ENDLESS = 1_000_000
_NOTHING_LARGE_BYTES = 64 << 10
"""The sealed weights alone have more than three times as many."""
_NOTE_EVENTS = (sys.executable, "-m", "shoal_converters.note_events")


class Addresses(msgspec.Struct, frozen=True):
    """Content of addresses.json, which the fleet writes once it listens."""

    operators_url: str


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
    """Make the publisher's keys, enrol the board with a one-time token and start its agent."""
    programs.run(command("shoal"), "keys", "init", "--publisher", str(stage.publisher), "--json")
    token = programs.run(command("shoal"), "device", "token", "--name", DEVICE, "--json")["token"]
    _configure_agent(stage)
    state = ("--state", str(stage.agent))
    programs.run(command("shoal-agent"), "enrol", "-", "--profile", "generic-x86-64", *state, stdin=token)
    programs.start("agent", command("shoal-agent"), "run", *state)
    client = _client(stage)
    device = parse(client.get(f"/api/v1/devices/{DEVICE}"), Device, what="device").id
    scene = Scene(stage, programs, client, device)
    reported = programs.wait_for("the board's first signed report", scene.reported, timeout_s=60)
    worked_twice = _try_token_again(stage, programs, token)
    evidence = {
        "device": device,
        "profile": reported.profile,
        "agent": reported.agent_version,
        "token_worked_twice": worked_twice,
    }
    again = "its token worked TWICE" if worked_twice else "its token was refused the second time"
    return Shown(ok=not worked_twice, evidence=evidence, words=(f"{DEVICE} is {device}; {again}",)), scene


def fetch_model(stage: Stage, programs: Programs) -> tuple[Shown, Sounds]:
    """Fetch the trained network, build the release folders from it, and begin to place sounds in the board's folder."""
    fetched = programs.run(*_NOTE_EVENTS, "fetch", "--json")
    programs.run(*_NOTE_EVENTS, "build", "--out", str(stage.releases), "--json")
    built = sorted(path.parent.name for path in stage.releases.glob("*/release.json"))
    out = ("--count", str(_ENDLESS), "--pace", str(PACE_S), "--seed", "1", "--out", str(stage.sounds), "--json")
    sounds = Sounds(programs.start("sounds", *_NOTE_EVENTS, "sounds", *out, reads=True))
    words = f"{len(built)} release folders of a network that hears notes; a new sound every {PACE_S} s"
    return Shown(ok=len(built) == RELEASES, evidence={**fetched, "built": built}, words=(words,)), sounds


def commit(scene: Scene, version: int, *, fetches_weights: bool) -> tuple[Shown, str]:
    """Roll out a release that the board must keep; also returns its manifest's digest."""
    digest, extra = _roll_out(scene, version)
    expected = Expected(
        UpdateState.COMMITTED,
        target=digest,
        current=digest,
        most_fetched_bytes=None if fetches_weights else _NOTHING_LARGE_BYTES,
    )
    return _judge(scene, expected, {**extra, "expected_rollout": "succeeded"}), digest


def take_back(scene: Scene, version: int, *, good: str, state: UpdateState, why: str) -> tuple[Shown, str]:
    """Roll out a release that the board must not keep: it runs `good` afterwards and says why."""
    digest, extra = _roll_out(scene, version)
    expected = Expected(state, target=digest, current=good, why=why)
    return _judge(scene, expected, {**extra, "expected_rollout": "failed"}), digest


def account_for_sounds(scene: Scene, sounds: Sounds) -> tuple[Shown, None]:
    """Stop placing sounds, and compare what was placed with the fleet's database."""
    sounds.stop()

    def look() -> Shown:
        left = [path.name for path in scene.stage.sounds.iterdir()]
        return every_sound_answered_once(scene.device, sounds.placed(), scene.answers(), left)

    def settled() -> Shown | None:
        shown = look()
        return shown if shown.ok else None

    try:
        return scene.programs.wait_for("an answer to every sound", settled, timeout_s=60), None
    except CommandError:
        return look(), None


def _roll_out(scene: Scene, version: int) -> tuple[str, dict[str, Any]]:
    """Release and roll out one version, and wait for the end; returns its manifest's digest, and evidence."""
    folder = scene.stage.releases / f"release-{version}"
    publisher = ("--publisher", str(scene.stage.publisher))
    release = scene.programs.run(command("shoal"), "release", "create", str(folder), *publisher, "--json")
    started = time.monotonic()
    target = (MODEL, str(version), "--device", scene.device, "--watch", "--timeout", "90", "--json")
    rollout = scene.programs.run(command("shoal"), "rollout", "start", *target, may_fail=True)
    return release["manifest_sha256"], {
        "rollout": rollout.get("state", "not ended"),
        "rollout_seconds": round(time.monotonic() - started, 2),
        "uploaded_bytes": release["uploaded_bytes"],
    }


def _judge(scene: Scene, expected: Expected, extra: dict[str, Any]) -> Shown:
    reported = scene.reported()
    if reported is None:
        return Shown(ok=False, evidence=extra, words=("the board has reported nothing",))
    shown = update_ended(reported, model=MODEL, expected=expected)
    ok = shown.ok and extra["rollout"] == extra["expected_rollout"]
    return Shown(ok, {**shown.evidence, **extra}, shown.words)


def _try_token_again(stage: Stage, programs: Programs, token: str) -> bool:
    """Whether another board, with other keys, comes in with a token that was used."""
    thief = stage.folder / "thief"
    programs.run(command("shoal-agent"), "enrol", "-", "--state", str(thief), stdin=token, may_fail=True)
    worked = (thief / "device.json").exists()
    shutil.rmtree(thief, ignore_errors=True)
    return worked


def _configure_agent(stage: Stage) -> None:
    stage.agent.mkdir(mode=0o700)
    stage.sounds.mkdir()
    source = {"kind": "folder", "name": SOURCE, "path": str(stage.sounds), "release": MODEL}
    lines = ["threads = 1", "", "[[sources]]"]
    lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in source.items()]
    (stage.agent / "agent.toml").write_text("\n".join(lines) + "\n")


def _client(stage: Stage) -> Client:
    return Client(decode_struct(stage.login.read_bytes(), Login, what=str(stage.login)))
