"""Does the compose file keep server, broker and monitoring apart?"""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "packaging" / "container"
OURS = ("fleet", "broker")
LOOPBACK = "127.0.0.1:"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    read = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
    assert isinstance(read, dict)
    return read


def sources(service: dict[str, Any]) -> dict[str, str]:
    """What is mounted, by place in the container."""
    return {place: source for source, place in (one.split(":")[:2] for one in service.get("volumes", ()))}


def test_every_container_has_the_least_of_rights(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "pid", "ipc", "network_mode", "devices", "cap_add"} & service.keys(), name


def test_the_broker_sees_its_folder_and_nothing_else_of_the_server(compose: dict[str, Any]) -> None:
    fleet, broker = (sources(compose["services"][name]) for name in OURS)
    assert broker == {"/var/lib/shoal-fleet/broker": "broker"}
    assert {place for place, source in fleet.items() if source == "broker"} == set(broker)


def test_the_key_that_opens_everything_lies_apart_from_the_state(compose: dict[str, Any]) -> None:
    fleet = sources(compose["services"]["fleet"])
    assert fleet["/var/lib/shoal-keys"] != fleet["/var/lib/shoal-fleet"]


def test_what_is_used_is_declared(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        named = {source for source in sources(service).values() if not source.startswith(".")}
        assert named <= compose["volumes"].keys(), name
        assert set(service["networks"]) <= compose["networks"].keys(), name
        assert set(service.get("secrets", ())) <= compose["secrets"].keys(), name
        for source in set(sources(service).values()) - named - {"./monitoring"}:
            assert (CONTAINER / source).exists(), source


def test_monitoring_is_a_choice_and_reached_from_this_machine_alone(compose: dict[str, Any]) -> None:
    watching = {name: one for name, one in compose["services"].items() if name not in OURS}
    assert set(watching) == {"prometheus", "grafana"}
    for service in watching.values():
        assert service["profiles"] == ["monitoring"]
        assert all(port.startswith(LOOPBACK) for port in service.get("ports", ()))
        assert not {"outside", "broker"} & set(service["networks"])


def test_images_are_those_of_this_version(compose: dict[str, Any]) -> None:
    version = tomllib.loads((ROOT / "fleet" / "pyproject.toml").read_text())["project"]["version"]
    for name in OURS:
        assert compose["services"][name]["image"] == f"localhost/shoal-{name}:${{SHOAL_VERSION:-{version}}}"


def test_prometheus_asks_the_server_under_a_name_of_its_certificate(compose: dict[str, Any]) -> None:
    (job,) = yaml.safe_load((CONTAINER / "prometheus.yml").read_text())["scrape_configs"]
    names = compose["services"]["fleet"]["environment"]["SHOAL_NAMES"].split(",")
    assert job["tls_config"]["server_name"] in names
    assert job["scheme"] == "https"
    folder = sources(compose["services"]["prometheus"])
    assert all(
        str(Path(path).parent) in folder
        for path in (job["authorization"]["credentials_file"], job["tls_config"]["ca_file"])
    )
