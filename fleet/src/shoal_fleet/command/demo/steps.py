"""Which steps does the demo take, each through the commands that a user would type, each with evidence?"""

import shutil
import sys
import time
from collections.abc import Callable

import msgspec
from shoal_wire.encoding import decode_struct
from shoal_wire.messages import Reported
from shoal_wire.update import UpdateState

from shoal_fleet.command.account import Login
from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.evidence import Shown, every_sound_answered_once, update_ended
from shoal_fleet.command.demo.programs import Programs, command, wait_for
from shoal_fleet.command.demo.sounds import SOURCE, Sounds
from shoal_fleet.command.demo.stage import DEVICE, MODEL, Scene, Stage
from shoal_fleet.command.errors import CommandError

PACE_S = 0.4
"""A sound every so often: less than half of what one core answers."""
_ENDLESS = 1_000_000
_NOTE_EVENTS = (sys.executable, "-m", "shoal_converters.note_events")


class Addresses(msgspec.Struct, frozen=True):
    """Content of addresses.json, which the fleet writes once it listens."""

    operators_url: str


def start_fleet(stage: Stage, programs: Programs) -> tuple[Shown, str]:
    """Start the fleet and log in to it; also returns its address."""
    started = time.monotonic()
    made = programs.run(command("shoal-fleet"), "init", "--state", str(stage.fleet))
    ports = ("--port", "0", "--devices-port", "0", "--broker-port", "0")
    fleet = programs.start("fleet", command("shoal-fleet"), "serve", "--state", str(stage.fleet), *ports)

    def listening() -> str | None:
        if fleet.poll() is not None:
            raise CommandError(f"the fleet ended with exit code {fleet.returncode}: see {programs.log('fleet')}")
        path = stage.fleet / "addresses.json"
        return decode_struct(path.read_bytes(), Addresses, what=str(path)).operators_url if path.exists() else None

    url = wait_for("the fleet's address", listening, timeout_s=60)
    fingerprint = ("--authority-sha256", made["authority_sha256"])
    programs.run(command("shoal"), "login", url, "--token-file", "-", *fingerprint, "--json", stdin=made["token"])
    health = _client(stage).get("/api/v1/health")
    evidence = {"url": url, "health": health, "seconds": _since(started)}
    return Shown(ok=True, evidence=evidence, words=f"fleet, broker and database are up at {url}"), url


def enrol(stage: Stage, programs: Programs) -> tuple[Shown, Scene]:
    """Make the publisher's keys, enrol the board with a one-time token and start its agent."""
    started = time.monotonic()
    programs.run(command("shoal"), "keys", "init", "--publisher", str(stage.publisher), "--json")
    token = programs.run(command("shoal"), "device", "token", "--name", DEVICE, "--json")["token"]
    _configure_agent(stage)
    state = ("--state", str(stage.agent))
    programs.run(command("shoal-agent"), "enrol", "-", "--profile", "generic-x86-64", *state, stdin=token)
    programs.start("agent", command("shoal-agent"), "run", *state)
    client = _client(stage)
    device = client.get(f"/api/v1/devices/{DEVICE}")["id"]
    scene = Scene(stage, programs, client, device)
    reported = wait_for("the board's first signed report", scene.reported, timeout_s=60)
    evidence = {"device": device, "profile": reported.profile, "agent": reported.agent_version}
    thief = stage.folder / "thief"
    programs.run(command("shoal-agent"), "enrol", "-", "--state", str(thief), stdin=token, may_fail=True)
    worked_twice = (thief / "device.json").exists()
    shutil.rmtree(thief, ignore_errors=True)
    evidence |= {"token_worked_twice": worked_twice, "seconds": _since(started)}
    words = f"{DEVICE} is {device}; its token worked once"
    return Shown(ok=not worked_twice, evidence=evidence, words=words), scene


