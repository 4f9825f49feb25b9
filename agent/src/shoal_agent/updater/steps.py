"""What is done in each state of an update?

A step returns the journal with what it found out, which is the outcome DONE. It raises Refused (or a WireError) for
FAILED, Superseded, or TryLater. Each may run twice: it looks at what is there before it acts.
"""

import errno
import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace
from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, SealedFile, parse_manifest
from shoal_wire.update import UpdateState

from shoal_agent.slots import HeldRelease, Journal, Slot, stored
from shoal_agent.updater import planning, probation, revocation, slot_changes, spares, waiting
from shoal_agent.updater.collect import collect
from shoal_agent.updater.errors import Refused, Superseded, TryLater, UpdateError
from shoal_agent.updater.fetch import AskedToWait, Watch, fetch_file
from shoal_agent.updater.tools import Tools
from shoal_agent.updater.verify import find_damage
from shoal_agent.updater_messages import Verdict

Step = Callable[[Journal, Tools], Journal]

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))

PROGRESS_S = 5.0
"""Between two writes of the journal while files come."""
CHECKS = 3
"""Times that golden cases are asked for while nobody can tell how they went."""
CHECK_PAUSE_S = 2.0
TRUST_S = 86_400.0
"""How old the last look at signed metadata may be when a release is about to be tried."""
HEALTH_TIMEOUT_S = 1.0


def plan(journal: Journal, tools: Tools) -> Journal:
    """Renew trust, check assignment and manifest, choose a variant, make sure that it fits on the disk."""
    records, assignment = tools.records, journal.assignment
    what = f"release {assignment.release} {assignment.version}"
    manifest, raw = read_signed_manifest(journal, tools)
    floors = planning.raise_floors(records.floors(), manifest)
    records.write_floors(floors)
    plans = planning.plan_release(manifest, assignment, floors=floors, board=tools.board)
    chosen = _first_with_room(plans, journal, tools, what=what)
    records.files.write(stored(records.state, assignment.manifest_sha256), raw)
    return replace(journal, variant=chosen.variant, spare=chosen.spare)


def read_signed_manifest(journal: Journal, tools: Tools) -> tuple[Manifest, bytes]:
    """What the release key signed for an update that is still wanted, parsed and as it came. Renews trust before."""
    assignment = journal.assignment
    _check_waiting(journal, tools)
    revocation.renew(tools)
    try:
        desired = tools.trust.desired()
    except WireError as error:  # its key was replaced: the fleet signs it anew
        raise TryLater(str(error)) from error
    if desired is not None and desired.order > (journal.epoch, journal.generation):
        raise Superseded("a newer desired document came")
    if desired is None or assignment not in desired.assignments:
        raise Refused(f"release {assignment.release} {assignment.version}: no longer in the desired document")
    raw = tools.trust.fetch_manifest(assignment)
    return parse_manifest(raw), raw


def fetch(journal: Journal, tools: Tools) -> Journal:
    """Put the files that the board lacks into the store. One that lies there damaged is fetched again.

    What the release needs comes first; nothing that happens to the others holds it up.
    """
    records = tools.records
    _check_waiting(journal, tools)
    progress = _FetchProgress(journal, tools)
    watch = Watch(pulse=tools.daemon.listen, pause=tools.daemon.listen, fetched=progress.add)
    files = planning.planned_files(read_manifest(journal, tools), journal)
    try:
        for file in files:
            path = stored(records.state, file.ciphertext_sha256)
            if file.ciphertext_sha256 in journal.spare:
                continue
            if find_damage(file, path, files=records.files, pulse=watch.pulse) is None:
                continue
            fetch_file(file, source=tools.http, records=records, watch=watch, patience=tools.patience)
        spare = [file for file in files if file.ciphertext_sha256 in journal.spare]
        progress.journal = _fetch_spares(spare, progress.journal, tools, watch=watch)
    except UpdateError as error:
        progress.save()
        if isinstance(error, AskedToWait):
            waiting.note(records, journal, reason=str(error), now=tools.now(), wait_s=error.wait_s)
        raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise _no_room_left(files, journal, tools) from error
    return progress.journal


def verify(journal: Journal, tools: Tools) -> Journal:
    """Read every file of the release back from the disk."""
    records, left_out = tools.records, {}
    for file in planning.planned_files(read_manifest(journal, tools), journal):
        path = stored(records.state, file.ciphertext_sha256)
        is_spare = file.ciphertext_sha256 in journal.spare
        try:
            damage = find_damage(file, path, files=records.files, pulse=tools.daemon.listen)
        except OSError as error:
            if not is_spare:
                raise
            damage = str(error)
        if damage is not None:
            reason = f"the disk gives back other bytes than were written: {damage}"
            if not is_spare:
                raise Refused(reason)
            left_out[file.ciphertext_sha256] = reason
    return _do_without(left_out, journal, tools)


