"""How do the parts of the fleet become one program?

The only place where they are put together: everything long-lived is made here and handed to those who need it.
"""

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from fastapi import FastAPI
from shoal_wire.encoding import decode_struct
from shoal_wire.errors import Malformed

from shoal_fleet import about
from shoal_fleet.access.gate import Gate
from shoal_fleet.api import BodyLimit, install_error_answers
from shoal_fleet.broker.configuration import BrokerPaths, BrokerSettings
from shoal_fleet.broker.files import write_server, write_start
from shoal_fleet.broker.process import Broker
from shoal_fleet.broker.unit import BrokerUnit
from shoal_fleet.configuration import Configuration
from shoal_fleet.console import routes as console
from shoal_fleet.database import Sessions, make_sessions
from shoal_fleet.delivery import make_delivery
from shoal_fleet.devices import routes as devices
from shoal_fleet.enrolment import routes as enrolment
from shoal_fleet.enrolment.service import Addresses
from shoal_fleet.errors import BrokenState
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.listeners import GRACE_S, Listener, TlsFiles, bind_socket, make_devices_context, make_operators_context
from shoal_fleet.messaging.worker import Messaging
from shoal_fleet.pki.authority import Authority, Identity, certificate_is_due
from shoal_fleet.pki.files import PUBLIC, write_whole
from shoal_fleet.releases import routes as releases
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.revocations import Revocations
from shoal_fleet.rollouts import routes as rollouts
from shoal_fleet.state import StatePaths, lock_state, open_database
from shoal_fleet.telemetry import routes as telemetry
from shoal_fleet.times import Clock
from shoal_fleet.trust import routes as trust
from shoal_fleet.trust import service as trust_service
from shoal_fleet.tuning import routes as tuning

UPKEEP_S = 60.0
"""How often it is looked for metadata, revocation lists and certificates that are due."""

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (how this machine reaches its own listeners)

_RUNNERS: Mapping[str, Callable[[BrokerPaths, str, int], Broker | BrokerUnit]] = {
    "child": lambda paths, address, port: Broker(paths, bind_address=address, port=port),
    "unit": lambda _paths, _address, _port: BrokerUnit(),
}
"""Who runs Mosquitto, by the setting `broker`."""

_log = logging.getLogger(__name__)


async def serve(
    paths: StatePaths, configuration: Configuration, *, clock: Clock, announce: Callable[[Addresses], None]
) -> None:
    """Run the fleet until SIGTERM or SIGINT. Must be called from the main thread; `announce` is told where it listens.

    Raises:
        FleetError, PkiError, BrokerError: it can't start; the message says why.
    """
    lock = lock_state(paths)
    engine = open_database(paths)
    try:
        server = Server(paths, configuration, sessions=make_sessions(engine), clock=clock)
        await server.run(announce)
    finally:
        engine.dispose()
        os.close(lock)


