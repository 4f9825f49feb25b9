"""What is this machine made of?"""

import json
import os
import platform
import sys
from pathlib import Path

cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
meminfo = Path("/proc/meminfo").read_text(encoding="utf-8")
# "flags" on x86, "Features" on Arm; both call their AES instructions "aes".
features = {
    word
    for line in cpuinfo.splitlines()
    if line.startswith(("flags", "Features"))
    for word in line.partition(":")[2].split()
}
print(
    json.dumps(
        {
            "python": list(sys.version_info[:2]),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "memory_bytes": 1024 * int(meminfo.partition("MemTotal:")[2].split()[0]),
            "has_aes_instructions": "aes" in features,
        }
    )
)
