"""What does a test need to play an identity provider? OpenID Connect over HTTPS on loopback, written from its text."""

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from shoal_fleet.listeners import TlsFiles
from shoal_fleet.pki.authority import Authority

CLIENT_ID = "shoal"
CLIENT_SECRET = "a secret of the client"


class IdentityProvider:
    """Says of whoever comes that they are `claims`. Its faults are set by a test."""

    def __init__(self) -> None:
        self.issuer = ""
        self.reset()
        self._rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._other_rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._ec = ec.generate_private_key(ec.SECP256R1())
        self._asked: dict[str, Mapping[str, str]] = {}
        self._refreshing: dict[str, str] = {}
        """Nonce of the login by refresh token; each counts once (RFC 9700, section 4.14.2)."""

    def reset(self) -> None:
        """Without any fault."""
        self.claims: dict[str, Any] = {"sub": "7", "preferred_username": "carla", "groups": ["keepers"]}
        self.wrong: dict[str, Any] = {}
        """Claims of the next ID tokens that aren't what they should be."""
        self.algorithm = "RS256"
        self.signs_with_other_key = False
        self.named_issuer: str | None = None
        self.gives_refresh_tokens = False
        self.renews = True
        self.repeats_nonce = True
        self.renewed = 0
        """How often a refresh token was exchanged."""

    def discover(self) -> dict[str, str]:
        issuer = self.named_issuer or self.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def keys(self) -> dict[str, Any]:
        numbers, point = self._rsa.public_key().public_numbers(), self._ec.public_key().public_numbers()
        return {
            "keys": [
                {"kty": "RSA", "kid": "RS256", "use": "sig", "n": _number(numbers.n, 256), "e": _number(numbers.e, 3)},
                {
                    "kty": "EC",
                    "kid": "ES256",
                    "use": "sig",
                    "crv": "P-256",
                    "x": _number(point.x, 32),
                    "y": _number(point.y, 32),
                },
            ]
        }

    def authorize(self, asked: Mapping[str, str]) -> str:
        """The person says yes at once; returns where the browser goes."""
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT_ID
        code = f"code-{len(self._asked)}"
        self._asked[code] = asked
        return asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"]})

    def exchange(self, given: Mapping[str, str], authorization: str) -> dict[str, Any] | None:
        """A code for an ID token, once, if the client and the verifier are right; or a refresh token for another."""
        if given.get("grant_type") == "refresh_token":
            return self._renew(given.get("refresh_token", ""))
        asked = self._asked.pop(given.get("code", ""), None)
        challenge = _encode(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        client = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if asked is None or asked["code_challenge"] != challenge or authorization != f"Basic {client}":
            return None
        if given.get("redirect_uri") != asked["redirect_uri"]:
            return None
        return self._answer(nonce=asked["nonce"], repeats_nonce=True)

    def _renew(self, token: str) -> dict[str, Any] | None:
        nonce = self._refreshing.pop(token, None)
        if nonce is None or not self.renews:
            return None
        self.renewed += 1
        return self._answer(nonce=nonce, repeats_nonce=self.repeats_nonce)

    def _answer(self, *, nonce: str, repeats_nonce: bool) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "exp": now + 6000, "iat": now}
        claims |= {"nonce": nonce} if repeats_nonce else {}
        answer = {
            "access_token": "nobody uses it",
            "token_type": "Bearer",
            "id_token": self._sign({**claims, **self.claims, **self.wrong}),
        }
        if self.gives_refresh_tokens:
            token = secrets.token_urlsafe(16)
            self._refreshing[token] = nonce
            answer["refresh_token"] = token
        return answer

    def _sign(self, claims: Mapping[str, Any]) -> str:
        header = {"alg": self.algorithm, "kid": self.algorithm, "typ": "JWT"}
        text = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(claims).encode())}"
        return f"{text}.{_encode(self._signature(text.encode()))}"

    def _signature(self, text: bytes) -> bytes:
        if self.algorithm == "RS256":
            key = self._other_rsa if self.signs_with_other_key else self._rsa
            return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        if self.algorithm == "ES256":
            r, s = decode_dss_signature(self._ec.sign(text, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        if self.algorithm == "HS256":
            return hmac.digest(CLIENT_SECRET.encode(), text, hashlib.sha256)
        return b""


class _Handler(BaseHTTPRequestHandler):
    provider: IdentityProvider

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.provider.authorize(_last(url.query)))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        pages = {"/.well-known/openid-configuration": self.provider.discover, "/keys": self.provider.keys}
        self._answer(pages[url.path]() if url.path in pages else None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(self.provider.exchange(_last(body), self.headers.get("Authorization", "")))

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, body: Mapping[str, Any] | None) -> None:
        raw = json.dumps({"error": "invalid_grant"} if body is None else body).encode()
        self.send_response(400 if body is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def run_provider(folder: Path) -> Iterator[tuple[IdentityProvider, Path]]:
    """A provider that answers, and the certificate of its authority."""
    authority = Authority.create(folder / "authority", now=datetime.now(UTC))
    files = TlsFiles.write(
        folder, name="provider", identity=authority.issue_server(("127.0.0.1",), now=datetime.now(UTC))
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    provider = IdentityProvider()
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    provider.issuer = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider, folder / "authority" / "ca.pem"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


def _last(query: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query).items()}


def _number(value: int, length: int) -> str:
    return _encode(value.to_bytes(length, "big"))


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
