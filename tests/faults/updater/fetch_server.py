"""A plain HTTPS server for sites in a folder: TLS 1.3, client certificate required, single ranges. Prints its port.

A file `breaks-after` in a site's folder has every answer with more bytes than it says break off there.
With a file `retry-after` sealed files are refused for so many seconds; each time adds a byte to the file `refused`.

`python -m tests.faults.updater.fetch_server FOLDER CERTIFICATE KEY AUTHORITY`
"""

import http.server
import re
import ssl
import sys
from pathlib import Path

_RANGE = re.compile(r"bytes=(\d+)-")


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves files; `folder` is set by `main`."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        path = self.folder / self.path.lstrip("/")
        if not path.is_file():
            self._answer(404, b"")
            return
        site = self.folder / self.path.lstrip("/").partition("/")[0]
        if "/sealed/" in self.path and (site / "retry-after").exists():
            with (site / "refused").open("a") as refused:
                refused.write("x")
            self._answer(503, b"", retry_after=(site / "retry-after").read_text())
            return
        data = path.read_bytes()
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None:
            self._answer(200, data)
        elif int(match[1]) >= len(data):
            self._answer(416, b"", content_range=f"bytes */{len(data)}")
        else:
            start = int(match[1])
            self._answer(206, data[start:], content_range=f"bytes {start}-{len(data) - 1}/{len(data)}")

    def _answer(self, status: int, body: bytes, *, content_range: str = "", retry_after: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        site = self.folder / self.path.lstrip("/").partition("/")[0]
        limit = site / "breaks-after"
        if limit.exists() and "/sealed/" in self.path and len(body) > int(limit.read_text()):
            body = body[: int(limit.read_text())]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    """Clients are killed in the middle of what they do: that isn't worth a traceback."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def main(folder: str, certificate: str, key: str, authority: str) -> None:
    Handler.folder = Path(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
