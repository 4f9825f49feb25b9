"""Which structs does the wire allow, as their own annotations say?"""

import base64
from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=3,
)
MOST_ITEMS = 2

# Made without a regex, which takes most of the time.
NAMES = st.text("abc-019", min_size=3, max_size=8).filter(lambda text: not text.startswith("-"))
TEXTS_BY_PATTERN = {
    r"^[0-9a-f]{64}\Z": st.binary(min_size=32, max_size=32).map(bytes.hex),
    r"^[0-9a-f]{32}\Z": st.binary(min_size=16, max_size=16).map(bytes.hex),
    r"^[0-9a-f]{0,40}\Z": st.binary(max_size=20).map(bytes.hex),
    r"^3\.[0-9]{1,3}\Z": st.integers(0, 999).map("3.{}".format),
    r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}\Z": st.lists(st.integers(0, 10**6 - 1), min_size=1, max_size=4).map(
        lambda parts: ".".join(map(str, parts))
    ),
    r"^[A-Za-z0-9+/]*={0,2}\Z": st.binary(max_size=20).map(lambda raw: base64.b64encode(raw).decode()),
}


def instances(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Structs of that kind, each field within its bounds; lists are short."""
    return _values(inspect.type_info(kind))


def _values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.StrType(pattern=str() as pattern):
            return TEXTS_BY_PATTERN.get(pattern, NAMES)
        case inspect.StrType():
            return st.text(max_size=min(kind.max_length or 20, 20))
        case inspect.IntType():
            return st.integers(-(2**63) if kind.ge is None else kind.ge, 2**63 - 1 if kind.le is None else kind.le)
        case inspect.FloatType():
            low = kind.gt if kind.ge is None else kind.ge
            return st.floats(low, kind.le, allow_nan=False, allow_infinity=False, exclude_min=kind.gt is not None)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.EnumType():
            return st.sampled_from(list(kind.cls))
        case inspect.UnionType():
            return st.one_of([_values(member) for member in kind.types])
        case inspect.VarTupleType():
            most = min(kind.max_length or MOST_ITEMS, max(MOST_ITEMS, kind.min_length or 0))
            return st.lists(_values(kind.item_type), min_size=kind.min_length or 0, max_size=most).map(tuple)
        case inspect.DictType(key_type=inspect.StrType(pattern=str())):
            return st.dictionaries(_values(kind.key_type), _values(kind.value_type), max_size=MOST_ITEMS)
        case inspect.DictType():
            return st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=3)
        case inspect.RawType():
            return JSON_VALUES.map(msgspec.json.encode).map(msgspec.Raw)
        case inspect.StructType():
            fields = {field.name: _values(field.type) for field in kind.fields}
            return st.builds(cast(Any, kind.cls), **fields)
    raise TypeError(f"no strategy for {kind}")
