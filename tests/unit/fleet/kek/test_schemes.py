"""Does each kind of key-encryption key open what it wrapped, and nothing else, and say what is missing?"""

import os
import stat
import sys
from pathlib import Path

import pytest
from shoal_fleet.errors import BadConfiguration
from shoal_fleet.kek.passphrase import Cost, Passphrase
from shoal_fleet.kek.schemes import KEY_FILE, lies_beside, open_kek

SECRET = bytes(range(32))
CHEAP = Cost(memory_kib=64, passes=1, lanes=1)
"""Argon2id at a cost that a test can pay often."""


def test_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    wrapped = open_kek(KEY_FILE, state=tmp_path, may_make=True).wrap(SECRET)
    assert open_kek(KEY_FILE, state=tmp_path).unwrap(wrapped) == SECRET
    assert stat.S_IMODE((tmp_path / "kek" / "kek.key").stat().st_mode) == 0o600
    assert SECRET not in wrapped


def test_folder_of_the_key_file_is_left_out_by_back_up_programs(tmp_path: Path) -> None:
    open_kek(KEY_FILE, state=tmp_path, may_make=True)
    # The first 43 bytes are what bford.info/cachedir asks for.
    tag = (tmp_path / "kek" / "CACHEDIR.TAG").read_bytes()
    assert tag[:43] == b"Signature: 8a477f597d28d172789f06886806bc55"


def test_folder_that_is_there_already_gets_no_tag(tmp_path: Path) -> None:
    open_kek(f"file:{tmp_path / 'kek.key'}", state=tmp_path / "state", may_make=True)
    assert [path.name for path in tmp_path.iterdir()] == ["kek.key"]


def test_another_key_file_does_not_open_it(tmp_path: Path) -> None:
    wrapped = open_kek("file:one", state=tmp_path, may_make=True).wrap(SECRET)
    with pytest.raises(BadConfiguration, match=r"other: is not the key"):
        open_kek("file:other", state=tmp_path, may_make=True).unwrap(wrapped)


@pytest.mark.parametrize("content", [b"", b"short", b"AAAA\n", b"\xff" * 44])
def test_file_that_holds_no_key_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "k").write_bytes(content)
    with pytest.raises(BadConfiguration, match=r"kek file:k: .*32 bytes in base64"):
        open_kek("file:k", state=tmp_path)
    assert (tmp_path / "k").read_bytes() == content


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (KEY_FILE, True),
        ("file:../kek.key", False),
        ("file:/run/keys/kek", False),
        ("passphrase:prompt", False),
        ("passphrase:file:/run/keys/word", False),
        ("passphrase:file:{state}/word", True),
        ("passphrase:file:{state}/../word", False),
    ],
)
def test_knows_whether_the_key_is_copied_with_the_state_folder(tmp_path: Path, uri: str, expected: bool) -> None:
    state = tmp_path / "state"
    assert lies_beside(uri.format(state=state), state=state) is expected


def test_link_into_the_state_folder_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "state")
    assert lies_beside(f"file:{tmp_path / 'elsewhere' / 'k'}", state=tmp_path / "state")


def test_passphrase_opens_what_it_wrapped_each_time_otherwise() -> None:
    kek = Passphrase(b"correct horse", cost=CHEAP)
    first, second = kek.wrap(SECRET), kek.wrap(SECRET)
    assert Passphrase(b"correct horse").unwrap(first) == SECRET
    assert first[-32:] != second[-32:]


def test_costs_what_rfc_9106_recommends_second(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("correct horse\n")
    wrapped = open_kek(f"passphrase:file:{tmp_path / 'p'}", state=tmp_path).wrap(SECRET)
    memory_kib, passes = int.from_bytes(wrapped[1:5], "big"), int.from_bytes(wrapped[5:9], "big")
    assert (memory_kib, passes, wrapped[9]) == (65536, 3, 4)


def test_another_passphrase_does_not_open_it() -> None:
    with pytest.raises(BadConfiguration, match="passphrase: is another one"):
        Passphrase(b"wrong").unwrap(Passphrase(b"right", cost=CHEAP).wrap(SECRET))


def test_changed_bit_is_refused() -> None:
    wrapped = bytearray(Passphrase(b"right", cost=CHEAP).wrap(SECRET))
    wrapped[-1] ^= 1
    with pytest.raises(BadConfiguration):
        Passphrase(b"right").unwrap(bytes(wrapped))


@pytest.mark.parametrize("wrapped", [b"", b"\1", bytes(100), b"\1\xff\xff\xff\xff" + bytes(100)])
def test_what_no_passphrase_wrapped_is_refused_without_work(wrapped: bytes) -> None:
    with pytest.raises(BadConfiguration, match="was not wrapped by a passphrase"):
        Passphrase(b"right").unwrap(wrapped)


def test_passphrase_comes_by_a_descriptor_and_never_by_argument(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"correct horse\n")
    os.close(writing)
    kek = open_kek(f"passphrase:fd:{reading}", state=tmp_path)
    assert Passphrase(b"correct horse").unwrap(kek.wrap(SECRET)) == SECRET


def test_passphrase_comes_from_a_credential_of_the_service_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shoal-kek").write_bytes(b"correct horse")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    kek = open_kek("passphrase:credential:shoal-kek", state=tmp_path)
    assert Passphrase(b"correct horse").unwrap(kek.wrap(SECRET)) == SECRET


def test_new_passphrase_that_is_longer_than_what_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"x" * 4097)
    with pytest.raises(BadConfiguration, match="expected at most 4096 bytes"):
        open_kek(f"passphrase:file:{tmp_path / 'p'}", state=tmp_path, may_make=True)
    # What an earlier version wrapped by the part that it read opens as it did.
    wrapped = Passphrase(b"x" * 4096, cost=CHEAP).wrap(SECRET)
    assert open_kek(f"passphrase:file:{tmp_path / 'p'}", state=tmp_path).unwrap(wrapped) == SECRET


