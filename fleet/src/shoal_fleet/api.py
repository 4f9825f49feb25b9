"""What do all routes share: how an error becomes an answer, and how long a body may be?

A feature's `routes.py` holds a class whose methods are the handlers, three lines each, and a function `make_router`,
which is given what the handlers need (`sessions`, `gate`, `clock`, …) and lists path, method and role.
"""

import math
from collections.abc import Mapping
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import BaseModel
from shoal_wire.errors import Damaged, Malformed, Unsupported, Untrusted, WireError
from sqlalchemy.exc import IntegrityError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal_fleet.errors import (
    BadConfiguration,
    BrokenState,
    Conflict,
    CrossSite,
    FleetError,
    LoginNeeded,
    NotAllowed,
    NotFound,
    Refused,
    TooLarge,
    TooSoon,
    WrongRole,
)
from shoal_fleet.pki.errors import BadCsr, PkiError

LOGIN_PATH = "/login"
"""Page on which a person logs in."""

MAX_BODY_BYTES = 16 << 20
"""A release: targets metadata, manifest and grants, in base64."""


class ErrorDetail(BaseModel):
    """A word for programs and a sentence for people."""

    code: str
    message: str


class ErrorBody(BaseModel):
    """What every refused request gets."""

    error: ErrorDetail


_ANSWERS: dict[type[Exception], tuple[int, str]] = {
    NotAllowed: (401, "not_allowed"),
    WrongRole: (403, "wrong_role"),
    LoginNeeded: (401, "login_needed"),
    CrossSite: (403, "cross_site"),
    TooSoon: (429, "too_soon"),
    NotFound: (404, "not_found"),
    Conflict: (409, "conflict"),
    TooLarge: (413, "too_large"),
    Refused: (422, "refused"),
    Malformed: (422, "malformed"),
    Unsupported: (422, "unsupported"),
    Untrusted: (422, "untrusted"),
    Damaged: (422, "damaged"),
    BadCsr: (422, "bad_csr"),
    BadConfiguration: (500, "bad_configuration"),
    BrokenState: (500, "broken_state"),
    PkiError: (500, "broken_state"),
}

ERRORS: dict[int | str, dict[str, object]] = {"default": {"model": ErrorBody, "description": "Refused"}}
"""For `responses=` of a router, so that OpenAPI names the body of an error."""


def install_error_answers(app: FastAPI) -> None:
    """Make each error of the product, and each of the framework, an `ErrorBody`."""
    for tree in (FleetError, WireError, PkiError):
        app.add_exception_handler(tree, _answer_product_error)
    app.add_exception_handler(LoginNeeded, _send_to_login)
    app.add_exception_handler(IntegrityError, _answer_taken)
    app.add_exception_handler(RequestValidationError, _answer_validation_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(ClientDisconnect, _answer_nobody)
    app.add_exception_handler(Exception, _answer_crash)


class BodyLimit:
    """Refuses bodies longer than `MAX_BODY_BYTES`, except at `unlimited` paths, whose handlers count for themselves."""

    def __init__(self, app: ASGIApp, *, unlimited: str) -> None:
        self._app = app
        self._unlimited = unlimited

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting what it sends."""
        if scope["type"] != "http" or scope["path"].startswith(self._unlimited):
            await self._app(scope, receive, send)
            return
        received_bytes = 0

        async def count() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > MAX_BODY_BYTES:
                raise HTTPException(413, f"expected a body of at most {MAX_BODY_BYTES} bytes, found more")
            return message

        await self._app(scope, count, send)


async def read_body(request: Request, *, limit_bytes: int, what: str) -> bytes:
    """The whole body of a request, refused as soon as it is known to be too long.

    Raises:
        TooLarge: more than `limit_bytes`.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            raise TooLarge(f"{what}: expected at most {limit_bytes} bytes, found more")
        parts.append(part)
    return b"".join(parts)


def _answer(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    body = ErrorBody(error=ErrorDetail(code=code, message=message))
    return JSONResponse(body.model_dump(), status_code=status, headers=headers)


async def _answer_product_error(_request: Request, error: Exception) -> JSONResponse:
    status, code = next(_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS)
    headers = {"WWW-Authenticate": 'Basic realm="shoal"'} if status == 401 else {}
    if isinstance(error, TooSoon):
        headers["Retry-After"] = str(math.ceil(error.wait_s))
    return _answer(status, code, str(error), headers)


async def _send_to_login(request: Request, _error: Exception) -> RedirectResponse:
    """No challenge: a browser would ask for name and password by itself, and never show the form."""
    wanted = quote(request.url.path, safe="/")
    return RedirectResponse(f"{LOGIN_PATH}?next={wanted}", status_code=303, headers={"Cache-Control": "no-store"})


async def _answer_taken(_request: Request, _error: Exception) -> JSONResponse:
    """A name or key of something that the one who asks may not see; it is said no more than that."""
    return _answer(409, "conflict", "what should be unique is taken: take another name or another key")


async def _answer_validation_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()[:8]]
    return _answer(422, "malformed", "; ".join(faults))


async def _answer_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    return _answer(error.status_code, "http_error", message, error.headers)


async def _answer_nobody(_request: Request, _error: Exception) -> JSONResponse:
    """Who asked went away while sending; the answer is for the log of a proxy at most."""
    return _answer(400, "cut_off", "the request ended before its body did")


async def _answer_crash(_request: Request, _error: Exception) -> JSONResponse:
    """The server itself writes the traceback to its log."""
    return _answer(500, "internal_error", "the fleet failed to answer; its log says why")
