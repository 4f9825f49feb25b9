"""Do release keys in PKCS#11 tokens sign: SoftHSM in the place of an HSM or card, and a TPM through tpm2-pkcs11?"""

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.key_uris import Secrets, adopt_key, open_signer

from tests.system.fleet.tokens import LABEL, PIN, find_program, run, softhsm, software_tpm

KEY_ID = 7

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pkcs11") is None, reason="python-pkcs11 isn't installed: pip install 'shoal-fleet[hsm]'"
)


@pytest.mark.parametrize("make_token", [softhsm, software_tpm], ids=["softhsm", "tpm"])
def test_key_in_a_token_is_taken_in_and_signs(
    make_token: Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with make_token(tmp_path, monkeypatch) as library:
        login = ("--module", library, "--token-label", LABEL, "--login", "--pin", PIN)
        key = ("--key-type", "EC:prime256v1", "--id", f"{KEY_ID:02x}", "--label", "release")
        run(find_program("pkcs11-tool"), *login, "--keypairgen", *key)
        monkeypatch.setenv("PYKCS11LIB", library)
        secrets, folder = Secrets(pin=PIN), tmp_path / "publisher"

        name = adopt_key(f"hsm:{KEY_ID}?label={LABEL}", folder=folder, secrets=secrets)
        signature = open_signer(name, folder=folder, secrets=secrets).sign(b"metadata")

        assert name.public["scheme"] == "ecdsa-sha2-nistp256"
        name.key.verify_signature(signature, b"metadata")
        with pytest.raises(CommandError, match=r"key hsm:9\?label="):
            adopt_key(f"hsm:9?label={LABEL}", folder=folder, secrets=secrets)
        assert not folder.exists()
