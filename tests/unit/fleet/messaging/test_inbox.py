"""What waits, what takes the place of what, and what is left out?"""

import threading

from shoal_fleet.messaging.inbox import Connected, Inbox, Load, Message, Woken, Work
from shoal_fleet.rollouts.publication import Receipt
from shoal_wire.topics import Topic, Up


def message(device: str, channel: Up, payload: bytes = b"x") -> Message:
    return Message(Topic(device, channel), payload)


def take_all(inbox: Inbox) -> list[Work]:
    found = []
    while (work := inbox.take(timeout_s=0)) is not None:
        found.append(work)
    return found


def test_batches_keep_their_order() -> None:
    inbox = Inbox()
    batches = [message("d-a", Up.BATCH, b"%d" % number) for number in range(5)]
    assert all(inbox.put(batch) for batch in batches)
    assert take_all(inbox) == batches


def test_a_newer_report_takes_the_place_of_the_one_that_waits() -> None:
    inbox = Inbox()
    for work in (
        message("d-a", Up.REPORTED, b"1"),
        message("d-b", Up.REPORTED, b"1"),
        message("d-a", Up.PRESENCE, b"1"),
        message("d-a", Up.REPORTED, b"2"),
    ):
        inbox.put(work)
    assert set(take_all(inbox)) == {
        message("d-a", Up.REPORTED, b"2"),
        message("d-b", Up.REPORTED, b"1"),
        message("d-a", Up.PRESENCE, b"1"),
    }


def test_one_device_cannot_take_the_room_of_the_others() -> None:
    inbox = Inbox(max_bytes=100, max_bytes_of_device=20)
    assert [inbox.put(message("d-a", Up.BATCH, bytes(10))) for _ in range(3)] == [True, True, False]
    assert inbox.put(message("d-b", Up.BATCH, bytes(20)))
    assert inbox.left_out == 1
    inbox.take(timeout_s=0)
    assert inbox.put(message("d-a", Up.BATCH, bytes(10)))


def test_all_devices_together_have_a_limit() -> None:
    inbox = Inbox(max_bytes=25, max_bytes_of_device=20)
    assert [inbox.put(message(f"d-{name}", Up.BATCH, bytes(10))) for name in "abc"] == [True, True, False]


def test_reports_are_never_left_out() -> None:
    inbox = Inbox(max_bytes=0, max_bytes_of_device=0)
    assert inbox.put(message("d-a", Up.REPORTED, bytes(1000)))
    assert not inbox.put(message("d-a", Up.BATCH, bytes(1)))


def test_of_many_wishes_to_publish_one_waits() -> None:
    inbox = Inbox()
    for _ in range(3):
        inbox.put(Woken())
    inbox.put(Connected())
    inbox.put(Receipt("d-a", (1, 1)))
    inbox.put(Receipt("d-a", (1, 2)))
    assert [type(work).__name__ for work in take_all(inbox)] == ["Woken", "Connected", "Receipt"]


def test_what_is_put_back_gives_way_to_what_came_since() -> None:
    inbox = Inbox()
    inbox.put(message("d-a", Up.REPORTED, b"new"))
    inbox.put_back(message("d-a", Up.REPORTED, b"old"))
    inbox.put_back(message("d-b", Up.REPORTED, b"only"))
    inbox.put_back(message("d-a", Up.BATCH, b"is sent again by the device"))
    assert set(take_all(inbox)) == {message("d-a", Up.REPORTED, b"new"), message("d-b", Up.REPORTED, b"only")}


def test_a_taker_that_waits_is_woken() -> None:
    inbox = Inbox()
    taken: list[Work | None] = []
    taker = threading.Thread(target=lambda: taken.append(inbox.take(timeout_s=60)))
    taker.start()
    inbox.put(message("d-a", Up.BATCH))
    taker.join(30)
    assert taken == [message("d-a", Up.BATCH)]


def test_a_closed_inbox_gives_nothing_more() -> None:
    inbox = Inbox()
    inbox.put(message("d-a", Up.BATCH))
    inbox.close()
    assert inbox.take(timeout_s=60) is None


def test_load_counts_what_waits_and_since_when_nothing_did() -> None:
    inbox = Inbox(max_bytes=25, max_bytes_of_device=20)
    assert inbox.load == Load(messages=0, batch_bytes=0, lag_s=0.0, left_out=0)
    for work in (message("d-a", Up.BATCH, bytes(20)), message("d-b", Up.BATCH, bytes(20)), Woken()):
        inbox.put(work)
    load = inbox.load
    assert (load.messages, load.batch_bytes, load.left_out) == (2, 20, 1)
    assert inbox.load.lag_s >= load.lag_s > 0
    take_all(inbox)
    assert inbox.load == Load(messages=0, batch_bytes=0, lag_s=0.0, left_out=1)
