"""Is configuration strict, complete in its complaints, and read in the stated order?"""

from pathlib import Path

import pytest
from shoal_fleet.configuration import Configuration, load_configuration
from shoal_fleet.errors import BadConfiguration


def test_everything_has_a_default(tmp_path: Path) -> None:
    assert load_configuration(tmp_path / "none.toml", environment={}, options={}) == Configuration()


def test_option_wins_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text('port = 1\ndevices_port = 1\nbroker_port = 1\nnames = ["a.example"]')
    found = load_configuration(
        file,
        environment={"SHOAL_PORT": "2", "SHOAL_DEVICES_PORT": "2", "SHOAL_STATE": "/elsewhere"},
        options={"port": 3, "devices_port": None},
    )
    assert (found.port, found.devices_port, found.broker_port, found.names) == (3, 2, 1, ("a.example",))


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text('port = "8443"\ncolour = "red"\nbind = "localhost"')
    with pytest.raises(BadConfiguration) as caught:
        load_configuration(file, environment={"SHOAL_BROKER_PORT": "70000"}, options={"devices_port": -1})
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    for expected in ("unknown key 'colour'", "port: Expected `int`", "SHOAL_BROKER_PORT", "--devices-port", "bind:"):
        assert any(expected in line for line in lines), expected


def test_refuses_a_file_that_is_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("port 1")
    with pytest.raises(BadConfiguration, match="not TOML"):
        load_configuration(file, environment={}, options={})


OIDC = """
[oidc]
issuer = "https://login.example/realms/yard"
client_id = "shoal"
client_secret_file = "/etc/shoal/oidc-secret"
[oidc.roles]
keepers = ["operator@yard", "viewer@*"]
"""


def test_an_identity_provider_is_a_table_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(OIDC)
    found = load_configuration(file, environment={}, options={}).oidc
    assert found is not None
    assert (found.issuer, found.name_claim) == ("https://login.example/realms/yard", "preferred_username")
    assert found.roles == {"keepers": ("operator@yard", "viewer@*")}


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("https://", "http://"),
        ("client_id", "client"),
        ("operator@yard", "owner@yard"),
        ("operator@yard", "operator"),
        ("operator@yard", "operator@Yard!"),
        ("[oidc.roles]", "[oidc.groups]"),
    ],
)
def test_refuses_an_identity_provider_that_is_not_described_as_it_should(
    tmp_path: Path, there: str, instead: str
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(OIDC.replace(there, instead))
    with pytest.raises(BadConfiguration, match="oidc"):
        load_configuration(file, environment={}, options={})


def test_certificate_names_hold_the_host_and_the_loopback_once(tmp_path: Path) -> None:
    found = load_configuration(
        tmp_path / "none.toml",
        environment={"SHOAL_HOST": "fleet.example", "SHOAL_NAMES": "10.0.0.1, localhost"},
        options={},
    )
    assert found.certificate_names == ("fleet.example", "127.0.0.1", "localhost", "10.0.0.1")


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "300.1.1.1", "all"])
def test_refuses_a_proxy_that_is_no_address_or_network(tmp_path: Path, text: str) -> None:
    environment = {"SHOAL_TRUSTED_PROXIES": f"10.1.2.3, {text}"}
    with pytest.raises(BadConfiguration, match=f"trusted_proxies: expected an IP address or a network, found '{text}'"):
        load_configuration(tmp_path / "none.toml", environment=environment, options={})


def test_a_broker_elsewhere_is_reached_by_a_name_of_the_certificate(tmp_path: Path) -> None:
    found = load_configuration(
        tmp_path / "none", environment={"SHOAL_BROKER_ADDRESS": "broker", "SHOAL_HOST": "fleet.example"}, options={}
    )
    assert found.broker_address == "broker"
    assert found.certificate_names == ("fleet.example", "127.0.0.1", "localhost", "broker")


@pytest.mark.parametrize(
    ("bind", "own"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.1", "127.0.0.1"), ("10.0.0.1", "10.0.0.1")]
)
def test_this_machine_reaches_its_listeners_whatever_they_are_bound_to(tmp_path: Path, bind: str, own: str) -> None:
    found = load_configuration(tmp_path / "none", environment={}, options={"bind": bind})
    assert found.own_address == own