def test_endless_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="expected 32 bytes in base64"):
        open_kek("file:/dev/zero", state=tmp_path)
    with pytest.raises(BadConfiguration, match="expected at most 4096 bytes"):
        open_kek("passphrase:file:/dev/zero", state=tmp_path, may_make=True)


HIDDEN = "Qhunter2"


@pytest.mark.parametrize(
    "uri",
    [
        f"pkcs11:token=t;object=o?pin-value={HIDDEN}",
        f"pkcs11:colour=red;token=t?pin-value={HIDDEN}",
        f"pkcs11:token=t;object=o?colour=red&pin-value={HIDDEN}",
        f"pkcs11:token=t;object=o?colour=red&PIN-VALUE={HIDDEN}",
        f"pkcs11:token=t;pin={HIDDEN}",
        f"pkcs11:token=t;object=o?{HIDDEN}",
        f"pkcs11:token=t;object=o?pin-source={HIDDEN}",
        f"pkcs11:token=t;object=o?module-path=/x&pin-source={HIDDEN}",
        f"pkcs11:token=t;object=o&pin-value={HIDDEN}?module-path=/x&pin-source=file:/nowhere",
        f"PKCS11:token=t;object=o?pin-value={HIDDEN}",
        f"passphrase:{HIDDEN}",
        HIDDEN,
    ],
    ids=range(12),
)
def test_no_message_repeats_a_secret_that_was_given_in_the_place_of_something_else(tmp_path: Path, uri: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        open_kek(uri, state=tmp_path)
    assert HIDDEN.lower() not in str(refused.value).lower()


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("passphrase:", "expected it from one of fd, file, credential, prompt"),
        ("passphrase:file:/nowhere", "No such file"),
        ("passphrase:fd:987", "Bad file descriptor"),
        ("passphrase:fd:one", "invalid literal"),
        ("passphrase:credential:../passwd", "expected the name of a credential"),
        ("passphrase:file:/dev/null", "found nothing"),
        ("file:", "expected file:PATH"),
        ("file:gone", "No such file or directory; .* restore it"),
        ("http://example.org", r"begins with one of file:, passphrase:, pkcs11:, awskms:"),
        ("", "begins with one of"),
        ("awskms:alias/shoal", r"no package is installed that brings awskms: keys; .* group 'shoal.kek'"),
        ("pkcs11:token=t", "expected the attribute object"),
        ("pkcs11:token=t;object=o?module-path=/x", "expected the attribute pin-source"),
        ("pkcs11:token=t;object=o?pin-value=1234", "a PIN doesn't belong into the URI"),
        ("pkcs11:token=t;colour=red", "attribute 'colour' isn't known"),
    ],
)
def test_what_can_not_be_used_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, reason: str
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(BadConfiguration, match=reason):
        open_kek(uri, state=tmp_path)


@pytest.fixture
def kms_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that brings keys of the schemes hv: and, without what it needs, gcpkms:."""
    site = tmp_path / "site"
    (site / "fake_vault-1.0.dist-info").mkdir(parents=True)
    (site / "fake_vault-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fake-vault\nVersion: 1.0\n"
    )
    (site / "fake_vault-1.0.dist-info" / "entry_points.txt").write_text(
        "[shoal.kek]\nhv = fake_vault:TransitKey\ngcpkms = fake_vault_without_its_library:Key\n"
    )
    (site / "fake_vault.py").write_text(
        "class TransitKey:\n"
        "    def __init__(self, uri): self.uri = uri\n"
        "    def wrap(self, secret): return self.uri.encode() + secret[::-1]\n"
        "    def unwrap(self, wrapped): return wrapped[len(self.uri):][::-1]\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "fake_vault", raising=False)


@pytest.mark.usefixtures("kms_package")
def test_installed_package_brings_a_scheme(tmp_path: Path) -> None:
    kek = open_kek("hv:transit/shoal", state=tmp_path)
    assert kek.unwrap(kek.wrap(SECRET)) == SECRET
    assert kek.wrap(SECRET).startswith(b"hv:transit/shoal")


@pytest.mark.usefixtures("kms_package")
def test_package_that_lacks_its_library_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"fake_vault_without_its_library:Key can't be imported"):
        open_kek("gcpkms:projects/x", state=tmp_path)