def fetch_model(stage: Stage, programs: Programs) -> Shown:
    """Fetch the trained network and build the four release folders from it."""
    started = time.monotonic()
    fetched = programs.run(*_NOTE_EVENTS, "fetch", "--json")
    built = programs.run(*_NOTE_EVENTS, "build", "--out", str(stage.releases), "--json")
    evidence = {**fetched, "built": built, "seconds": _since(started)}
    return Shown(ok=bool(built), evidence=evidence, words="fetched the trained network, built four release folders")


def start_sounds(stage: Stage, programs: Programs) -> Sounds:
    """Begin to place sounds, one at a time, in the board's folder."""
    out = ("--out", str(stage.sounds), "--json")
    return Sounds(
        programs.start_reading(
            "sounds", *_NOTE_EVENTS, "sounds", "--count", str(_ENDLESS), "--pace", str(PACE_S), "--seed", "1", *out
        )
    )


def roll_out(scene: Scene, version: int, judge: Callable[[Reported, str], Shown]) -> tuple[Shown, str]:
    """Release and roll out one version; also returns its manifest's digest. `judge` sees report and digest."""
    folder = scene.stage.releases / f"release-{version}"
    publisher = ("--publisher", str(scene.stage.publisher))
    release = scene.programs.run(command("shoal"), "release", "create", str(folder), *publisher, "--json")
    started = time.monotonic()
    target = (MODEL, str(version), "--device", scene.device, "--watch", "--timeout", "90", "--json")
    rollout = scene.programs.run(command("shoal"), "rollout", "start", *target, may_fail=True)
    seconds = _since(started)
    digest: str = release["manifest_sha256"]
    reported = scene.reported()
    if reported is None or reported.update is None or not rollout:
        return Shown(
            ok=False, evidence={"rollout": rollout, "seconds": seconds}, words="the rollout didn't end"
        ), digest
    shown = judge(reported, digest)
    extra = {"rollout": rollout["state"], "uploaded_bytes": release["uploaded_bytes"], "seconds": seconds}
    words = f"{shown.words}; {reported.update.fetched_bytes} bytes fetched"
    return Shown(shown.ok, {**shown.evidence, **extra}, words), digest


def expect_committed(reported: Reported, digest: str) -> Shown:
    """The release serves after its probation."""
    return update_ended(reported, state=UpdateState.COMMITTED, current=digest)


def expect_back_to(current: str, *, state: UpdateState, why: str) -> Callable[[Reported, str], Shown]:
    """The board kept or took back the release with the manifest `current`, and says why."""

    def judge(reported: Reported, digest: str) -> Shown:
        return update_ended(reported, state=state, current=current, refused_digest=digest, why=why)

    return judge


def account_for_sounds(scene: Scene, sounds: Sounds) -> Shown:
    """Stop placing sounds, and compare what was placed with the fleet's database."""
    sounds.stop()

    def settled() -> Shown | None:
        left = [path.name for path in scene.stage.sounds.iterdir()]
        shown = every_sound_answered_once(scene.device, sounds.placed(), scene.answers(), left)
        return shown if shown.ok else None

    try:
        return wait_for("an answer to every sound", settled, timeout_s=60)
    except CommandError:
        left = [path.name for path in scene.stage.sounds.iterdir()]
        return every_sound_answered_once(scene.device, sounds.placed(), scene.answers(), left)


def _configure_agent(stage: Stage) -> None:
    stage.agent.mkdir(mode=0o700)
    stage.sounds.mkdir()
    source = {"kind": "folder", "name": SOURCE, "path": str(stage.sounds), "release": MODEL}
    lines = ["threads = 1", "", "[[sources]]", *(f'{key} = "{value}"' for key, value in source.items())]
    (stage.agent / "agent.toml").write_text("\n".join(lines) + "\n")


def _client(stage: Stage) -> Client:
    return Client(decode_struct(stage.login.read_bytes(), Login, what=str(stage.login)))


def _since(started: float) -> float:
    return round(time.monotonic() - started, 2)
