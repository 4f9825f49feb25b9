"""What may an expression about devices name?"""

from collections.abc import Mapping

from shoal_wire.expression.checking import Environment, Field, Kind
from shoal_wire.expression.evaluating import Values

from shoal_fleet.devices.models import Device

DEVICE: Environment = {
    "name": Field(Kind.STRING, "what people call the device"),
    "id": Field(Kind.STRING, "what board and broker know it by"),
    "project": Field(Kind.STRING, "that it is in"),
    "profile": Field(Kind.STRING, "its kind of board, as in device_profiles/"),
    "agent_version": Field(Kind.STRING, "of the agent that it last reported with"),
    "online": Field(Kind.BOOL, "whether the broker has its connection"),
    "held": Field(Kind.BOOL, "whether it gets nothing new, as two boards seem to have its keys"),
    "silent_s": Field(Kind.NUMBER, "seconds since its last signed document came; no value before the first"),
    "enrolled_s": Field(Kind.NUMBER, "seconds since it was enrolled"),
    "labels": Field(Kind.STRING, "what people wrote on it, by key", is_map=True),
    "runs": Field(Kind.NUMBER, "version that it last reported to run, by model", is_map=True),
}


def values_of(device: Device, *, labels: Mapping[str, str], runs: Mapping[str, int], now: float) -> Values:
    """The values of one device; what `sql.py` says of its columns, said of the row."""
    return {
        "name": device.name,
        "id": device.id,
        "project": device.project,
        "profile": device.profile,
        "agent_version": device.agent_version,
        "online": device.is_online,
        "held": device.held_at is not None,
        "silent_s": None if device.last_seen_at is None else now - device.last_seen_at,
        "enrolled_s": now - device.enrolled_at,
        "labels": labels,
        "runs": runs,
    }
