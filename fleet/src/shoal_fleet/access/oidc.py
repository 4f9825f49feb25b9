"""How does an identity provider vouch for a person? OpenID Connect, authorization code with PKCE.

What the browser brings back is worth nothing by itself: the fleet fetches the ID token from the provider, and takes it
only if the provider signed it for this fleet, for this login, and it hasn't ended (OpenID Connect Core 1.0, section
3.1.3.7). State, nonce and PKCE verifier of a login are all derived from one secret in a cookie of that browser, so that
a login begun in one browser can't be ended in another.

Authlib and its HTTP client are imported by `Provider` alone.
"""

import base64
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal_fleet.access.roles import Held, Role
from shoal_fleet.configuration import OidcSettings
from shoal_fleet.errors import BadConfiguration, NotAllowed, ProviderDown
from shoal_fleet.times import Clock

ALGORITHMS = ("RS256", "ES256")
"""Of ID tokens: neither `none` nor one whose key the fleet itself would have."""

TIMEOUT_S = 10.0
DISCOVERY_S = 600.0
"""How long what the provider says of itself is taken as it was."""
MAX_SUBJECT_CHARACTERS = 255
"""Of the provider (OpenID Connect Core 1.0, section 2)."""
_LEEWAY_S = 60
"""By which two clocks may differ."""


class Person(NamedTuple):
    """Whom the provider vouches for."""

    subject: str
    """Issuer and its name for the person, which never changes."""
    name: str
    held: frozenset[Held]


class Refresh(NamedTuple):
    """With what the provider is asked again whether it still vouches for a person. A secret."""

    token: str
    nonce: str
    """Of the login: an ID token that has one at all has this."""
    subject: str
    """Of the person (`Person.subject`)."""


class Vouched(NamedTuple):
    """The provider's word."""

    person: Person
    refresh: Refresh | None
    """None from a provider that gives no refresh token."""


class Attempt(NamedTuple):
    """What belongs to one login."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def of(cls, secret: str) -> "Attempt":
        """Derived from the secret of the login's cookie; none of them gives it away."""
        return cls(*(_derive(secret, purpose) for purpose in ("state", "nonce", "verifier")))


