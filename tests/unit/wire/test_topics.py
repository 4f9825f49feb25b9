import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_wire.encoding import DeviceId
from shoal_wire.errors import Malformed
from shoal_wire.topics import Down, Topic, Up, all_down, all_up, down, parse, up

DEVICES = st.text("az09-", min_size=3, max_size=63).filter(lambda name: not name.startswith("-"))


def matches(topic: str, pattern: str) -> bool:
    """Whether an MQTT filter takes a topic: `+` is one level (MQTT 5, section 4.7.1)."""
    return re.fullmatch(re.escape(pattern).replace(r"\+", "[^/]*"), topic) is not None


@given(device=DEVICES, channel=st.sampled_from(Up))
@settings(max_examples=50, deadline=None)
def test_topic_of_a_device_reads_back_and_reaches_the_fleet(device: str, channel: Up) -> None:
    assert parse(up(device, channel)) == Topic(device, channel)
    assert matches(up(device, channel), all_up())
    assert not matches(up(device, channel), all_down(device))


@given(device=DEVICES, other=DEVICES, channel=st.sampled_from(Down))
@settings(max_examples=50, deadline=None)
def test_topic_of_the_fleet_reads_back_and_reaches_that_device_only(device: str, other: str, channel: Down) -> None:
    assert parse(down(device, channel)) == Topic(device, channel)
    assert matches(down(device, channel), all_down(other)) is (device == other)
    assert not matches(down(device, channel), all_up())


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "/",
        "shoal/v1",
        "shoal/v1/d-1234",
        "shoal/v1/d-1234/up",
        "shoal/v1/d-1234/up/",
        "shoal/v1/d-1234/up/batch/",
        "shoal/v1/d-1234/up/batch/more",
        "/shoal/v1/d-1234/up/batch",
        "shoal//v1/d-1234/up/batch",
        "shoal/v2/d-1234/up/batch",
        "shoal/v10/d-1234/up/batch",
        "Shoal/v1/d-1234/up/batch",
        "other/v1/d-1234/up/batch",
        "shoal/v1/+/up/batch",
        "shoal/v1/#",
        "shoal/v1/d-1234/up/#",
        "shoal/v1/d-1234/up/+",
        "shoal/v1/d-1234/+/batch",
        "shoal/v1/d-1234/up/ack",
        "shoal/v1/d-1234/up/desired",
        "shoal/v1/d-1234/down/batch",
        "shoal/v1/d-1234/sideways/batch",
        "shoal/v1/d-1234/up/BATCH",
        "shoal/v1/d-1234/up/future",
        "shoal/v1/ab/up/batch",
        "shoal/v1/-1234/up/batch",
        "shoal/v1/D-1234/up/batch",
        "shoal/v1/d_1234/up/batch",
        "shoal/v1/" + "d" * 64 + "/up/batch",
        "shoal/v1/d-1234/up/batch\n",
        "\nshoal/v1/d-1234/up/batch",
        "shoal/v1/d-１２３４/up/batch",
        "shoal/v1/d-1234\0/up/batch",
        "$share/group/shoal/v1/d-1234/up/batch",
        "$SYS/broker/uptime",
    ],
)
def test_other_topic_is_refused(topic: str) -> None:
    with pytest.raises(Malformed, match=r"^topic .*: expected shoal/v1/<device>/up\|down/<channel>"):
        parse(topic)


def test_error_text_stays_short_and_on_one_line() -> None:
    with pytest.raises(Malformed) as caught:
        parse("shoal/\n\x1b[31m" + "x" * 60_000)
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


@given(name=st.text(max_size=70) | DEVICES)
@settings(max_examples=50, deadline=None)
def test_takes_the_same_devices_as_documents_do(name: str) -> None:
    try:
        msgspec.convert(name, DeviceId)
    except msgspec.ValidationError:
        with pytest.raises(Malformed):
            parse(f"shoal/v1/{name}/up/batch")
    else:
        assert parse(f"shoal/v1/{name}/up/batch").device == name
