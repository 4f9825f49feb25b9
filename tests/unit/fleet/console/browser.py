"""How does a test look at pages as a browser does, without a socket? It keeps cookies, and follows no redirect."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode

import httpx
from fastapi import FastAPI

HOME = "https://fleet.example"


class Browser:
    """One browser, at the pages of one application."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.cookies = httpx.Cookies()

    def get(self, path: str, *, query: Mapping[str, str] | None = None) -> httpx.Response:
        return self._ask("GET", path if query is None else f"{path}?{urlencode(query)}", "", {})

    def send(self, path: str, *, origin: str = HOME, forwarded_for: str = "", **fields: str) -> httpx.Response:
        """Send a form that is on a page of `origin`, by a proxy where it says for whom."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": origin}
        headers |= {"X-Forwarded-For": forwarded_for} if forwarded_for else {}
        return self._ask("POST", path, urlencode(fields), headers)

    def _ask(self, method: str, path: str, content: str, headers: Mapping[str, str]) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=HOME, cookies=self.cookies) as client:
                reply = await client.request(method, path, content=content, headers=headers)
                self.cookies = client.cookies
                return reply

        return asyncio.run(ask())
