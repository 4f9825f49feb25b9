"""Which names may stand in certificates and access rules?"""

import msgspec
from shoal_wire.encoding import DeviceId

FLEET_NAME = "shoal-fleet"
"""Certificate CN and broker user of the fleet itself. No device may have it."""


def checked_device_id(device_id: str) -> str:
    """The id, if it may stand in a certificate, an access rule and a topic.

    Raises:
        ValueError: it is the fleet's own name, or not of the agreed form.
    """
    if device_id == FLEET_NAME:
        raise ValueError(f"device id: {FLEET_NAME!r} is the fleet's own name")
    try:
        return msgspec.convert(device_id, DeviceId)
    except msgspec.ValidationError as error:
        raise ValueError(f"device id {device_id!r}: {error}") from None
