"""Does a board read what people put on its boot partition, and say what is wrong with it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.enrolment_file import MAX_BYTES, EnrolmentFile, parse_enrolment_file
from shoal_agent.errors import WrongConfiguration

WHAT = "shoal-enrol.toml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('token = "abc"', EnrolmentFile(token="abc")),
        (
            'token = "abc"\nname = "yard"\nprofile = "raspberry-pi-5"\n',
            EnrolmentFile(token="abc", name="yard", profile="raspberry-pi-5"),
        ),
        ('\ufefftoken = "abc"\r\nname = "Hof"\r\n', EnrolmentFile(token="abc", name="Hof")),
    ],
    ids=["token alone", "everything", "as Windows writes it"],
)
def test_reads_what_is_there(text: str, expected: EnrolmentFile) -> None:
    assert parse_enrolment_file(text.encode(), what=WHAT) == expected


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "missing required field `token`"),
        (b"abc", "not TOML"),
        (b'token = ""', "length >= 1"),
        (b'token = "secret-1"\ncolour = 1', "unknown field `colour`"),
        (b'token = "secret-1"\nname = 5', "Expected `str"),
        ('token = "secret-1"'.encode("utf-16"), "UTF-8"),
        (b"#" * (MAX_BYTES + 1), "at most"),
    ],
    ids=["empty", "no TOML", "empty token", "unknown key", "number", "UTF-16", "too long"],
)
def test_says_what_is_wrong_and_keeps_the_token_to_itself(raw: bytes, words: str) -> None:
    with pytest.raises(WrongConfiguration) as caught:
        parse_enrolment_file(raw, what=WHAT)
    assert str(caught.value).startswith(f"{WHAT}: ")
    assert words in str(caught.value)
    assert "secret-1" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        assert parse_enrolment_file(raw, what=WHAT).token
    except WrongConfiguration as error:
        assert str(error).startswith(WHAT)
