"""How does `shoal` ask the fleet's API, and how do its refusals become errors that a person can act on?"""

import ssl
from collections.abc import Iterator
from typing import Any, BinaryIO, Self

import httpx
import msgspec

from shoal_fleet.command.account import Login, load_login
from shoal_fleet.command.errors import CommandError, NotFound, Unreachable, UsageError

_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_KINDS: dict[int, type[CommandError]] = {404: NotFound, 502: Unreachable, 503: Unreachable, 504: Unreachable}
_NEXT_STEPS = {401: "log in with a token that counts: `shoal login URL`"}


class Client:
    """A connection to the fleet of one login, by default this user's. Use as a context manager.

    Threads may share it.
    """

    def __init__(self, login: Login | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        self.login = login or load_login()
        self._http = httpx.Client(
            base_url=self.login.url,
            verify=_trust_alone(self.login.authority),
            headers={"Authorization": f"Bearer {self.login.token}"},
            timeout=_TIMEOUT,
            trust_env=False,
            transport=transport,
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
        return self._parse(self._ask("GET", path, params=query))

    def read_lines(self, path: str, *, limit_bytes: int, **query: str | int) -> Iterator[bytes]:
        """Lines of a GET's answer as they come, each with its end. Raises as `get`, and for a line that is too long."""
        try:
            with self._http.stream("GET", path, params=query) as reply:
                if not reply.is_success:
                    reply.read()
                    raise _refusal(reply)
                yield from _split_lines(reply.iter_bytes(), limit_bytes=limit_bytes, what=path)
        except httpx.RequestError as error:
            raise explain(error, url=self.login.url) from None

    def fetch(self, path: str, into: BinaryIO) -> None:
        """Write the bytes of a GET to a file as they come. Raises as `get`."""
        try:
            with self._http.stream("GET", path) as reply:
                if not reply.is_success:
                    reply.read()
                    raise _refusal(reply)
                for part in reply.iter_bytes():
                    into.write(part)
        except httpx.RequestError as error:
            raise explain(error, url=self.login.url) from None

    def read(self, path: str) -> bytes:
        """Bytes of a GET. Raises as `get`."""
        return self._ask("GET", path).content

    def post(self, path: str, body: object) -> Any:
        """Parsed JSON of a POST. Raises as `get`."""
        return self._parse(self._send("POST", path, body))

    def patch(self, path: str, body: object) -> Any:
        """Parsed JSON of a PATCH. Raises as `get`."""
        return self._parse(self._send("PATCH", path, body))

    def exists(self, path: str) -> bool:
        """Whether a HEAD finds it. Raises as `get`."""
        try:
            self._ask("HEAD", path)
        except NotFound:
            return False
        return True

    def put(self, path: str, parts: Iterator[bytes], *, size_bytes: int) -> None:
        """Upload `size_bytes` bytes in parts. Raises as `get`, and what `parts` raises."""
        self._ask("PUT", path, content=parts, headers={"Content-Length": str(size_bytes)})

    def _send(self, method: str, path: str, body: object) -> httpx.Response:
        content = msgspec.json.encode(body)
        return self._ask(method, path, content=content, headers={"Content-Type": "application/json"})

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            reply = self._http.request(method, path, **options)
        except httpx.RequestError as error:
            raise explain(error, url=self.login.url) from None
        if reply.is_success:
            return reply
        raise _refusal(reply)

    def _parse(self, reply: httpx.Response) -> Any:
        try:
            return msgspec.json.decode(reply.content)
        except msgspec.DecodeError:
            raise CommandError(f"{reply.request.url}: expected JSON: is it a Shoal fleet that answers there?") from None


def explain(error: httpx.RequestError, *, url: str) -> CommandError:
    """Why no answer came: a server that isn't there, or one that isn't the right one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return CommandError(
                f"{url}: not the server that was logged in to ({cause.verify_message}); nothing was sent. If the fleet "
                "was made anew: `shoal login URL`"
            )
        cause = cause.__cause__ or cause.__context__
    return Unreachable(f"{url}: no answer ({str(error) or type(error).__name__}); is it running?")


def _refusal(reply: httpx.Response) -> CommandError:
    message = "; ".join(filter(None, (_reason(reply), _NEXT_STEPS.get(reply.status_code))))
    return _KINDS.get(reply.status_code, CommandError)(message)


def _split_lines(parts: Iterator[bytes], *, limit_bytes: int, what: str) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line + b"\n"
        if len(rest) > limit_bytes:
            raise CommandError(f"{what}: expected lines of at most {limit_bytes} bytes, found a longer one")
    if rest:
        yield rest


def _trust_alone(authority: str) -> ssl.SSLContext:
    """TLS that trusts this certificate and none of the system's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError):
        raise UsageError("the login file holds no certificate in PEM: run `shoal login URL` again") from None
    return context


def _reason(reply: httpx.Response) -> str:
    """The server's own sentence, or what can be said without it."""
    try:
        return str(msgspec.json.decode(reply.content)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        asked = f"{reply.request.method} {reply.request.url}"
        return f"{asked}: the server answered {reply.status_code} {reply.reason_phrase}".rstrip()
