"""Does a real broker with our files keep clients apart, keep what it was given, and end with the fleet?"""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from shoal_fleet.broker.configuration import BrokerSettings
from shoal_fleet.broker.errors import BrokerFailed
from shoal_fleet.broker.files import write_revocations, write_server, write_start
from shoal_fleet.broker.process import Broker
from shoal_fleet.pki.authority import Authority, Identity, read_certificate
from shoal_fleet.pki.certificates import CLIENT_DAYS

from tests.system.fleet.broker_site import ADDRESS, DEADLINE_S, Site, open_site, wait_until

REFUSED = "Not authorized"
ACCEPTED = {"Success", "No matching subscribers"}


def test_device_publishes_only_under_its_own_up(site: Site) -> None:
    device = site.connect(site.device("board-0001"))
    assert device.publish("shoal/v1/board-0001/up/reported", retain=True) in ACCEPTED
    assert device.publish("shoal/v1/board-0001/up/a/b/c") in ACCEPTED
    for topic in (
        "shoal/v1/board-0001/down/desired",
        "shoal/v1/board-0002/up/reported",
        "shoal/v1/board-0001x/up/reported",
        "shoal/v2/board-0001/up/reported",
        "board-0001",
    ):
        assert device.publish(topic) == REFUSED, topic


@pytest.mark.parametrize("wish", ["#", "+/+/+/#", "shoal/v1/+/down/#", "shoal/v1/board-0002/#"])
def test_device_never_hears_what_is_for_another(site: Site, wish: str) -> None:
    spy = site.connect(site.device("board-0001"))
    other = site.connect(site.device("board-0002"))
    fleet = site.connect_fleet()
    other.subscribe("shoal/v1/board-0002/down/#")
    spy.subscribe(wish)
    spy.subscribe("shoal/v1/board-0001/down/last")
    assert fleet.publish("shoal/v1/board-0002/down/desired", payload=b"for 2", retain=True) in ACCEPTED
    assert other.publish("shoal/v1/board-0002/up/reported", retain=True) in ACCEPTED
    assert fleet.publish("shoal/v1/board-0001/down/last", payload=b"for 1") in ACCEPTED
    assert other.receive() == ("shoal/v1/board-0002/down/desired", b"for 2")
    assert spy.receive() == ("shoal/v1/board-0001/down/last", b"for 1")
    spy.subscribe(wish)
    assert {topic for topic, _ in list(spy.messages.queue)} <= {"shoal/v1/board-0001/down/last"}


def test_fleet_hears_every_device(site: Site) -> None:
    fleet = site.connect_fleet()
    fleet.subscribe("shoal/v1/+/up/#")
    for name in ("board-0001", "board-0002"):
        assert site.connect(site.device(name)).publish(f"shoal/v1/{name}/up/events", payload=name.encode()) == "Success"
        assert fleet.receive() == (f"shoal/v1/{name}/up/events", name.encode())


def test_device_cannot_push_another_out_by_taking_its_client_id(site: Site) -> None:
    victim = site.connect(site.device("board-0001"), client_id="board-0001")
    thief = site.connect(site.device("board-0002"), client_id="board-0001")
    assert thief.publish("shoal/v1/board-0002/up/x") in ACCEPTED
    assert victim.publish("shoal/v1/board-0001/up/x") in ACCEPTED
    assert not victim.disconnected.is_set()


def test_packet_that_is_too_long_costs_only_its_sender(site: Site) -> None:
    greedy, other = (site.connect(site.device(name)) for name in ("board-0001", "board-0002"))
    assert greedy.publish("shoal/v1/board-0001/up/x", payload=bytes(256 * 1024)) in ACCEPTED
    greedy.send("shoal/v1/board-0001/up/x", payload=bytes(300 * 1024))
    assert greedy.disconnected.wait(DEADLINE_S)
    assert other.publish("shoal/v1/board-0002/up/x") in ACCEPTED


def nobody(site: Site) -> Identity | None:
    return None


def foreign(site: Site) -> Identity:
    other = Authority.create(site.folder / "foreign", now=site.now)
    return site.device("board-0001", authority=other)


def expired(site: Site) -> Identity:
    return site.device("board-0001", issued=site.now - timedelta(days=CLIENT_DAYS + 1))


