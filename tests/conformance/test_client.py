"""Does the program for suites of TUF clients do what such a suite checks: verify, keep, and refuse?"""

import http.server
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_wire import paths

from tests.conformance.client import main
from tests.faults.updater.attacked_repository import BINS, DAY_S, URL, Repository
from tests.faults.updater.publisher import MODEL

TARGET = f"{MODEL}/1/manifest.json"
TOP = ("root", "timestamp", "snapshot", "targets")


class Client:
    """The program, against a repository on the loopback."""

    def __init__(self, folder: Path, repository: Repository, url: str) -> None:
        self.metadata, self.targets = folder / "metadata", folder / "targets"
        self.targets.mkdir()
        self.repository = repository
        self.url = url
        (folder / "root.json").write_bytes(repository.files[repository.url_of("root", 1)])
        self.init = ["--metadata-dir", str(self.metadata), "init", str(folder / "root.json")]
        assert main(self.init) == 0

    def options(self) -> list[str]:
        return ["--metadata-dir", str(self.metadata), "--metadata-url", f"{self.url}/metadata"]

    def refresh(self) -> int:
        return main([*self.options(), "refresh"])

    def download(self, name: str) -> int:
        options = ["--target-name", name, "--target-base-url", f"{self.url}/targets", "--target-dir", str(self.targets)]
        return main([*self.options(), *options, "download"])

    def versions(self) -> list[int]:
        """Of what is trusted."""
        return [json.loads((self.metadata / f"{role}.json").read_bytes())["signed"]["version"] for role in TOP]


@pytest.fixture
def repository() -> Repository:
    return Repository(now=time.time())


@pytest.fixture
def client(repository: Repository, tmp_path: Path) -> Iterator[Client]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """Serves what the repository has."""

        def do_GET(self) -> None:
            path = self.path.replace("/metadata/", paths.TUF_METADATA, 1).replace("/targets/", paths.TUF_TARGETS, 1)
            raw = repository.files.get(URL + path)
            self.send_response(404 if raw is None else 200)
            self.send_header("Content-Length", str(len(raw or b"")))
            self.end_headers()
            self.wfile.write(raw or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Client(tmp_path, repository, f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_metadata_is_kept_under_the_names_that_suites_look_at(client: Client) -> None:
    assert client.refresh() == 0
    assert client.versions() == [1, 1, 1, 1]
    client.repository.publish("root", "targets", *BINS)
    assert client.refresh() == 0
    assert client.versions() == [2, 2, 2, 2]


def test_program_runs_as_such(client: Client) -> None:
    command = [sys.executable, "-m", "tests.conformance.client", *client.options(), "refresh"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_rollback_is_refused_and_what_was_trusted_stays(client: Client) -> None:
    repository = client.repository
    old = repository.files[repository.url_of("timestamp", 0)]
    repository.publish_online()
    assert client.refresh() == 0
    before = client.versions()
    repository.files[repository.url_of("timestamp", 0)] = old
    assert client.refresh() == 1
    assert client.versions() == before


def test_expired_metadata_is_refused(client: Client) -> None:
    client.repository.now = time.time() - 2 * DAY_S
    client.repository.publish_online()
    assert client.refresh() == 1


def test_root_that_is_no_root_is_refused(client: Client, tmp_path: Path) -> None:
    (tmp_path / "root.json").write_bytes(b"{}")
    assert main(client.init) == 1


def test_target_is_downloaded_under_its_quoted_name(client: Client) -> None:
    assert client.download(TARGET) == 0
    assert [path.name for path in client.targets.iterdir()] == [TARGET.replace("/", "%2F")]
    assert next(client.targets.iterdir()).read_bytes() == client.repository.contents[TARGET]


def test_target_that_is_not_signed_or_was_swapped_is_not_kept(client: Client) -> None:
    assert client.download("nothing/1/manifest.json") == 1
    files = client.repository.files
    (url,) = [url for url in files if url.endswith(".manifest.json")]
    files[url] = files[url][:-1] + b" "
    assert client.download(TARGET) == 1
    assert list(client.targets.iterdir()) == []
