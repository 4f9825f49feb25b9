from tests.repository.sizes import Size, function_sizes, report

SOURCE = """\
import functools


@functools.cache
@functools.wraps(print)
def decorated():
    return 1


class Box:
    async def method(self):
        def inner():
            return 2

        return inner
"""


def test_measures_functions_from_first_decorator_to_last_line() -> None:
    sizes = {size.name: size.lines for size in function_sizes(SOURCE, module_name="m.py")}

    assert sizes == {"m.py:decorated": 4, "m.py:method": 5, "m.py:inner": 2}


def test_accepts_a_length_at_the_limit() -> None:
    assert report([Size(60, "m.py:f")], kind="function", limit_lines=60) == []


def test_reports_what_is_over_the_limit_longest_first() -> None:
    sizes = [Size(61, "m.py:f"), Size(9, "m.py:g"), Size(70, "m.py:h")]

    assert report(sizes, kind="function", limit_lines=60) == [
        "m.py:h: 70 lines; a function may have 60",
        "m.py:f: 61 lines; a function may have 60",
    ]
