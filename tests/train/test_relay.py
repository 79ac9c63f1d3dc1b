"""What ranks say to the driver, and what it answers."""

import socket
import threading
from collections.abc import Iterator

import pytest

from workloads.train.relay import Address, Relay, RelayClient


@pytest.fixture
def relay() -> Iterator[Relay]:
    opened = Relay("127.0.0.1")
    yield opened
    opened.close()


def test_messages_arrive_in_their_order_and_whole(relay: Relay) -> None:
    client = RelayClient(relay.address)
    for number in range(100):
        assert client.put({"event": "step", "step": number, "text": "ü\n" * number}) is False
    assert [(one["step"], len(one["text"])) for one in relay.take(0)] == [(n, 2 * n) for n in range(100)]


def test_a_message_has_arrived_when_put_returns(relay: Relay) -> None:
    RelayClient(relay.address).put({"event": "failure"})
    assert relay.take(0) == [{"event": "failure"}]
    assert relay.take(0) == []


def test_the_wish_to_stop_is_the_answer_to_the_next_message(relay: Relay) -> None:
    client = RelayClient(relay.address)
    assert client.put({}) is False
    relay.stop()
    assert client.put({}) is True


def test_take_waits_for_a_message(relay: Relay) -> None:
    client = RelayClient(relay.address)
    threading.Timer(0.2, lambda: client.put({"late": True})).start()
    assert relay.take(20) == [{"late": True}]


def test_every_rank_is_heard(relay: Relay) -> None:
    ranks = [RelayClient(relay.address) for _ in range(8)]
    for number, rank in enumerate(ranks):
        rank.put({"rank": number})
    assert [one["rank"] for one in relay.take(0)] == list(range(8))


def test_who_lacks_the_key_is_not_listened_to(relay: Relay) -> None:
    stranger = RelayClient(Address(host=relay.address.host, port=relay.address.port, key="guess"))
    with pytest.raises(OSError):  # noqa: PT011 -- a reset or a closed connection, as the system likes
        stranger.put({"event": "result"})
    assert relay.take(0) == []


def test_a_silent_stranger_keeps_nobody_away(relay: Relay) -> None:
    with socket.create_connection((relay.address.host, relay.address.port)):
        assert RelayClient(relay.address).put({"heard": True}) is False
    assert relay.take(0) == [{"heard": True}]


def test_the_key_is_not_shown(relay: Relay) -> None:
    assert relay.address.key not in repr(relay.address)


def test_a_driver_that_is_gone_is_an_error(relay: Relay) -> None:
    address = relay.address
    relay.close()
    with pytest.raises(OSError):  # noqa: PT011
        RelayClient(address)
