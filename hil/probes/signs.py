"""By what is this board known, which instructions has it, and which files tell of its power and heat?"""

import json
import re
from pathlib import Path


def read(path: str) -> str:
    """The text of a file, empty where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def field(name: str) -> str:
    """What the first processor says under a name."""
    found = re.search(rf"^{name}\s*:[ \t]*(.*)$", read("/proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else ""


classes = Path("/sys/class")
temperatures = [read(str(path)).strip() for path in classes.glob("thermal/thermal_zone*/temp")]
print(
    json.dumps(
        {
            "compatible": [name for name in read("/proc/device-tree/compatible").split("\0") if name],
            "processor": field("model name"),
            "instructions": f"{field('flags')} {field('Features')}".split(),
            "files": [str(path) for folder in ("hwmon", "powercap") for path in classes.glob(f"{folder}/*/*")],
            "celsius": [int(number) / 1000 for number in temperatures if number.lstrip("-").isdigit()],
        }
    )
)
