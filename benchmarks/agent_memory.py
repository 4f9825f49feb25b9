"""How much memory does the agent's idle daemon hold? Run by hand: `python benchmarks/agent_memory.py [--json]`.

The real program with keys, certificate and a broker on loopback, connected and with nothing to do. PSS as the kernel
counts it: pages that other processes map too are shared out, so other Python programs on the machine make it smaller.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from shoal_agent.daemon.memory import Memory, read_memory
from shoal_agent.files import DiskFiles
from shoal_agent.keys import make_missing_keys
from shoal_agent.state import AUTHORITY, CERTIFICATE, DEVICE, Device
from shoal_fleet.broker.configuration import BrokerPaths, BrokerSettings
from shoal_fleet.broker.files import write_revocations, write_start
from shoal_fleet.broker.process import Broker
from shoal_fleet.pki.authority import Authority
from shoal_wire.encoding import encode

ADDRESS = "127.0.0.1"
DEVICE_ID = "d-measured"
LIMIT_BYTES = 40_000_000


def main() -> int:
    """Print the measurement; exit code 1 where it is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--settle", type=float, default=10.0, metavar="S", help="seconds before the measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        memory = asyncio.run(_measure(Path(folder), settle_s=options.settle))
    result = {"process": "daemon", "pss_bytes": memory.pss_bytes, "rss_bytes": memory.rss_bytes, "limit": LIMIT_BYTES}
    if options.json:
        print(json.dumps(result))
    else:
        print(f"idle daemon: PSS {memory.pss_bytes / 1e6:.1f} MB, RSS {memory.rss_bytes / 1e6:.1f} MB")
    return int(memory.pss_bytes > LIMIT_BYTES)


async def _measure(folder: Path, *, settle_s: float) -> Memory:
    now = datetime.now(UTC)
    authority = Authority.create(folder / "authority", now=now)
    paths = BrokerPaths(folder / "broker")
    server = authority.issue_server([ADDRESS], now=now)
    settings = BrokerSettings(bind_address=ADDRESS)
    port = write_start(paths, settings=settings, authority_pem=authority.certificate_pem, server=server)
    write_revocations(paths, crl_pem=authority.crl([], now=now, previous_pem=None), revoked=[])
    _enrol(folder / "state", authority=authority, port=port, now=now)
    broker = Broker(paths, bind_address=ADDRESS, port=port)
    await broker.start()
    program = [str(Path(sys.executable).with_name("shoal-agent")), "run", "--state", str(folder / "state")]
    daemon = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        await asyncio.sleep(settle_s)
        memory = read_memory(daemon.pid)
    finally:
        daemon.terminate()
        _, log = await asyncio.to_thread(daemon.communicate)
        await broker.stop()
    if memory is None or "connected" not in log:
        raise SystemExit(f"the daemon didn't connect:\n{log}")
    return memory


def _enrol(state: Path, *, authority: Authority, port: int, now: datetime) -> None:
    """What `shoal-agent enrol` leaves, without a fleet."""
    files = DiskFiles()
    keys = make_missing_keys(files, state)
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(keys.tls, hashes.SHA256())
    certificate = authority.issue_client(csr.public_bytes(Encoding.PEM), device_id=DEVICE_ID, now=now)
    device = Device(
        device=DEVICE_ID,
        name="measured",
        profile="generic",
        broker_host=ADDRESS,
        broker_port=port,
        devices_url=f"https://{ADDRESS}",
        token_sha256="0" * 64,
    )
    files.write(state / AUTHORITY, authority.certificate_pem)
    files.write(state / CERTIFICATE, certificate)
    files.write(state / DEVICE, encode(device))


if __name__ == "__main__":
    sys.exit(main())
