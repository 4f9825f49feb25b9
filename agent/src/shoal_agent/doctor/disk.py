"""Is there room on the disk that the agent writes to, and how long will it last?"""

from pathlib import Path

from shoal_agent.doctor.board import Board, Disk
from shoal_agent.doctor.findings import Finding, Health, worst
from shoal_agent.doctor.reading import read_number, read_text

VOLATILE = frozenset({"tmpfs", "ramfs"})
LOW_BYTES = 512 << 20
"""Below this an update may not find room: a release of large models and the one before lie there together."""
NO_BYTES = 64 << 20
"""Below this the outbox may not fit (`outbox_bytes` in the agent's configuration)."""
LOW_INODES = 0.05
NO_INODES = 0.01

WORN, NEARLY_WORN = 11, 9
"""Of `life_time`: 1 is up to 10 % used, 10 up to 100 %, 11 more (JEDEC eMMC 5.0, EXT_CSD 268 and 269)."""
_RESERVE = {2: Health.WARNING, 3: Health.BAD}
"""Of `pre_eol_info`: 2 is 80 % of the reserved blocks used, 3 is urgent (EXT_CSD 267)."""


def check_disk(board: Board) -> Finding:
    """There is room, and it can be written to."""
    disk = board.disk
    if disk is None:
        return Finding(Health.UNKNOWN, f"the file system of {board.state} can't be looked at by this user")
    return worst(list(_judge_disk(disk, state=board.state)))


def check_wear(board: Board) -> Finding:
    """What disk and file system tell of their health."""
    if board.disk is None:
        return Finding(Health.UNKNOWN, "which disk the state folder lies on isn't known")
    partition = board.system / "dev/block" / board.disk.device
    if not partition.exists():
        return Finding(Health.UNKNOWN, f"{board.disk.kind or 'the file system'} lies on no one disk")
    real = partition.resolve()
    whole = real.parent if (real / "partition").exists() else real
    findings = [_judge_errors(board.system, real.name), _judge_flash(whole / "device", name=whole.name)]
    return worst([finding for finding in findings if finding.health is not Health.UNKNOWN] or findings)


def _judge_disk(disk: Disk, *, state: Path) -> list[Finding]:
    if disk.kind in VOLATILE:
        words = f"{state} lies in memory ({disk.kind}): keys and updates are gone after a power cut"
        return [Finding(Health.BAD, words, "put the state folder on a disk")]
    if disk.is_read_only:
        advice = "the kernel does so after errors: look at dmesg, check the file system, and replace a worn card"
        return [Finding(Health.BAD, f"{disk.kind or 'the file system'} is mounted read-only", advice)]
    room = f"{disk.free_bytes / 1e9:.1f} of {disk.total_bytes / 1e9:.1f} GB are free"
    advice = f"make room on the disk of {state}"
    findings = [Finding(_grade(disk.free_bytes, low=LOW_BYTES, none=NO_BYTES), room)]
    if disk.total_inodes:
        part = disk.free_inodes / disk.total_inodes
        findings.append(Finding(_grade(part, low=LOW_INODES, none=NO_INODES), f"{part:.0%} of its inodes are free"))
    return [finding if finding.health is Health.GOOD else finding._replace(advice=advice) for finding in findings]


def _grade(value: float, *, low: float, none: float) -> Health:
    if value < none:
        return Health.BAD
    return Health.WARNING if value < low else Health.GOOD


def _judge_errors(system: Path, name: str) -> Finding:
    """Errors that ext4 found since it was last checked (kernel documentation, "ext4": errors_count)."""
    errors = read_number(system / "fs/ext4" / name / "errors_count")
    if errors is None:
        return Finding(Health.UNKNOWN, "the file system counts no errors")
    if errors:
        advice = "check it while it isn't mounted (fsck), and replace a worn card"
        return Finding(Health.BAD, f"the file system on {name} has {errors} errors", advice)
    return Finding(Health.GOOD, f"the file system on {name} has no errors")


def _judge_flash(device: Path, *, name: str) -> Finding:
    """What an eMMC says of its life (kernel documentation, "SD and MMC Block Device Attributes")."""
    if read_text(device / "type") == "SD":
        return Finding(Health.UNKNOWN, f"{name} is an SD card, which doesn't tell how worn it is")
    used = [int(word, 16) for word in read_text(device / "life_time").split() if _is_hex(word)]
    reserve = _RESERVE.get(read_number(device / "pre_eol_info", base=16) or 0)
    if not used or not max(used):
        return Finding(Health.UNKNOWN, f"{name} doesn't tell how worn it is")
    if max(used) >= WORN or reserve is Health.BAD:
        return Finding(Health.BAD, f"{name} is past the life that its maker gave it", "replace it")
    words = f"{name} has used {(max(used) - 1) * 10} to {max(used) * 10} % of its life"
    if max(used) >= NEARLY_WORN or reserve is Health.WARNING:
        return Finding(Health.WARNING, words, "plan to replace it")
    return Finding(Health.GOOD, words)


def _is_hex(word: str) -> bool:
    try:
        int(word, 16)
    except ValueError:
        return False
    return True