def check(journal: Journal, tools: Tools) -> Journal:
    """Have the golden cases run, and note the latency that the new release will be measured against."""
    check_still_trusted(journal, tools)
    slot = _slot(journal, tools)
    baseline_p95_ms = None
    if slot.current is not None:
        live = tools.daemon.ask_baseline(journal.assignment.release)
        baseline_p95_ms = probation.choose_baseline(
            probation.Baseline(live.p95_ms, live.answers),
            recorded_p95_ms=slot.current.p95_ms,
            limits=journal.assignment.probation,
        )
    reply = ask_check(planning.hold(journal, read_manifest(journal, tools)), tools)
    if reply.is_short:
        raise TryLater(f"golden cases couldn't be run yet: {reply.reason}")
    if not reply.passed:
        raise Refused(f"golden cases: {reply.reason}")
    return replace(journal, baseline_p95_ms=baseline_p95_ms)


def check_still_trusted(journal: Journal, tools: Tools) -> None:
    """Make sure that the release wasn't revoked. Where fetching took long, trust is renewed before.

    Raises:
        Refused: it was.
    """
    looked = tools.records.trust_report()
    if looked.trouble or tools.trust.read_time().at - looked.at > TRUST_S:
        revocation.renew(tools)
    manifest, digest = read_manifest(journal, tools), journal.assignment.manifest_sha256
    reason = planning.find_revocation(manifest, digest, revoked=tools.records.revoked())
    if reason is not None:
        raise Refused(reason)


def ask_check(held: HeldRelease, tools: Tools) -> Verdict:
    """How a release answers its golden cases, or that there is no memory to tell.

    Raises:
        Refused: nobody could tell, for another reason.
    """
    for _ in range(CHECKS):
        reply = tools.daemon.ask_check(held)
        if reply.is_short or not reply.unavailable:
            return reply
        tools.daemon.listen(CHECK_PAUSE_S)
    raise Refused(f"golden cases couldn't be run, tried {CHECKS} times: {reply.reason}")


def switch(journal: Journal, tools: Tools) -> Journal:
    """Make the release current, and wait until it serves."""
    held, release = planning.hold(journal, read_manifest(journal, tools)), journal.assignment.release
    may_go_back = _may_go_back(journal, tools)
    tools.change_slot(release, lambda slot: slot_changes.switch(slot, held, may_go_back=may_go_back))
    failure = tools.daemon.ask_switch(journal.assignment.release, expected=journal.target)
    if failure is not None:
        raise Refused(f"can't be served: {failure}")
    return journal


def prove(journal: Journal, tools: Tools) -> Journal:
    """Probation: watch the release on live input until it may stay or must go."""
    limits, began = journal.assignment.probation, tools.monotonic()
    health = probation.NOTHING_SEEN
    while True:
        news = tools.daemon.next_health(journal.target, timeout_s=HEALTH_TIMEOUT_S)
        if news is not None:
            health = probation.Health(news.answers, news.errors, news.deaths, news.histogram, news.serving)
        verdict = probation.judge(
            health,
            limits=limits,
            baseline_p95_ms=journal.baseline_p95_ms,
            elapsed_s=tools.monotonic() - began,
        )
        if verdict.decision is probation.Decision.FALL_BACK:
            raise Refused(verdict.reason)
        if verdict.decision is probation.Decision.COMMIT:
            return replace(journal, p95_ms=verdict.p95_ms, reason=verdict.reason)


def commit(journal: Journal, tools: Tools) -> Journal:
    """Keep the release, and forget what nobody needs any more."""
    release = journal.assignment.release
    tools.change_slot(release, lambda slot: slot_changes.commit(slot, journal))
    tools.daemon.settled(release)
    collect(tools.records)
    return journal


def fall_back(journal: Journal, tools: Tools) -> Journal:
    """Serve the previous release again, and never try this generation again."""
    release = journal.assignment.release
    slot = tools.change_slot(release, lambda slot: slot_changes.fall_back(slot, journal))
    reason = journal.reason
    if slot.current is not None:
        failure = _serve_previous(slot, tools)
        if failure is not None:
            reason = f"{reason}; and the previous release isn't served yet: {failure}"
    tools.daemon.settled(release)
    collect(tools.records)
    return replace(journal, reason=reason)


def refuse(journal: Journal, tools: Tools) -> Journal:
    """Leave everything as it is, and never try this generation again."""
    tools.change_slot(journal.assignment.release, lambda slot: slot_changes.refuse(slot, journal))
    collect(tools.records)
    return journal


STEPS: dict[UpdateState, Step] = {
    UpdateState.PLANNING: plan,
    UpdateState.FETCHING: fetch,
    UpdateState.VERIFYING: verify,
    UpdateState.CHECKING: check,
    UpdateState.SWITCHING: switch,
    UpdateState.PROBATION: prove,
    UpdateState.COMMITTING: commit,
    UpdateState.FALLING_BACK: fall_back,
    UpdateState.REFUSING: refuse,
}


class _FetchProgress:
    """Counts what has come, and writes it down now and then. Progress also means that this start wasn't in vain."""

    def __init__(self, journal: Journal, tools: Tools) -> None:
        self.journal = journal
        self._tools = tools
        self._written_at = tools.monotonic()

    def add(self, fetched_bytes: int) -> None:
        """Bytes that are verified and on the disk."""
        self.journal = replace(self.journal, fetched_bytes=self.journal.fetched_bytes + fetched_bytes, attempts=0)
        if self._tools.monotonic() - self._written_at >= PROGRESS_S:
            self.save()

    def save(self) -> None:
        """Write it down now."""
        self._tools.save(self.journal)
        self._written_at = self._tools.monotonic()


