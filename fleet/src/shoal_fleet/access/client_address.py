"""From which address does a request come, where it comes by a proxy?

X-Forwarded-For is a list to which each proxy adds the address that it saw. What stands in it is believed as far back as
the addresses are those of the fleet's own proxies; whatever is before that may be made up. Rules only.
"""

import ipaddress
from collections.abc import Sequence

from starlette.requests import HTTPConnection

HEADER = "X-Forwarded-For"
MAX_HOPS = 16


class ClientAddresses:
    """Finds addresses behind proxies, each named by its address or network.

    Raises:
        ValueError: not an address or a network.
    """

    def __init__(self, trusted_proxies: Sequence[str] = ()) -> None:
        self._proxies = [ipaddress.ip_network(one) for one in trusted_proxies]

    def of(self, request: HTTPConnection) -> str:
        """The address of who asks; empty where the server doesn't know even its own peer's."""
        hops = ",".join(request.headers.getlist(HEADER)).split(",")
        return self.find(request.client.host if request.client else "", forwarded_for=hops)

    def find(self, peer: str, *, forwarded_for: Sequence[str]) -> str:
        """The last address that isn't a proxy's, of those that the proxies saw."""
        address = peer
        for hop in reversed(forwarded_for[-MAX_HOPS:]):
            seen = _parse(hop)
            if seen is None or not self._is_proxy(address):
                break
            address = seen
        return address

    def _is_proxy(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(ipaddress.ip_address(parsed) in network for network in self._proxies)


def _parse(text: str) -> str | None:
    """An address without the port that some proxies add; IPv4 in IPv6 as IPv4."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        parsed = ipaddress.ip_address(bare)
    except ValueError:
        return None
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