class Provider:
    """The identity provider. Threads may share it.

    Raises:
        BadConfiguration: Authlib isn't installed, or a file can't be read.
    """

    def __init__(self, settings: OidcSettings, *, redirect_uri: str, clock: Clock) -> None:
        try:
            import httpx2
            from authlib.common.errors import AuthlibBaseError
            from authlib.integrations.httpx_client import OAuth2Client
        except ImportError:
            raise BadConfiguration("[oidc] needs Authlib, which isn't here: install shoal-fleet[oidc]") from None
        self._client = OAuth2Client
        self._failures = (AuthlibBaseError, httpx2.HTTPError, ValueError)
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._found: tuple[float, Mapping[str, str]] | None = None
        self._client_secret = _read_text(settings.client_secret_file) if settings.client_secret_file else None
        try:
            self._tls = ssl.create_default_context(cafile=settings.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise BadConfiguration(f"[oidc] ca_file {settings.ca_file}: {error}") from None

    def begin(self, attempt: Attempt) -> str:
        """Where to send the browser.

        Raises:
            NotAllowed, ProviderDown: the provider doesn't answer as it should.
        """
        with self._open() as client:
            endpoint = self._discover(client)["authorization_endpoint"]
            url, _ = client.create_authorization_url(
                endpoint, state=attempt.state, nonce=attempt.nonce, code_verifier=attempt.verifier
            )
        return str(url)

    def finish(self, code: str, attempt: Attempt) -> Vouched:
        """Exchange the code that the browser brought back for the word of the provider.

        Raises:
            NotAllowed: the provider doesn't vouch for a person.
            ProviderDown: it doesn't answer as it should.
        """
        with self._open() as client:
            found = self._discover(client)
            try:
                answer = client.fetch_token(found["token_endpoint"], code=code, code_verifier=attempt.verifier)
            except self._failures as error:
                raise NotAllowed(f"login: the provider took no code ({type(error).__name__})") from None
            keys = self._fetch(client, found["jwks_uri"])
        return self._read_word(answer, keys, nonce=attempt.nonce, is_login=True)

    def renew(self, refresh: Refresh) -> Vouched:
        """Ask again (OpenID Connect Core 1.0, section 12).

        Raises:
            NotAllowed: the provider no longer vouches for the person.
            ProviderDown: it doesn't answer as it should, or without an ID token: that says nothing of the person.
        """
        with self._open() as client:
            found = self._discover(client)
            try:
                answer = client.refresh_token(found["token_endpoint"], refresh_token=refresh.token)
            except self._failures as error:
                if getattr(error, "error", "") == "invalid_grant":
                    raise NotAllowed("login: the provider has ended it") from None
                raise ProviderDown(f"login: the provider renews nothing ({type(error).__name__})") from None
            keys = self._fetch(client, found["jwks_uri"])
        if not isinstance(answer, Mapping) or "id_token" not in answer:
            raise ProviderDown("login: the provider renews without an ID token")
        vouched = self._read_word(answer, keys, nonce=refresh.nonce, is_login=False)
        if vouched.person.subject != refresh.subject:
            raise NotAllowed("login: the provider renews it for another person")
        return vouched if vouched.refresh else vouched._replace(refresh=refresh)

    def _open(self) -> Any:
        return self._client(
            self._settings.client_id,
            self._client_secret,
            scope=self._settings.scope,
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_basic" if self._client_secret else "none",
            verify=self._tls,
            trust_env=False,
            timeout=TIMEOUT_S,
        )

    def _discover(self, client: Any) -> Mapping[str, str]:
        now = self._clock()
        if self._found is None or not 0 <= now - self._found[0] < DISCOVERY_S:
            self._found = now, self._fetch_endpoints(client)
        return self._found[1]

    def _fetch_endpoints(self, client: Any) -> Mapping[str, str]:
        found = self._fetch(client, self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != self._settings.issuer:
            raise NotAllowed(
                f"login: expected the issuer {self._settings.issuer}, found {str(found.get('issuer'))[:200]}"
            )
        endpoints = {name: found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        for name, url in endpoints.items():
            if not isinstance(url, str) or not url.startswith("https://"):
                raise NotAllowed(f"login: expected the provider to name an https address as its {name}")
        return {name: str(url) for name, url in endpoints.items()}

    def _fetch(self, client: Any, url: str) -> Mapping[str, Any]:
        try:
            reply = client.request("GET", url, withhold_token=True)
            reply.raise_for_status()
            found = reply.json()
        except self._failures as error:
            raise ProviderDown(f"login: the provider doesn't answer at {url} ({type(error).__name__})") from None
        if not isinstance(found, Mapping):
            raise ProviderDown(f"login: the provider doesn't answer with an object at {url}")
        return found

    def _read_word(self, answer: Any, keys: Mapping[str, Any], *, nonce: str, is_login: bool) -> Vouched:
        id_token = answer.get("id_token") if isinstance(answer, Mapping) else None
        if not isinstance(id_token, str):
            raise NotAllowed("login: the provider sent no ID token")
        person = self._read_person(self._verify(id_token, keys, nonce=nonce, is_login=is_login))
        token = answer.get("refresh_token")
        has_token = isinstance(token, str) and token != ""
        return Vouched(person, Refresh(token, nonce, person.subject) if has_token else None)

    def _verify(self, id_token: str, keys: Mapping[str, Any], *, nonce: str, is_login: bool) -> Mapping[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            token = jwt.decode(id_token, KeySet.import_key_set(dict(keys)), algorithms=list(ALGORITHMS))  # type: ignore[arg-type]
            # One that comes with a renewal need not have the nonce (section 12.2).
            expected = nonce if is_login or "nonce" in token.claims else None
            claims = CodeIDToken(
                token.claims,
                token.header,
                options={
                    "iss": {"essential": True, "value": self._settings.issuer},
                    "aud": {"essential": True, "value": self._settings.client_id},
                },
                params={"nonce": expected, "client_id": self._settings.client_id},
            )
            claims.validate(now=int(self._clock()), leeway=_LEEWAY_S)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise NotAllowed(
                f"login: the provider's ID token doesn't count ({type(error).__name__}: {error})"
            ) from None
        return dict(claims)

    def _read_person(self, claims: Mapping[str, Any]) -> Person:
        subject, name = claims["sub"], claims.get(self._settings.name_claim)
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS:
            raise NotAllowed("login: the provider's ID token names no subject")
        if not isinstance(name, str):
            raise NotAllowed(f"login: the provider's ID token has no name in {self._settings.name_claim!r}")
        groups = claims.get(self._settings.groups_claim, [])
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise NotAllowed(
                f"login: expected a list of names in {self._settings.groups_claim!r} of the provider's ID token, found "
                f"{type(groups).__name__}"
            )
        words = {word for group in groups for word in self._settings.roles.get(group, ())}
        return Person(hash_subject(self._settings.issuer, subject), name, frozenset(map(_held, words)))


def hash_subject(issuer: str, subject: str) -> str:
    """A provider's name for a person, apart from that of any other provider."""
    return hashlib.sha256(f"{issuer} {subject}".encode()).hexdigest()


def _held(word: str) -> Held:
    """`operator@yard` as the rules have it."""
    role, _, project = word.partition("@")
    return Held(project, Role(role))


def _derive(secret: str, purpose: str) -> str:
    digest = hmac.digest(secret.encode(), f"shoal/oidc/v1/{purpose}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"[oidc] client_secret_file {path}: {error}") from None
