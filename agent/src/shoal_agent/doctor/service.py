"""Does systemd keep the agent running, and give it what it asks for?"""

from shoal_agent.doctor.board import UNIT, Board
from shoal_agent.doctor.findings import Finding, Health
from shoal_agent.doctor.reading import read_text

MANY_RESTARTS = 3
LOG = f"journalctl -u {UNIT}"


def check_unit(board: Board) -> Finding:
    """The unit runs, and will after the next boot."""
    unit = board.unit
    if not unit:
        return Finding(
            Health.UNKNOWN, f"systemd doesn't know {UNIT}", "install the agent's package, or start it yourself"
        )
    state = unit.get("ActiveState", "unknown")
    if state == "failed":
        return Finding(Health.BAD, f"{UNIT} failed ({unit.get('Result', 'no reason told')})", LOG)
    if state != "active":
        return Finding(Health.WARNING, f"{UNIT} is {state}", f"systemctl enable --now {UNIT}")
    if unit.get("UnitFileState", "enabled") not in ("enabled", "enabled-runtime", "static", ""):
        words = f"{UNIT} runs, but isn't started by the next boot ({unit['UnitFileState']})"
        return Finding(Health.WARNING, words, f"systemctl enable {UNIT}")
    restarts = unit.get("NRestarts", "0")
    if restarts.isdigit() and int(restarts) >= MANY_RESTARTS:
        return Finding(Health.WARNING, f"{UNIT} runs, and was started again {restarts} times", LOG)
    return Finding(Health.GOOD, f"{UNIT} runs")


def check_control_groups(board: Board) -> Finding:
    """Each worker can have a memory limit of its own."""
    controllers = read_text(board.system / "fs/cgroup/cgroup.controllers").split()
    if not controllers:
        return Finding(
            Health.WARNING,
            "there are no control groups of version 2: workers have no memory limits",
            "start the kernel with systemd.unified_cgroup_hierarchy=1",
        )
    if "memory" not in controllers:
        is_forbidden = "cgroup_disable=memory" in read_text(board.proc / "cmdline").split()
        why = " (its command line has cgroup_disable=memory)" if is_forbidden else ""
        return Finding(
            Health.WARNING,
            f"the kernel has no memory controller{why}: workers have no memory limits",
            "add cgroup_enable=memory to the kernel's command line (Raspberry Pi: /boot/firmware/cmdline.txt)",
        )
    if board.unit and board.unit.get("Delegate", "yes") != "yes":
        return Finding(
            Health.WARNING,
            f"{UNIT} has no control groups of its own: workers have no memory limits",
            "set Delegate=memory in the unit, as the one that comes with the agent does",
        )
    return Finding(Health.GOOD, "the kernel offers a memory controller")
