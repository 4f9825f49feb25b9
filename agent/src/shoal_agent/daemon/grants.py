"""Which content keys may a front have, to load a release?

Only the daemon holds the key that opens grants. A grant that was made for another device or release doesn't open.
"""

import base64

from shoal_wire.grant import GrantContext, RecipientKeys, open_grant

from shoal_agent.slots import HeldRelease


def open_content_keys(held: HeldRelease, *, device: str, keys: RecipientKeys) -> dict[str, str]:
    """Digest of each sealed file to its content key in base64.

    Raises:
        Malformed, Unsupported, Untrusted: a grant that isn't for this device and release.
    """
    context = GrantContext(held.reference.release, held.reference.version, device)
    return {
        grant.ciphertext_sha256: base64.b64encode(open_grant(grant, keys, context=context)).decode()
        for grant in held.grants
    }
