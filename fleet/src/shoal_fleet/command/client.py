"""How does `shoal` ask the fleet's API, and how do its refusals become errors that a person can act on?"""

import ssl
from collections.abc import Iterator
from typing import Any, Self

import httpx
import msgspec

from shoal_fleet.command.account import Login, load_login
from shoal_fleet.command.errors import CommandError, NotFound, Unreachable

_TIMEOUT = httpx.Timeout(60.0, connect=10.0)


class Client:
    """A connection to the fleet of one login. Use as a context manager."""

    def __init__(self, login: Login | None = None) -> None:
        self.login = login or load_login()
        self._http = httpx.Client(
            base_url=self.login.url,
            verify=ssl.create_default_context(cadata=self.login.authority),
            headers={"Authorization": f"Bearer {self.login.token}"},
            timeout=_TIMEOUT,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **query: str | int) -> Any:
        """Parsed JSON of a GET.

        Raises:
            Unreachable, NotFound, CommandError: with the server's own sentence.
        """
        return self._ask("GET", path, params=query).json()

    def post(self, path: str, body: object) -> Any:
        """Parsed JSON of a POST. Raises as `get`."""
        content = msgspec.json.encode(body)
        return self._ask("POST", path, content=content, headers={"Content-Type": "application/json"}).json()

    def exists(self, path: str) -> bool:
        """Whether a HEAD finds it."""
        try:
            self._ask("HEAD", path)
        except NotFound:
            return False
        return True

    def put(self, path: str, parts: Iterator[bytes], *, size_bytes: int) -> None:
        """Upload `size_bytes` bytes in parts. Raises as `get`."""
        self._ask("PUT", path, content=parts, headers={"Content-Length": str(size_bytes)})

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            reply = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise Unreachable(
                f"{self.login.url}: no answer ({error or type(error).__name__}); is it running?"
            ) from None
        if reply.is_success:
            return reply
        message = f"{method} {path}: {_reason(reply)}"
        raise NotFound(message) if reply.status_code == 404 else CommandError(message)


def _reason(reply: httpx.Response) -> str:
    try:
        return str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {reply.status_code} {reply.reason_phrase}"
