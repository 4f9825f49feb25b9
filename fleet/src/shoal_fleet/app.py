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
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI
from shoal_wire.encoding import decode_struct
from shoal_wire.errors import Malformed
from sqlalchemy.orm import Session

from shoal_fleet import about, kek_routes
from shoal_fleet.access import routes as access
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.gate import Caller, Gate
from shoal_fleet.access.oidc import Provider
from shoal_fleet.access.passwords import Passwords
from shoal_fleet.access.vouching import LOOK_EVERY_S, Vouching
from shoal_fleet.api import BodyLimit, install_error_answers
from shoal_fleet.audit import routes as audit
from shoal_fleet.audit.checkpoints import AuditKey, Checkpoints
from shoal_fleet.audit.recorder import AuditRecorder, OutcomeRecording
from shoal_fleet.authority_keys import open_authorities
from shoal_fleet.broker.configuration import BrokerPaths, BrokerSettings
from shoal_fleet.broker.eviction import Evictions, issue_briefly
from shoal_fleet.broker.files import write_server, write_start
from shoal_fleet.broker.process import Broker
from shoal_fleet.broker.unit import BrokerUnit
from shoal_fleet.configuration import Configuration
from shoal_fleet.console import login, provider_login
from shoal_fleet.console import routes as console
from shoal_fleet.database import Sessions, make_sessions
from shoal_fleet.delivery import make_delivery
from shoal_fleet.devices import routes as devices
from shoal_fleet.enrolment import routes as enrolment
from shoal_fleet.enrolment.service import Addresses, Terms
from shoal_fleet.errors import BrokenState
from shoal_fleet.exposures import routes as exposures
from shoal_fleet.kek.vault import Vault
from shoal_fleet.labels import routes as labels
from shoal_fleet.listeners import GRACE_S, Listener, TlsFiles, bind_socket, make_devices_context, make_operators_context
from shoal_fleet.messaging.worker import Messaging
from shoal_fleet.metrics import routes as metrics
from shoal_fleet.metrics.server import ServerFacts
from shoal_fleet.pki.authority import Identity, certificate_is_due
from shoal_fleet.pki.files import PUBLIC, write_whole
from shoal_fleet.releases import routes as releases
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.renewal import routes as renewal
from shoal_fleet.renewal import service as renewal_service
from shoal_fleet.revocations import Revocations
from shoal_fleet.rollouts import approvals
from shoal_fleet.rollouts import engine as rollout_engine
from shoal_fleet.rollouts import routes as rollouts
from shoal_fleet.rollouts.takeover import take_over
from shoal_fleet.secrets import routes as secrets
from shoal_fleet.service_manager import keep_watchdog
from shoal_fleet.state import StatePaths, lock_state, open_database, open_keys
from shoal_fleet.telemetry import routes as telemetry
from shoal_fleet.times import Clock
from shoal_fleet.trust import routes as trust
from shoal_fleet.trust import service as trust_service
from shoal_fleet.trust.expiry import ExpiryWatch
from shoal_fleet.tuning import routes as tuning

UPKEEP_S = 60.0
"""How often it is looked for metadata, revocation lists and certificates that are due."""

_RUNNERS: Mapping[str, Callable[[BrokerPaths, str, int], Broker | BrokerUnit]] = {
    "child": lambda paths, address, port: Broker(paths, bind_address=address, port=port),
    "unit": lambda _paths, _address, _port: BrokerUnit(),
}
"""Who runs Mosquitto, by the setting `broker`."""

_log = logging.getLogger(__name__)


async def serve(
    paths: StatePaths,
    configuration: Configuration,
    *,
    vault: Vault,
    clock: Clock,
    announce: Callable[[Addresses], None],
) -> None:
    """Run the fleet until SIGTERM or SIGINT. Must be called from the main thread; `announce` is told where it listens.

    Raises:
        FleetError, PkiError, BrokerError: it can't start; the message says why.
    """
    lock = lock_state(paths)
    engine = open_database(paths)
    try:
        server = Server(paths, configuration, sessions=make_sessions(engine), vault=vault, clock=clock)
        await server.run(announce)
    finally:
        engine.dispose()
        os.close(lock)


