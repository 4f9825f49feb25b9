"""Which paths take a device's sealed secrets, and say which there are?"""

from collections.abc import Callable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field
from shoal_wire.errors import Malformed
from shoal_wire.secret import SealedSecret

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.secrets import service
from shoal_fleet.secrets.models import DeviceSecret
from shoal_fleet.times import Clock

SecretName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]


class SealedBody(BaseModel):
    """A secret that was sealed to the device's HPKE key, under the counter that this path told before."""

    model_config = ConfigDict(extra="forbid")

    counter: Annotated[int, Field(ge=1, lt=2**63)]
    sealed: Annotated[str, Field(min_length=1, max_length=2048)]

    def to_secret(self, name: str) -> SealedSecret:
        """The same as the wire has it.

        Raises:
            Malformed: not base64.
        """
        try:
            return msgspec.convert({"name": name, **self.model_dump()}, SealedSecret)
        except msgspec.ValidationError as error:
            raise Malformed(f"secret {name}: {error}") from None


class SecretView(BaseModel):
    """A secret that a device has. Its value is shown to nobody, sealed or not."""

    name: str
    changed_at: float

    @classmethod
    def of(cls, secret: DeviceSecret) -> "SecretView":
        """View of a row."""
        return cls(name=secret.name, changed_at=secret.changed_at)


class SealingView(BaseModel):
    """What it takes to seal the next value of a secret."""

    device: str
    """Id, which the sealed value is bound to."""
    hpke_key: str
    """X25519, base64 of its 32 bytes."""
    counter: int


class SecretRoutes:
    """Handlers. `wake` makes the new desired documents go out."""

    def __init__(self, *, sessions: Sessions, clock: Clock, wake: Callable[[], None]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._wake = wake

    def list_secrets(self, device: str) -> list[SecretView]:
        """The names of a device's secrets."""
        with self._sessions() as session:
            return [SecretView.of(row) for row in service.list_secrets(session, devices.find_device(session, device))]

    def show_sealing(self, device: str, name: SecretName) -> SealingView:
        """To whom, and under which counter, the next value of a secret must be sealed."""
        with self._sessions() as session:
            found = devices.find_device(session, device)
            counter = service.next_counter(session, found, name)
            return SealingView(device=found.id, hpke_key=found.hpke_key, counter=counter)

    def set_secret(self, device: str, name: SecretName, body: SealedBody) -> SecretView:
        """Give a device a secret, which was sealed to it before it came here."""
        with self._sessions() as session:
            row = service.put_secret(session, device, body.to_secret(name), now=self._clock())
        self._wake()
        return SecretView.of(row)

    def remove_secret(self, device: str, name: SecretName) -> list[SecretView]:
        """Take a secret from a device; answers with what is left."""
        with self._sessions() as session:
            service.remove_secret(session, device, name, now=self._clock())
        self._wake()
        return self.list_secrets(device)


def make_router(*, gate: Gate, clock: Clock, wake: Callable[[], None]) -> APIRouter:
    """Routes of `/api/v1/devices/{device}/secrets`. `wake` is called after each commit."""
    routes = SecretRoutes(sessions=gate.sessions, clock=clock, wake=wake)
    router = APIRouter(prefix="/api/v1/devices/{device}/secrets", tags=["secrets"], responses=ERRORS)
    operator = [Depends(gate.operator)]
    router.add_api_route("", routes.list_secrets, methods=["GET"], dependencies=[Depends(gate.viewer)])
    router.add_api_route("/{name}/sealing", routes.show_sealing, methods=["GET"], dependencies=operator)
    router.add_api_route("/{name}", routes.set_secret, methods=["POST"], dependencies=operator)
    router.add_api_route("/{name}/remove", routes.remove_secret, methods=["POST"], dependencies=operator)
    return router
