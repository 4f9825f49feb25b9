"""How does a test ask an application without a socket?"""

import asyncio
from collections.abc import Mapping

import httpx
from fastapi import FastAPI


class ApiClient:
    """Sends each request as the holder of a token."""

    def __init__(self, app: FastAPI, *, token: str | None) -> None:
        self._app = app
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, body: object) -> httpx.Response:
        return self._ask("POST", path, body, None)

    def _ask(self, method: str, path: str, body: object, headers: Mapping[str, str] | None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="https://fleet") as client:
                return await client.request(method, path, json=body, headers=self._headers | dict(headers or {}))

        return asyncio.run(ask())