def _check_waiting(journal: Journal, tools: Tools) -> None:
    """Spare the network what is known to be in vain.

    Raises:
        TryLater: the update waits still.
    """
    reason = waiting.find_reason(tools.records, journal, now=tools.now())
    if reason is not None:
        raise TryLater(reason)


def _first_with_room(plans: Sequence[planning.Plan], journal: Journal, tools: Tools, *, what: str) -> planning.Plan:
    """The best plan that the disk has room for. What no plan and no slot needs is removed before that is asked.

    Raises:
        Refused: not even the empty disk had room for any.
        TryLater: it has none for any now. That is remembered, and tried again when there is room.
    """
    records, needs = tools.records, []
    for plan in plans:
        collect(records, planned=plan.files, manifest_sha256=journal.assignment.manifest_sha256)
        needs.append(planning.space_needed(_sizes(plan.files, tools)))
        if needs[-1] <= records.files.free_bytes(records.state):
            return plan
    total_bytes = shutil.disk_usage(records.state).total
    if min(needs) > total_bytes:
        free_bytes = records.files.free_bytes(records.state)
        reason = planning.say_shortage(min(needs), free_bytes=free_bytes, what=what)
        raise Refused(f"{reason}; the whole disk has {total_bytes}")
    raise _wait_for_room(min(needs), journal, tools)


def _no_room_left(files: Sequence[SealedFile], journal: Journal, tools: Tools) -> TryLater:
    """The error of a disk that something else filled while files came."""
    needed = [file for file in files if file.ciphertext_sha256 not in journal.spare]
    return _wait_for_room(planning.space_needed(_sizes(needed, tools)), journal, tools)


def _wait_for_room(needed_bytes: int, journal: Journal, tools: Tools) -> TryLater:
    """Remember what is needed; returns the error that says so."""
    records, assignment = tools.records, journal.assignment
    reason = planning.say_shortage(
        needed_bytes,
        free_bytes=records.files.free_bytes(records.state),
        what=f"release {assignment.release} {assignment.version}",
    )
    now, wait_s = tools.now(), waiting.LOOK_AGAIN_S
    waiting.note(records, journal, reason=reason, now=now, wait_s=wait_s, needed_bytes=needed_bytes)
    return TryLater(reason)


def _sizes(files: Sequence[SealedFile], tools: Tools) -> list[tuple[SealedFile, int]]:
    """Each file with how much of it is here."""
    size, state = tools.records.files.size, tools.records.state
    return [
        (file, size(stored(state, file.ciphertext_sha256)) or size(tools.records.part(file.ciphertext_sha256)))
        for file in files
    ]


def _fetch_spares(files: Sequence[SealedFile], journal: Journal, tools: Tools, *, watch: Watch) -> Journal:
    if journal.attempts > spares.STARTS:
        reason = f"{journal.attempts - 1} starts ended before all files had come"
        return _do_without({file.ciphertext_sha256: reason for file in files}, journal, tools)
    left_out = spares.fetch_spares(
        files,
        source=tools.http,
        records=tools.records,
        watch=watch,
        patience=tools.patience,
        monotonic=tools.monotonic,
    )
    return _do_without(left_out, journal, tools)


def _do_without(left_out: Mapping[str, str], journal: Journal, tools: Tools) -> Journal:
    """Give up files, by digest with the reason, that are only there for tuning to try."""
    for reason in dict.fromkeys(left_out.values()):
        tools.daemon.event("variant-left-out", reason)
    return replace(journal, spare=tuple(digest for digest in journal.spare if digest not in left_out))


def _serve_previous(slot: Slot, tools: Tools) -> str | None:
    assert slot.current is not None
    try:
        return tools.daemon.ask_switch(slot.current.reference.release, expected=slot.current.reference)
    except Refused as error:
        return str(error)


def _may_go_back(journal: Journal, tools: Tools) -> bool:
    """Whether what serves now may be gone back to."""
    current = _slot(journal, tools).current
    if current is None or current.reference == journal.target:
        return True
    reason = revocation.revocation_of(current, tools)
    if reason is not None:
        tools.daemon.event("previous-revoked", f"{reason}; this board won't go back to it")
    return reason is None


def _slot(journal: Journal, tools: Tools) -> Slot:
    return tools.slot(journal.assignment.release)


def read_manifest(journal: Journal, tools: Tools) -> Manifest:
    """The release's manifest from the store, compared with its digest each time: it may have lain there for long."""
    path = stored(tools.records.state, journal.assignment.manifest_sha256)
    raw = tools.records.files.read(path) if tools.records.files.size(path) else b""
    if hashlib.sha256(raw).hexdigest() != journal.assignment.manifest_sha256:
        raise Refused("the disk gives back another manifest than was written")
    return parse_manifest(raw)