def server(site: Site) -> Identity:
    return site.authority.issue_server([ADDRESS], now=site.now)


@pytest.mark.parametrize("make", [nobody, foreign, expired, server])
def test_refuses_whoever_has_no_good_client_certificate(site: Site, make: Callable[[Site], Identity | None]) -> None:
    assert site.lets_in(site.device("board-0001"))
    assert not site.lets_in(make(site))
    assert site.lets_in(site.device("board-0001"))


def test_refuses_tls_1_2(site: Site) -> None:
    context = site.context(site.device("board-0001"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        handshake(site, context, session=None)
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    handshake(site, context, session=None)


def test_client_without_tls_is_cut_off(site: Site) -> None:
    with socket.create_connection((ADDRESS, site.port), timeout=DEADLINE_S) as plain:
        plain.sendall(CONNECT)
        try:
            answer = plain.recv(100)
        except ConnectionResetError:
            return
        assert answer[:1] in (b"", b"\x15")  # the end, or a TLS alert (RFC 8446, 5.1); never a CONNACK


def test_revoked_certificate_is_refused_after_a_reload(site: Site) -> None:
    bad, good = site.device("board-0001"), site.device("board-0002")
    assert site.lets_in(bad)
    site.revoke(serials=[read_certificate(bad.certificate_pem).serial], names=[])
    wait_until(lambda: not site.lets_in(bad), what="the revoked device is refused")
    assert site.lets_in(good)


def test_device_with_a_new_certificate_is_let_in_though_its_old_one_is_revoked(site: Site) -> None:
    old, new = site.device("board-0001"), site.device("board-0001")
    site.revoke(serials=[read_certificate(old.certificate_pem).serial], names=[])
    wait_until(lambda: not site.lets_in(old), what="the old certificate is refused")
    assert site.lets_in(new)


def revoke_and_wait(site: Site, identity: Identity, *, name: str) -> None:
    """Revoke a device whose connection is to stay open: another one, revoked with it, shows when that counts.

    The device itself can't show it, as a second connection under its name would end the first.
    """
    witness = site.device("board-0099")
    serials = [read_certificate(one.certificate_pem).serial for one in (identity, witness)]
    site.revoke(serials=serials, names=[name])
    wait_until(lambda: not site.lets_in(witness), what="the reload")


def test_open_connection_of_a_revoked_device_is_mute_and_deaf_after_a_reload(site: Site) -> None:
    fleet = site.connect_fleet()
    fleet.subscribe("shoal/v1/+/up/#")
    identity = site.device("board-0001")
    device, other = site.connect(identity), site.connect(site.device("board-0002"))
    device.subscribe("shoal/v1/board-0001/down/#")
    assert device.publish("shoal/v1/board-0001/up/x", payload=b"before") == "Success"
    fleet.publish("shoal/v1/board-0001/down/x", payload=b"before")
    assert device.receive() == ("shoal/v1/board-0001/down/x", b"before")

    revoke_and_wait(site, identity, name="board-0001")
    assert device.publish("shoal/v1/board-0001/up/x", payload=b"after") == REFUSED
    fleet.publish("shoal/v1/board-0001/down/x", payload=b"after")
    device.subscribe("shoal/v1/board-0001/down/again")
    assert device.messages.empty()
    assert other.publish("shoal/v1/board-0002/up/x", payload=b"other") == "Success"
    assert [fleet.receive()[1], fleet.receive()[1]] == [b"before", b"other"]


def test_rules_alone_silence_a_device_that_reconnects(site: Site) -> None:
    identity = site.device("board-0001")
    site.revoke(serials=[], names=["board-0001"])
    wait_until(lambda: site.connect(identity).publish("shoal/v1/board-0001/up/x") == REFUSED, what="the rules are read")


def test_last_will_of_a_revoked_device_is_not_heard(site: Site) -> None:
    fleet = site.connect_fleet()
    fleet.subscribe("shoal/v1/+/up/#")
    identities = {name: site.device(name) for name in ("board-0001", "board-0002")}
    devices = [site.connect(identity, will=f"shoal/v1/{name}/up/gone") for name, identity in identities.items()]
    revoke_and_wait(site, identities["board-0001"], name="board-0001")
    for device in devices:
        device.drop()
    assert fleet.receive()[0] == "shoal/v1/board-0002/up/gone"
    fleet.subscribe("shoal/v1/+/up/#")
    assert fleet.messages.empty()


def test_session_taken_up_again_does_not_pass_revocation(site: Site) -> None:
    identity = site.device("board-0001")
    context = site.context(identity)
    session, _ = handshake(site, context, session=None)
    session, was_taken_up = handshake(site, context, session=session)
    assert was_taken_up, "the broker gives sessions; else this test shows nothing"
    site.revoke(serials=[read_certificate(identity.certificate_pem).serial], names=[])
    wait_until(lambda: not site.lets_in(identity), what="the revoked device is refused")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(site, context, session=session)


def test_expired_list_shuts_everyone_out_until_it_is_renewed(tmp_path: Path) -> None:
    with open_site(tmp_path, crl_age=timedelta(days=31)) as site:
        site.runner.run(site.broker.start())
        device = site.device("board-0001")
        assert not site.lets_in(device)
        assert not site.lets_in(site.authority.issue_fleet(now=site.now))
        site.revoke(serials=[], names=[])
        wait_until(lambda: site.lets_in(device), what="the renewed list lets devices in")


def test_reload_takes_a_new_server_certificate_and_keeps_connections(site: Site) -> None:
    device = site.connect(site.device("board-0001"))
    renewed = site.authority.issue_server([ADDRESS], now=site.now)
    write_server(site.paths, server=renewed)
    site.broker.reload()
    wanted = ssl.PEM_cert_to_DER_cert(renewed.certificate_pem.decode())
    wait_until(lambda: served_certificate(site) == wanted, what="the new certificate is served")
    assert device.publish("shoal/v1/board-0001/up/x") in ACCEPTED
    assert not device.disconnected.is_set()


def test_reload_of_a_broker_that_is_not_up_is_made_good(stopped_site: Site) -> None:
    stopped_site.broker.reload()
    stopped_site.runner.run(stopped_site.broker.start())
    assert stopped_site.lets_in(stopped_site.device("board-0001"))


def test_long_log_makes_room_at_reload(site: Site) -> None:
    with site.paths.log.open("ab") as log:
        log.truncate(11 << 20)
    site.broker.reload()
    wait_until(lambda: site.paths.log.exists(), what="a new log is begun")
    assert site.lets_in(site.device("board-0001"))
    wait_until(lambda: "board-0001" in site.paths.log.read_text(), what="the new log is written")
    assert site.paths.log.with_suffix(".log.1").stat().st_size > 10 << 20


def test_retained_and_queued_messages_survive_a_kill_and_it_is_started_again(site: Site) -> None:
    identity = site.device("board-0001")
    away = site.connect(identity, keeps_session=True)
    away.subscribe("shoal/v1/board-0001/down/+")
    away.close()
    fleet = site.connect_fleet()
    fleet.publish("shoal/v1/board-0001/down/desired", payload=b"generation 7", retain=True)
    fleet.publish("shoal/v1/board-0001/down/ack", payload=b"queued")
    # An answer comes before the save, the next answer after it.
    fleet.subscribe("shoal/v1/+/up/#")
    assert (site.paths.state / "mosquitto.db").stat().st_uid == os.geteuid()

    site.runner.run(kill_and_wait_for_the_next(site.broker))
    site.runner.run(site.broker.start())
    back = site.connect(identity, keeps_session=True)
    assert {back.receive(), back.receive()} == {
        ("shoal/v1/board-0001/down/desired", b"generation 7"),
        ("shoal/v1/board-0001/down/ack", b"queued"),
    }
    new = site.connect(site.device("board-0001"))
    new.subscribe("shoal/v1/board-0001/down/#")
    assert new.receive() == ("shoal/v1/board-0001/down/desired", b"generation 7")


async def kill_and_wait_for_the_next(broker: Broker) -> None:
    """Kill it under supervision, see another come up, cancel supervision, see that it is gone."""
    first = broker.pid
    assert first is not None
    supervision = asyncio.create_task(broker.supervise())
    os.kill(first, signal.SIGKILL)
    async with asyncio.timeout(DEADLINE_S):
        while not broker.is_up or broker.pid == first:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0.02)
    second = broker.pid
    assert second is not None
    supervision.cancel()
    with pytest.raises(asyncio.CancelledError):
        await supervision
    assert has_ended(second)


PARENT = """
import asyncio, sys
from pathlib import Path
from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.broker.process import Broker

async def main():
    async with Broker(BrokerPaths(Path(sys.argv[1])), bind_address="127.0.0.1", port=int(sys.argv[2])) as broker:
        print(broker.pid, flush=True)
        await broker.supervise()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_ends_with_the_process_that_started_it(stopped_site: Site, how: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(stopped_site.paths.folder), str(stopped_site.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert not has_ended(broker)
        parent.send_signal(how)
        try:
            parent.wait(DEADLINE_S)
        finally:
            parent.kill()
    wait_until(lambda: has_ended(broker), what="the broker ended with its parent")
    stopped_site.runner.run(stopped_site.broker.start())


def test_stops_within_its_time_and_can_be_started_again(site: Site) -> None:
    first = site.broker.pid
    assert first is not None
    site.runner.run(site.broker.stop())
    assert has_ended(first)
    assert site.broker.pid is None
    site.runner.run(site.broker.start())
    assert site.lets_in(site.device("board-0001"))


def test_is_killed_when_it_does_not_stop(stopped_site: Site) -> None:
    broker = Broker(stopped_site.paths, bind_address=ADDRESS, port=stopped_site.port, stop_timeout_s=0.2)
    stopped_site.runner.run(broker.start())
    process = broker.pid
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    stopped_site.runner.run(broker.stop())
    assert has_ended(process)


def test_says_that_the_port_is_held_by_another(stopped_site: Site) -> None:
    with socket.create_server((ADDRESS, stopped_site.port)):
        broker = Broker(stopped_site.paths, bind_address=ADDRESS, port=stopped_site.port, start_timeout_s=0.5)
        with pytest.raises(BrokerFailed, match=f"port {stopped_site.port} of {ADDRESS} is held"):
            stopped_site.runner.run(broker.start())


def test_says_what_the_log_says_when_it_does_not_come_up(stopped_site: Site) -> None:
    stopped_site.paths.certificate.unlink()
    with pytest.raises(BrokerFailed, match=r"ended with code 1(.|\n)*server\.pem"):
        stopped_site.runner.run(stopped_site.broker.start())


def test_free_port_is_kept_at_the_next_start(stopped_site: Site) -> None:
    again = write_start(
        stopped_site.paths,
        settings=BrokerSettings(),
        authority_pem=stopped_site.authority.certificate_pem,
        server=stopped_site.authority.issue_server([ADDRESS], now=stopped_site.now),
    )
    assert again == stopped_site.port


def test_refuses_to_write_a_rule_for_a_name_that_is_no_device(stopped_site: Site) -> None:
    before = stopped_site.paths.crl.read_bytes()
    with pytest.raises(ValueError, match="device id"):
        write_revocations(stopped_site.paths, crl_pem=b"", revoked=["shoal-fleet"])
    assert stopped_site.paths.crl.read_bytes() == before


CONNECT = b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03raw"
"""MQTT 5 CONNECT: clean start, keep-alive 60 s, no properties, client id "raw" (OASIS MQTT 5.0, 3.1)."""


def handshake(
    site: Site, context: ssl.SSLContext, *, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """Connect and read the CONNACK. Returns the session to take up again, and whether `session` was taken up."""
    with (
        socket.create_connection((ADDRESS, site.port), timeout=DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname=ADDRESS, session=session) as secure,
    ):
        secure.sendall(CONNECT)
        if secure.recv(100)[:1] != b"\x20":
            raise ConnectionError("no CONNACK")
        return secure.session, bool(secure.session_reused)


def served_certificate(site: Site) -> bytes | None:
    with (
        socket.create_connection((ADDRESS, site.port), timeout=DEADLINE_S) as plain,
        site.context(None).wrap_socket(plain, server_hostname=ADDRESS) as secure,
    ):
        return secure.getpeercert(binary_form=True)


def has_ended(process: int) -> bool:
    """Whether it is gone, or only waits for its parent to be told."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"