class Server:
    """All parts, wired. Making one writes the files that they start from and takes the ports."""

    def __init__(
        self, paths: StatePaths, configuration: Configuration, *, sessions: Sessions, vault: Vault, clock: Clock
    ) -> None:
        self._paths = paths
        self._configuration = configuration
        self._sessions = sessions
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._keys = open_keys(paths, sessions, vault=vault, now=clock())
        self._authorities = open_authorities(paths.authority, sessions, vault=vault, now=clock())
        self._expiry_watch = ExpiryWatch()
        self._client_addresses = ClientAddresses(configuration.trusted_proxies)
        self._vouching: Vouching | None = None
        with sessions() as session:
            trust_service.take_up_keys(session, keys=self._keys)
        self._recorder = AuditRecorder(sessions, clock=clock)
        audit_key = AuditKey.load_or_create(sessions, vault=vault, now=clock())
        self._checkpoints = Checkpoints(sessions, key=audit_key, clock=clock)
        self._store = SealedStore(paths.sealed)
        self._store.open()
        self._revocations = Revocations(
            sessions=sessions,
            clock=clock,
            authorities=self._authorities,
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
            background.append(tasks.create_task(self._evictions.serve()))
            background.append(tasks.create_task(keep_watchdog()))
            background.append(tasks.create_task(self._watch_logins()))
            background.append(tasks.create_task(self._drive_rollouts()))
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
            settings=BrokerSettings(
                bind_address=settings.bind, port=settings.broker_port, is_service=settings.broker == "unit"
            ),
            authority_pem=self._authorities.trusted_pem,
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
        fleet = self._authorities.issue_fleet(now=self._now())
        self._client_files = TlsFiles.write(paths.tls, name="fleet", identity=fleet)
        self._client_context = ssl.create_default_context(cafile=paths.broker.authority)
        self._client_context.load_cert_chain(self._client_files.certificate, self._client_files.key)
        broker_host = self._configuration.broker_address or self._configuration.own_address
        self._messaging = Messaging(
            self._sessions,
            host=broker_host,
            port=self._addresses.broker_port,
            context=self._client_context,
            signer=self._keys.assignment,
            vault=self._keys.vault,
            clock=self._clock,
        )
        self._evictions = Evictions(
            host=broker_host,
            port=self._addresses.broker_port,
            authority=paths.broker.authority,
            issue=issue_briefly(self._authorities, now=self._now),
        )
        self._renewal = renewal.make_router(
            sessions=self._sessions,
            clock=self._clock,
            terms=renewal_service.Terms(
                authorities=self._authorities,
                operators_url=self._addresses.operators_url,
                valid_days=self._configuration.certificate_days,
            ),
            publish_revocations=self._revocations.publish,
        )
        self._operators_context = make_operators_context(self._server_files)
        self._devices_context = make_devices_context(
            self._server_files, authorities=paths.broker.authority, crl=paths.broker.crl
        )
        recorded = OutcomeRecording(self.make_api(), recorder=self._recorder)
        self._operators = Listener(BodyLimit(recorded, unlimited="/api/v1/sealed/"), context=self._operators_context)
        self._devices = Listener(
            make_delivery(sessions=self._sessions, store=self._store, renewal=self._renewal),
            context=self._devices_context,
        )

    def make_api(self) -> FastAPI:
        """Application of the operators' listener."""
        app = FastAPI(title="Shoal fleet", version="1", openapi_url=None, docs_url=None, redoc_url=None)
        install_error_answers(app)
        clock, keys = self._clock, self._keys
        gate = Gate(self._sessions, clock=clock)
        # Sessions end at the caller's reach, except where a feature has no gate or belongs to no project.
        sessions, whole = gate.sessions, self._sessions
        passwords = Passwords()
        for router in (
            about.make_router(
                sessions=whole,
                gate=gate,
                public_keys=lambda: keys.public,
                describe=app.openapi,
                find_trouble=self._find_trouble,
            ),
            devices.make_router(
                sessions=sessions, gate=gate, clock=clock, note_shut_out=self._note_shut_out, wake=self._messaging.wake
            ),
            labels.make_router(sessions=sessions, gate=gate, clock=clock),
            exposures.make_router(sessions=sessions, gate=gate),
            kek_routes.make_router(sessions=whole, gate=gate, paths=self._paths),
            access.make_router(sessions=whole, gate=gate, clock=clock, passwords=passwords),
            enrolment.make_router(
                sessions=whole,
                gate=gate,
                clock=clock,
                terms=self._make_terms(),
                note_replaced=self._note_shut_out,
            ),
            self._renewal,
            trust.make_router(sessions=whole, gate=gate, clock=clock, keys=keys, issuer=self._authorities.fingerprint),
            releases.make_router(
                sessions=sessions,
                gate=gate,
                clock=clock,
                keys=keys,
                issuer=self._authorities.fingerprint,
                store=self._store,
                limit_bytes=self._configuration.max_sealed_bytes,
            ),
            rollouts.make_router(
                sessions=sessions, gate=gate, clock=clock, vault=keys.vault, wake=self._messaging.wake
            ),
            secrets.make_router(gate=gate, clock=clock, wake=self._messaging.wake),
            telemetry.make_router(sessions=sessions, gate=gate, clock=clock),
            audit.make_router(sessions=whole, gate=gate, checkpoints=self._checkpoints),
            tuning.make_router(sessions=sessions, gate=gate),
            self._make_metrics(gate),
            *self._make_pages(gate, passwords=passwords, describe=app.openapi),
        ):
            app.include_router(router)
        return app

    def _make_pages(
        self, gate: Gate, *, passwords: Passwords, describe: Callable[[], dict[str, Any]]
    ) -> list[APIRouter]:
        """What people see in a browser."""
        status = console.make_router(
            sessions=gate.sessions,
            gate=gate,
            clock=self._clock,
            describe=describe,
            find_trouble=self._find_trouble,
            approve=self._approve_rollout,
        )
        coming_in = login.make_router(
            sessions=self._sessions,
            gate=gate,
            clock=self._clock,
            passwords=passwords,
            has_provider=self._configuration.oidc is not None,
            addresses=self._client_addresses,
        )
        return [status, coming_in, *self._make_provider_routers()]

    def _make_terms(self) -> Terms:
        vault = self._keys.vault
        return Terms(
            addresses=self._addresses,
            authority=self._authorities,
            renewed_days=self._configuration.certificate_days,
            take_over=lambda session, old, new, now: take_over(session, old=old, new=new, vault=vault, now=now),
        )

    def _make_metrics(self, gate: Gate) -> APIRouter:
        return metrics.make_router(
            sessions=self._sessions,
            gate=gate,
            clock=self._clock,
            database=self._paths.database,
            look=lambda: ServerFacts(
                is_connected=self._messaging.is_connected,
                load=self._messaging.load,
                warnings=len(self._find_trouble()),
            ),
        )

    def _make_provider_routers(self) -> list[APIRouter]:
        """None without an identity provider."""
        settings = self._configuration.oidc
        if settings is None:
            return []
        redirect_uri = self._addresses.operators_url + provider_login.CALLBACK_PATH
        provider = Provider(settings, redirect_uri=redirect_uri, clock=self._clock)
        self._vouching = Vouching(self._sessions, provider=provider, session_s=settings.session_s, clock=self._clock)
        return [
            provider_login.make_router(
                sessions=self._sessions,
                clock=self._clock,
                provider=provider,
                vouching=self._vouching,
                addresses=self._client_addresses,
            )
        ]

    def _approve_rollout(self, session: Session, rollout_id: int, caller: Caller) -> None:
        approvals.approve(
            session, rollout_id, by=caller.actor, person=caller.person, vault=self._keys.vault, now=self._clock()
        )
        self._messaging.wake()

    async def _watch_logins(self) -> None:
        """Ask the identity provider about those who are logged in by its word, again and again."""
        while self._vouching is not None:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await asyncio.to_thread(self._vouching.look)
            except Exception:
                _log.exception("logins were not looked at; trying again in %.0f s", LOOK_EVERY_S)

    async def _drive_rollouts(self) -> None:
        """Take rollouts in waves as far as they go, again and again."""
        engine = rollout_engine.Engine(self._sessions, vault=self._keys.vault, clock=self._clock)
        while True:
            await asyncio.sleep(rollout_engine.LOOK_EVERY_S)
            try:
                if await asyncio.to_thread(engine.look):
                    self._messaging.wake()
            except Exception:
                _log.exception("rollouts were not looked at; trying again in %.0f s", rollout_engine.LOOK_EVERY_S)

    async def _keep_up(self) -> None:
        """Renew what is due, again and again; what fails is tried again the next time."""
        while True:
            for step in (
                self._renew_metadata,
                self._revocations.renew,
                self._renew_certificates,
                self._checkpoints.renew,
            ):
                try:
                    await asyncio.to_thread(step)
                except Exception:
                    _log.exception("upkeep failed; trying again in %.0f s", UPKEEP_S)
            await asyncio.sleep(UPKEEP_S)

    def _renew_metadata(self) -> None:
        with self._sessions() as session:
            trust_service.renew(session, keys=self._keys, now=self._clock())
            session.rollback()
            self._expiry_watch.look(session, now=self._clock())

    def _renew_certificates(self) -> None:
        if certificate_is_due(self._client_files.certificate.read_bytes(), now=self._now()):
            fleet = self._authorities.issue_fleet(now=self._now())
            self._client_files = TlsFiles.write(self._paths.tls, name="fleet", identity=fleet)
            self._call_soon(self._apply_certificates)
        if certificate_is_due(self._server_files.certificate.read_bytes(), now=self._now()):
            identity = self._issue_server()
            write_server(self._paths.broker, server=identity)
            self._server_files = TlsFiles.write(self._paths.tls, name="server", identity=identity)
            self._call_soon(self._apply_certificates)

    def _issue_server(self) -> Identity:
        return self._authorities.issue_server(self._configuration.certificate_names, now=self._now())

    def _apply_certificates(self) -> None:
        for context in (self._operators_context, self._devices_context):
            context.load_cert_chain(self._server_files.certificate, self._server_files.key)
        self._client_context.load_cert_chain(self._client_files.certificate, self._client_files.key)
        self._broker.reload()

    def _apply_revocations(self) -> None:
        self._devices_context.load_verify_locations(self._paths.broker.crl)
        self._devices.close_connections()
        self._broker.reload()

    def _note_shut_out(self, device_id: str) -> None:
        """A device was shut out: nobody of that name gets in, and its open connection ends in a moment."""
        try:
            self._revocations.publish()
        finally:  # what can't be written now is tried again by the upkeep; the connection ends all the same
            self._evictions.put(device_id)
            self._messaging.wake()

    def _find_trouble(self) -> list[str]:
        found = filter(None, [self._revocations.find_trouble(), self._checkpoints.find_trouble()])
        return [*found, *self._expiry_watch.find_trouble()]

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
