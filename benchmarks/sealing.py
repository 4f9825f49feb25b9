"""How fast are sealed files opened, in how much memory, and how many grants are made in a second?

- cipher: chunks of a sealed file opened in memory (`unseal`, and `unseal_views`, which a front uses), against one-shot
  AES-256-GCM of the same library over the same bytes in the same pieces of 1 MiB, in turns. The goal is 0.8.
- openssl: the system's own `openssl speed` at that size, which is another build of OpenSSL
- file: a sealed file of `--file-mib` from disk into a memfd, as a front loads a model, and a plain one sealed, as a
  publisher does; and by how much the peak of a fresh process grew, with the file's size
- grants: made and opened in a second by each suite, with the bytes of one in a desired document

Speeds are by processor time, as other programs on the machine would count otherwise.

Run by hand: `python -m benchmarks.sealing [--file-mib 1024] [--turns 5] [--json]`
"""

import argparse
import json
import os
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from shoal_wire import sealed_file
from shoal_wire.encoding import encode
from shoal_wire.grant import GrantContext, RecipientKeys, make_grant, open_grant
from shoal_wire.hybrid_key import HybridPrivateKey
from shoal_worker.memory import seal_chunks

MIB = 1 << 20
CHUNKS = 64
KEY = bytes(range(32))
TURN_S = 0.4


def measure_cipher(*, turns: int) -> dict[str, Any]:
    """GB/s of each way, the median of its turns, and the ratios of the turns."""
    parts = list(sealed_file.seal(secrets.token_bytes(CHUNKS * MIB), KEY))
    cipher, nonce = AESGCM(KEY), bytes(12)
    pieces = [cipher.encrypt(nonce, secrets.token_bytes(MIB), parts[0]) for _ in range(CHUNKS)]
    ways: dict[str, Callable[[], None]] = {
        "one_shot": lambda: _drain(cipher.decrypt(nonce, piece, parts[0]) for piece in pieces),
        "unseal": lambda: _drain(sealed_file.unseal(parts, KEY)),
        "unseal_views": lambda: _drain(sealed_file.unseal_views(parts, KEY)),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            speeds[name].append(CHUNKS * MIB * _times_a_second(way) / 1e9)
    found: dict[str, Any] = {f"{name}_gb_s": statistics.median(rates) for name, rates in speeds.items()}
    for name in ("unseal", "unseal_views"):
        ratios = [rate / base for rate, base in zip(speeds[name], speeds["one_shot"], strict=True)]
        found[f"{name}_ratio"] = {"median": statistics.median(ratios), "all": ratios}
    return found


def measure_openssl() -> dict[str, Any]:
    """What the system's OpenSSL says of itself, decrypting."""
    if shutil.which("openssl") is None:
        return {"openssl": "not installed"}
    command = ["openssl", "speed", "-decrypt", "-seconds", "2", "-bytes", str(MIB), "-evp", "aes-256-gcm"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    version = re.search(r"version: (\S+)", said)
    speed = re.search(r"^AES-256-GCM\s+([\d.]+)k", said, re.MULTILINE)
    return {
        "version": version and version[1],
        "gb_s": float(speed[1]) * 1000 / 1e9 if speed else None,
    }


def measure_file(mib: int) -> list[dict[str, Any]]:
    """A fresh process for each size and way, as a peak can't be taken back."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sorted({16, mib}):
            for way in ("seal", "unseal"):
                arguments = ["--child", way, "--file-mib", str(size), "--folder", folder]
                done = subprocess.run(
                    [sys.executable, "-m", "benchmarks.sealing", *arguments], capture_output=True, text=True, check=True
                )
                rows.append({"way": way, "mib": size, **json.loads(done.stdout)})
    return rows


def run_child(way: str, *, folder: Path, mib: int) -> dict[str, float]:
    """Seal or unseal one file."""
    plain, sealed = folder / f"{mib}.plain", folder / f"{mib}.sealed"
    if way == "seal":
        with plain.open("wb") as file:
            for _ in range(mib):
                file.write(secrets.token_bytes(MIB))
    before, began = _peak_bytes(), time.process_time()
    if way == "seal":
        with plain.open("rb") as source, sealed.open("wb") as target:
            for part in sealed_file.seal_stream(source.read, KEY, plaintext_bytes=mib * MIB):
                target.write(part)
    else:
        with sealed.open("rb", buffering=0) as raw:
            os.close(seal_chunks(sealed_file.unseal_views(sealed_file.read_parts(raw.read), KEY)))
    return {
        "peak_grew_mib": (_peak_bytes() - before) / MIB,
        "gb_s": mib * MIB / (time.process_time() - began) / 1e9,
    }


def measure_grants() -> list[dict[str, Any]]:
    """Both suites."""
    x25519, hybrid = X25519PrivateKey.generate(), HybridPrivateKey.generate()
    keys, context = RecipientKeys(x25519, hybrid), GrantContext("note-events", 2, "d-k3v7qmx2")
    rows = []
    for public in (x25519.public_key(), hybrid.public_key()):
        grant = make_grant(KEY, public, context=context, ciphertext_sha256="ab" * 32, counter=1)

        def make(public: Any = public) -> None:
            make_grant(KEY, public, context=context, ciphertext_sha256="ab" * 32, counter=1)

        def open_it(grant: Any = grant) -> None:
            open_grant(grant, keys, context=context)

        rows.append(
            {
                "suite": grant.suite,
                "made_a_second": _times_a_second(make),
                "opened_a_second": _times_a_second(open_it),
                "json_bytes": len(encode(grant)),
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file-mib", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", choices=["seal", "unseal"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(run_child(arguments.child, folder=arguments.folder, mib=arguments.file_mib)))
        return
    found = {
        "cipher": measure_cipher(turns=arguments.turns),
        "openssl": measure_openssl(),
        "file": measure_file(arguments.file_mib),
        "grants": measure_grants(),
    }
    print(json.dumps(found) if arguments.json else json.dumps(found, indent=2))


def _drain(chunks: Iterator[object]) -> None:
    for _ in chunks:
        pass


def _times_a_second(act: Callable[[], None]) -> float:
    act()
    began, times = time.process_time(), 0
    while (spent := time.process_time() - began) < TURN_S:
        act()
        times += 1
    return times / spent


def _peak_bytes() -> int:
    """Peak of this process's memory; getrusage's would be that of the process that started it, where that was more."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()
