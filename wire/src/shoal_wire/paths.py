"""Where on the fleet's two HTTPS listeners is what a device asks for?"""

ENROL = "/v1/enrol"
"""POST: a signed enrolment request, with the token's secret as bearer. Listener for operators and enrolment."""
AUTHORITY = "/v1/authority.pem"
"""GET: the authority's certificate, which a device compares with its token's digest. Same listener."""
RENEWAL_CHALLENGE = "/v1/renewal/challenge"
"""GET: a nonce that a request to renew must hold. Both listeners."""
RENEWAL = "/v1/renewal"
"""POST: a signed request to renew. Both listeners: a device whose certificate has expired reaches only the one for
operators and enrolment."""

SEALED = "/v1/sealed/"
"""GET, with ranges: a sealed file by the SHA-256 of its bytes. Listener for devices."""
TUF_METADATA = "/v1/tuf/metadata/"
TUF_TARGETS = "/v1/tuf/targets/"
