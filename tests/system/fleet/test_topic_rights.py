"""Who may publish and hear what? Every topic of the protocol with everyone who could ask, on a real broker.

The pairs are made of `shoal_wire.topics`, so that a channel that is added is tried too.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from shoal_fleet.pki.authority import Identity, read_certificate
from shoal_wire import topics
from shoal_wire.topics import Down, Up

from tests.system.fleet.broker_site import Client, Refused, Site, open_site, wait_until

VICTIM, OTHER, REVOKED, WITNESS = "d-victim", "d-other", "d-revoked", "d-witness"
CHANNELS: tuple[Up | Down, ...] = (*Up, *Down)
DENIED = "Not authorized"


class Asker(NamedTuple):
    """Someone with a connection, and the device that they are, if any."""

    client: Client
    device: str


class Stage(NamedTuple):
    """A broker with everyone on it. A held device is a device like any other here: the fleet doesn't publish to it."""

    site: Site
    askers: dict[str, Asker]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_site(tmp_path_factory.mktemp("site")) as site:
        site.runner.run(site.broker.start())
        revoked, witness = site.device(REVOKED), site.device(WITNESS)
        askers = {
            "own": Asker(site.connect(site.device(VICTIM)), VICTIM),
            "other": Asker(site.connect(site.device(OTHER)), OTHER),
            "revoked while connected": Asker(site.connect(revoked), REVOKED),
            "fleet": Asker(site.connect_fleet(), ""),
        }
        revoke(site, [revoked, witness])
        wait_until(lambda: not site.lets_in(witness), what="the revocation counts")
        yield Stage(site, askers)


def revoke(site: Site, identities: list[Identity]) -> None:
    serials = [read_certificate(one.certificate_pem).serial for one in identities]
    site.revoke(serials=serials, names=[REVOKED, WITNESS])


def topic_of(device: str, channel: Up | Down) -> str:
    return topics.up(device, channel) if isinstance(channel, Up) else topics.down(device, channel)


def may_publish(asker: str, device: str, channel: Up | Down) -> bool:
    """The whole of the protocol's rule for writing."""
    return asker == "fleet" or (asker == "own" and device == VICTIM and isinstance(channel, Up))


def may_hear(name: str, asker: Asker, device: str, channel: Up | Down) -> bool:
    """The whole of the protocol's rule for reading."""
    return name == "fleet" or (name in {"own", "other"} and asker.device == device and isinstance(channel, Down))


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.value)
@pytest.mark.parametrize("device", [VICTIM, OTHER, REVOKED, "d-nobody"])
@pytest.mark.parametrize("asker", ["own", "revoked while connected", "fleet"])
def test_who_may_publish(stage: Stage, asker: str, device: str, channel: Up | Down) -> None:
    answer = stage.askers[asker].client.publish(topic_of(device, channel))
    assert (answer != DENIED) == may_publish(asker, device, channel), answer


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.value)
@pytest.mark.parametrize("device", [VICTIM, OTHER, REVOKED])
def test_who_hears_it(stage: Stage, device: str, channel: Up | Down) -> None:
    """Everyone asks for the topic by name and for all topics; the fleet, which may write all, then says something."""
    topic, word = topic_of(device, channel), f"for {device} on {channel.value}".encode()
    for asker in stage.askers.values():
        asker.client.subscribe(topic)
        asker.client.subscribe("#")
    assert stage.askers["fleet"].client.publish(topic, payload=word, retain=True) == "Success"
    for name, asker in stage.askers.items():
        for wish in (topic, "#"):
            asker.client.subscribe(wish)  # what was said before has come when this is answered, what is retained too
        asker.client.subscribe(wish)
        heard = {payload for at, payload in list(asker.client.messages.queue) if at == topic}
        assert (word in heard) == may_hear(name, asker, device, channel), name
    stage.askers["fleet"].client.publish(topic, payload=b"", retain=True)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.value)
def test_a_revoked_device_with_a_certificate_that_is_on_no_list_may_do_nothing(
    stage: Stage, channel: Up | Down
) -> None:
    """The rules alone keep it out, by its name; the list keeps its certificates out, see test_broker."""
    client = stage.site.connect(stage.site.device(WITNESS))
    assert client.publish(topic_of(WITNESS, channel)) == DENIED


def test_nobody_without_a_certificate_gets_as_far_as_a_topic(stage: Stage) -> None:
    with pytest.raises((Refused, OSError)):
        stage.site.connect(None)
