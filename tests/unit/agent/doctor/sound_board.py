"""How does a test get a board with which nothing is wrong, to spoil one thing of it?"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from shoal_agent.doctor.board import Board, Disk
from shoal_agent.doctor.findings import Finding
from shoal_agent.front.probe import ProbeResult
from shoal_agent.profiles import load_profiles
from shoal_agent.state import Device

from tests.shipped_profiles import ENVIRONMENT
from tests.unit.agent.recorded_boards import BOARDS, write_board

NOW = datetime(2027, 5, 1, tzinfo=UTC)
GIGABYTE = 1_000_000_000
UNIT = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "Result": "success",
    "NRestarts": "0",
    "Delegate": "yes",
    "MemorySwapMax": "0",
    "LimitMEMLOCK": "infinity",
    "LimitCORE": "0",
}
DISK = Disk(
    total_bytes=32 * GIGABYTE,
    free_bytes=20 * GIGABYTE,
    total_inodes=1000,
    free_inodes=900,
    is_read_only=False,
    kind="ext4",
    device="179:2",
)
DEVICE = Device(
    device="d-1",
    name="yard",
    profile="raspberry-pi-5",
    broker_host="fleet.example",
    broker_port=8883,
    devices_url="https://fleet.example:8444",
    token_sha256="0" * 64,
)
USABLE = ProbeResult(
    engine="onnxruntime", model_format="onnx", interpreter="python", is_usable=True, version="1.32", placement=("CPU",)
)

Check = Callable[[Board], Finding]


def certificate(*, begins: timedelta, ends: timedelta) -> bytes:
    """One that counts between two times around NOW."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW + begins, NOW + ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def put(board: Board, name: str, text: str) -> None:
    """Write what the kernel would show, in a file below the board's root."""
    path = board.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_board(folder: Path) -> Board:
    """A Raspberry Pi 5 that is enrolled, cool, well fed and on a good disk."""
    state, root = folder / "state", folder / "root"
    (state / "keys").mkdir(parents=True)
    state.chmod(0o700)
    for name in ("identity", "tls", "hpke"):
        (state / "keys" / f"{name}.pem").write_text("private")
        (state / "keys" / f"{name}.pem").chmod(0o600)
    (state / "tls.crt").write_bytes(certificate(begins=timedelta(days=-1), ends=timedelta(days=9)))
    write_board(BOARDS["Raspberry Pi 5"], root)
    board = Board(
        state=state,
        now=NOW.timestamp(),
        root=root,
        machine="aarch64",
        unit=UNIT,
        disk=DISK,
        device=DEVICE,
        profiles=load_profiles(ENVIRONMENT),
        is_quick=True,
    )
    put(board, "proc/swaps", "Filename Type Size Used Priority\n")
    put(board, "proc/meminfo", "MemTotal:        8245632 kB\nMemAvailable:    6000000 kB\n")
    put(board, "proc/vmstat", "pgpgin 1\noom_kill 0\n")
    put(board, "sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
    put(board, "sys/class/thermal/thermal_zone0/type", "cpu-thermal\n")
    put(board, "sys/class/thermal/thermal_zone0/temp", "48312\n")
    put(board, "sys/class/hwmon/hwmon1/in0_lcrit_alarm", "0\n")
    put(board, "sys/devices/mmc/mmcblk0/mmcblk0p2/partition", "2\n")
    put(board, "sys/fs/ext4/mmcblk0p2/errors_count", "0\n")
    blocks = root / "sys/dev/block"
    blocks.mkdir(parents=True)
    (blocks / "179:2").symlink_to(root / "sys/devices/mmc/mmcblk0/mmcblk0p2")
    return board
