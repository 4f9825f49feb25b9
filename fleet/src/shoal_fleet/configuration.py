"""How is the server configured?

One file, `fleet.toml` in the state folder, and `SHOAL_<FIELD>` in the environment, which wins; options of the command
line win over both. Unknown keys are refused, and all errors come at once.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from shoal_wire.errors import Malformed
from shoal_wire.toml import read_toml

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.pki.certificates import RENEWED_DAYS

Port = Annotated[int, Meta(ge=0, le=65535)]
ProvidedRole = Annotated[str, Meta(pattern=r"^(viewer|operator|releaser|admin)@(\*|[a-z0-9][a-z0-9-]{0,62})$")]
HostName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9:.-]{1,253}$")]

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (how this machine reaches its own listeners)


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An identity provider that people may log in at (OpenID Connect)."""

    issuer: Annotated[str, Meta(pattern=r"^https://[^\s?#]+$", max_length=300)]
    """Its address, as its ID tokens name it."""
    client_id: Annotated[str, Meta(min_length=1, max_length=200)]
    """What the provider calls this fleet."""
    client_secret_file: str = ""
    """File with the secret that goes with it; empty for a client without one."""
    ca_file: str = ""
    """Certificate authority of the provider in PEM; empty for those of the system."""
    name_claim: str = "preferred_username"
    """Claim of the ID token that is the user's name."""
    groups_claim: str = "groups"
    """Claim of the ID token that lists the user's groups."""
    scope: Annotated[str, Meta(pattern=r"^openid( [!-~]+)*$", max_length=300)] = "openid profile email"
    """What is asked for. Some providers give a refresh token only with `offline_access` in it."""
    session_s: Annotated[int, Meta(ge=60, le=43200)] = 3600
    """How long a login lasts without the provider's word. With a refresh token it is asked every 15 minutes at most."""
    roles: dict[str, tuple[ProvidedRole, ...]]
    """By group, what its members may do where: `operator@yard`, or `admin@*` for every project."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the server. A port of 0 becomes any free one, which is then kept."""

    bind: str = "127.0.0.1"
    """IP address on which all listeners are."""
    port: Port = 8443
    """Operators, enrolment and console."""
    devices_port: Port = 8444
    """Sealed files and signed metadata, for devices with their certificate."""
    broker_port: Port = 8883
    """MQTT."""
    broker: Literal["child", "unit"] = "child"
    """Who runs Mosquitto: the fleet, as a child that ends with it, or a service of its own."""
    broker_address: Annotated[str, Meta(pattern=r"^[A-Za-z0-9:.-]{0,253}$")] = ""
    """Name or address under which the server itself reaches a broker that is a service of its own elsewhere, and which
    its certificate gets; empty: this machine's."""
    host: HostName = "127.0.0.1"
    """Name or address under which boards and operators reach this machine. Enrolled boards keep it."""
    names: Annotated[tuple[HostName, ...], Meta(max_length=32)] = ()
    """Further names that the server's certificate should have, beside `host`, 127.0.0.1 and localhost."""
    certificate_days: Annotated[int, Meta(ge=1, le=730)] = RENEWED_DAYS
    """How long a device's certificate lasts whose agent renews it, which it does after two thirds of that."""
    trusted_proxies: Annotated[tuple[str, ...], Meta(max_length=64)] = ()
    """Addresses or networks (`10.0.0.0/8`) of proxies before the operators' listener: their X-Forwarded-For counts."""
    max_sealed_bytes: Annotated[int, Meta(ge=1)] = 16 << 30
    """Largest sealed file that may be uploaded."""
    kek: Annotated[str, Meta(max_length=2000)] = ""
    """URI of the key-encryption key (`kek/schemes.py`); empty: the one that the database names, at first a key file."""

    oidc: OidcSettings | None = None
    """Identity provider; without one people have passwords here."""

    @property
    def own_address(self) -> str:
        """Address at which this machine reaches its own listeners."""
        return _ANYWHERE.get(self.bind, self.bind)

    @property
    def certificate_names(self) -> tuple[str, ...]:
        """All names of the server's certificate."""
        names = (self.host, "127.0.0.1", "localhost", *self.names, self.broker_address)
        return tuple(dict.fromkeys(name for name in names if name))


def load_configuration(file: Path, *, environment: Mapping[str, str], options: Mapping[str, Any]) -> Configuration:
    """Read the file, where there is one, then what overrides it.

    Args:
        options: by field; None where an option wasn't given.

    Raises:
        BadConfiguration: names every fault.
    """
    try:
        values = read_toml(file.read_bytes(), what=str(file))
    except FileNotFoundError:
        values = {}
    except Malformed as error:
        raise BadConfiguration(str(error)) from None
    faults = [f"{file}: unknown key {key!r}" for key in values if key not in _FIELDS]
    given: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        for source, value in _sources(name, file=file, values=values, environment=environment, options=options):
            try:
                # Text from the environment is read leniently, everything else as it is.
                given[name] = msgspec.convert(value, field.type, strict=not source.startswith("SHOAL_"))
            except msgspec.ValidationError as error:
                faults.append(f"{source}: {error}")
    if "bind" in given and not _is_address(given["bind"]):
        faults.append(f"bind: expected an IP address, found {given['bind']!r}")
    faults += [
        f"trusted_proxies: expected an IP address or a network, found {one!r}"
        for one in given.get("trusted_proxies", ())
        if not _is_network(one)
    ]
    if faults:
        raise BadConfiguration("\n".join(faults))
    return Configuration(**given)


def _sources(
    name: str, *, file: Path, values: Mapping[str, Any], environment: Mapping[str, str], options: Mapping[str, Any]
) -> list[tuple[str, Any]]:
    """Where a field is given and as what, weakest first."""
    found: list[tuple[str, Any]] = []
    if name in values:
        found.append((f"{file}: {name}", values[name]))
    variable = f"SHOAL_{name.upper()}"
    if variable in environment:
        text = environment[variable]
        found.append((variable, [part.strip() for part in text.split(",")] if name in _LISTS else text))
    if options.get(name) is not None:
        found.append((f"--{name.replace('_', '-')}", options[name]))
    return found


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


_LISTS = ("names", "trusted_proxies")
"""Fields whose parts are separated by commas in the environment."""

_FIELDS = {field.name: field for field in msgspec.structs.fields(Configuration)}
