"""Does the broker's configuration say what keeps clients apart, and nothing that a setting could smuggle in?"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.broker.configuration import (
    BrokerPaths,
    configured_port,
    render_access,
    render_configuration,
)

PATHS = BrokerPaths(Path("/var/lib/shoal fleet/broker"))


def options(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split(" ", 1) for line in lines)


@pytest.mark.parametrize(
    ("is_service", "log"), [(False, "file /var/lib/shoal fleet/broker/mosquitto.log"), (True, "stderr")]
)
def test_a_broker_that_is_a_service_leaves_its_log_to_the_journal(is_service: bool, log: str) -> None:
    text = render_configuration(bind_address="::1", port=8884, user="shoal", paths=PATHS, is_service=is_service)
    assert options(text)["log_dest"] == log


def test_names_every_safeguard() -> None:
    found = options(render_configuration(bind_address="127.0.0.1", port=8884, user="shoal", paths=PATHS))
    expected = {
        "listener": "8884 127.0.0.1",
        "user": "shoal",
        "tls_version": "tlsv1.3",
        "require_certificate": "true",
        "use_identity_as_username": "true",
        "use_username_as_clientid": "true",
        "allow_anonymous": "false",
        "crlfile": "/var/lib/shoal fleet/broker/crl.pem",
        "acl_file": "/var/lib/shoal fleet/broker/access",
        "persistence_location": "/var/lib/shoal fleet/broker/state/",
        "autosave_on_changes": "true",
        "autosave_interval": "1",
        "max_packet_size": "278528",
    }
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"bind_address": "127.0.0.1\nallow_anonymous true"}, "address"),
        ({"bind_address": "localhost"}, "localhost"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"user": "shoal\nallow_anonymous true"}, "user"),
        ({"user": ""}, "user"),
        ({"paths": BrokerPaths(Path("/tmp/a\nallow_anonymous true"))}, "folder"),
        ({"paths": BrokerPaths(Path("relative"))}, "folder"),
    ],
)
def test_refuses_a_value_that_would_be_read_as_something_else(change: dict[str, object], named: str) -> None:
    good: dict[str, object] = {"bind_address": "127.0.0.1", "port": 8884, "user": "shoal", "paths": PATHS}
    with pytest.raises(ValueError, match=named):
        render_configuration(**{**good, **change})  # type: ignore[arg-type]


@given(port=st.integers(1, 65535), address=st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "::"]))
def test_port_is_read_back(port: int, address: str) -> None:
    text = render_configuration(bind_address=address, port=port, user="shoal", paths=PATHS)
    assert configured_port(text) == port


def test_other_text_names_no_port() -> None:
    assert configured_port("# listener 1883 127.0.0.1\nuser x\n") is None


def test_devices_reach_their_own_topics_only_and_the_fleet_all() -> None:
    lines = render_access(revoked=[]).splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == [
        "pattern write shoal/v1/%u/up/#",
        "pattern read shoal/v1/%u/down/#",
        "user shoal-fleet",
        "topic readwrite shoal/v1/#",
    ]


def test_each_revoked_device_is_denied_everything_once() -> None:
    text = render_access(revoked=["board-0002", "board-0001", "board-0002"])
    assert text.endswith("user board-0001\ntopic deny #\n\nuser board-0002\ntopic deny #\n")


@pytest.mark.parametrize("device", ["shoal-fleet", "board/1", "board+1", "board#1", "$SYS", "a\ntopic #", "a b c"])
def test_refuses_a_device_id_that_would_be_read_as_a_rule(device: str) -> None:
    with pytest.raises(ValueError, match="device id"):
        render_access(revoked=[device])
