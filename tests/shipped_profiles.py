"""Where are the device profiles, for tests of an agent that is installed away from the source tree?"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "device_profiles"
ENVIRONMENT = {"SHOAL_PROFILES": str(PROFILES)}
BOARDS_DOCUMENT = ROOT / "docs/boards.md"