class Server:
    """All parts, wired. Making one writes the files that they start from and takes the ports."""

    def __init__(self, paths: StatePaths, configuration: Configuration, *, sessions: Sessions, clock: Clock) -> None:
        self._paths = paths
        self._configuration = configuration
        self._sessions = sessions
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._keys = OnlineKeys.load_or_create(paths.keys)
        self._authority = Authority.load(paths.authority)
        with sessions() as session:
            trust_service.check_keys(session, keys=self._keys)
        self._store = SealedStore(paths.sealed)
        self._store.open()
        self._revocations = Revocations(
            sessions=sessions,
            clock=clock,
            authority=self._authority,
            paths=paths.broker,
            apply=lambda: self._call_soon(self._apply_revocations),
        )
        identity = self._issue_server()
        self._open_ports(identity)
        self._revocations.write()
        self._open_listeners(identity)

    async def run(self, announce: Callable[[Addresses], None]) -> None:
        """Serve until a signal comes; everything is stopped when this returns."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, stop.set)
        async with self._broker, asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._broker.supervise()), tasks.create_task(self._keep_up())]
            async with self._messaging:
                serving = [
                    tasks.create_task(self._operators.serve(sockets=[self._operators_socket])),
                    tasks.create_task(self._devices.serve(sockets=[self._devices_socket])),
                ]
                announce(self._addresses)
                await stop.wait()
                self._operators.end()
                self._devices.end()
                await asyncio.wait(serving, timeout=GRACE_S)
            for task in (*serving, *background):
                task.cancel()

    def _open_ports(self, identity: Identity) -> None:
        """Take the ports of all three listeners and write down where they are."""
        settings, paths = self._configuration, self._paths
        last = _last_addresses(paths.addresses)
        self._operators_socket = bind_socket(
            settings.bind,
            port=settings.port,
            last_port=_port_of(last.operators_url) if last else None,
            what="operators' listener",
        )
        self._devices_socket = bind_socket(
            settings.bind,
            port=settings.devices_port,
            last_port=_port_of(last.devices_url) if last else None,
            what="devices' listener",
        )
        broker_port = write_start(
            paths.broker,
            settings=BrokerSettings(bind_address=settings.bind, port=settings.broker_port),
            authority_pem=self._authority.certificate_pem,
            server=identity,
        )
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._addresses = Addresses(
            operators_url=f"https://{host}:{self._operators_socket.getsockname()[1]}",
            devices_url=f"https://{host}:{self._devices_socket.getsockname()[1]}",
            broker_host=settings.host,
            broker_port=broker_port,
        )
        write_whole(paths.addresses, msgspec.json.encode(self._addresses), mode=PUBLIC)
        self._broker = _RUNNERS[settings.broker](paths.broker, settings.bind, broker_port)

    def _open_listeners(self, identity: Identity) -> None:
        """Make the two applications and the connection to the broker."""
        paths = self._paths
        self._server_files = TlsFiles.write(paths.tls, name="server", identity=identity)
        fleet = self._authority.issue_fleet(now=self._now())
        self._client_files = TlsFiles.write(paths.tls, name="fleet", identity=fleet)
        self._client_context = ssl.create_default_context(cafile=paths.authority_certificate)
        self._client_context.load_cert_chain(self._client_files.certificate, self._client_files.key)
        bind = self._configuration.bind
        self._messaging = Messaging(
            self._sessions,
            host=_ANYWHERE.get(bind, bind),
            port=self._addresses.broker_port,
            context=self._client_context,
            signer=self._keys.assignment,
            fleet_key=self._keys.hpke,
            clock=self._clock,
        )
        self._operators_context = make_operators_context(self._server_files)
        self._devices_context = make_devices_context(
            self._server_files, authority=paths.authority_certificate, crl=paths.broker.crl
        )
        self._operators = Listener(
            BodyLimit(self._make_api(), unlimited="/api/v1/sealed/"), context=self._operators_context
        )
        self._devices = Listener(
            make_delivery(sessions=self._sessions, store=self._store), context=self._devices_context
        )

    def _make_api(self) -> FastAPI:
        """Application of the operators' listener."""
        app = FastAPI(title="Shoal fleet", version="1", openapi_url=None, docs_url=None, redoc_url=None)
        install_error_answers(app)
        sessions, clock, keys = self._sessions, self._clock, self._keys
        gate = Gate(sessions, clock=clock)
        addresses, authority = self._addresses, self._authority
        for router in (
            about.make_router(sessions=sessions, gate=gate, public_keys=keys.public, describe=app.openapi),
            devices.make_router(
                sessions=sessions, gate=gate, clock=clock, publish_revocations=self._revocations.publish
            ),
            enrolment.make_router(sessions=sessions, gate=gate, clock=clock, authority=authority, addresses=addresses),
            trust.make_router(sessions=sessions, gate=gate, clock=clock, keys=keys),
            releases.make_router(
                sessions=sessions,
                gate=gate,
                clock=clock,
                keys=keys,
                store=self._store,
                limit_bytes=self._configuration.max_sealed_bytes,
            ),
            rollouts.make_router(
                sessions=sessions, gate=gate, clock=clock, fleet_key=keys.hpke, wake=self._messaging.wake
            ),
            telemetry.make_router(sessions=sessions, gate=gate, clock=clock),
            tuning.make_router(sessions=sessions, gate=gate),
            console.make_router(sessions=sessions, gate=gate, clock=clock, describe=app.openapi),
        ):
            app.include_router(router)
        return app

    async def _keep_up(self) -> None:
        """Renew what is due, again and again; what fails is tried again the next time."""
        while True:
            for step in (self._renew_metadata, self._revocations.renew, self._renew_certificates):
                try:
                    await asyncio.to_thread(step)
                except Exception:
                    _log.exception("upkeep failed; trying again in %.0f s", UPKEEP_S)
            await asyncio.sleep(UPKEEP_S)

    def _renew_metadata(self) -> None:
        with self._sessions() as session:
            trust_service.renew(session, keys=self._keys, now=self._clock())

    def _renew_certificates(self) -> None:
        if certificate_is_due(self._client_files.certificate.read_bytes(), now=self._now()):
            fleet = self._authority.issue_fleet(now=self._now())
            self._client_files = TlsFiles.write(self._paths.tls, name="fleet", identity=fleet)
            self._call_soon(self._apply_certificates)
        if certificate_is_due(self._server_files.certificate.read_bytes(), now=self._now()):
            identity = self._issue_server()
            write_server(self._paths.broker, server=identity)
            self._server_files = TlsFiles.write(self._paths.tls, name="server", identity=identity)
            self._call_soon(self._apply_certificates)

    def _issue_server(self) -> Identity:
        return self._authority.issue_server(self._configuration.certificate_names, now=self._now())

    def _apply_certificates(self) -> None:
        for context in (self._operators_context, self._devices_context):
            context.load_cert_chain(self._server_files.certificate, self._server_files.key)
        self._client_context.load_cert_chain(self._client_files.certificate, self._client_files.key)
        self._broker.reload()

    def _apply_revocations(self) -> None:
        self._devices_context.load_verify_locations(self._paths.broker.crl)
        self._devices.close_connections()
        self._broker.reload()

    def _call_soon(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _last_addresses(path: Path) -> Addresses | None:
    try:
        return decode_struct(path.read_bytes(), Addresses, what=str(path))
    except FileNotFoundError:
        return None
    except Malformed as error:
        raise BrokenState(f"{error}; remove it, and give the ports that devices know as options") from None


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])
