"""How does a recipe become text that a person can go on editing? TOML, fields in the order of the recipe."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shoal_converters.errors import BadRecipe
from shoal_converters.recipe import Recipe

MAX_WHOLE = 2**63 - 1
INLINE = ("task_options",)
"""Mappings that stand on one line, so that they can be deleted with one."""


def write_recipe(recipe: Recipe, path: Path, *, left: Sequence[str] = ()) -> None:
    """Write a recipe into a new file. `left`: what a person must still fill in, which stands above it.

    Raises:
        BadRecipe: the file exists or can't be written, or a parameter has no form in TOML.
    """
    text = format_recipe(recipe, left=left)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadRecipe(f"{path}: exists, and is not overwritten") from None
    except OSError as error:
        raise BadRecipe(f"{path}: {error.strerror or error}") from None


def format_recipe(recipe: Recipe, *, left: Sequence[str] = ()) -> str:
    """The text of a recipe, without the fields that have their usual value. `load_recipe` reads it back.

    Raises:
        BadRecipe: a parameter has no form in TOML: null, or a whole number of more than 64 bits.
    """
    comments = [f"# To do: {_on_one_line(words)}" for words in left]
    scalars: list[str] = []
    tables: list[str] = []
    for name, plain in _strip(recipe).items():
        if isinstance(plain, Mapping) and name not in INLINE:
            tables += ["", f"[{name}]", *_lines(plain)]
        elif isinstance(plain, list) and plain and isinstance(plain[0], Mapping):
            for item in plain:
                tables += ["", f"[[{name}]]", *_lines(item)]
        else:
            scalars += _lines({name: plain})
    return "\n".join([*comments, *([""] if comments else []), *scalars, *tables, ""])


def _on_one_line(text: str) -> str:
    """A comment ends with its line, and holds nothing that isn't seen."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))


def _strip(value: Any) -> Any:
    """Structs as mappings without the fields that have their usual value."""
    if isinstance(value, tuple | list):
        return [_strip(item) for item in value]
    if not isinstance(value, msgspec.Struct):
        return value
    fields = msgspec.structs.fields(type(value))
    kept = [field for field in fields if field.required or getattr(value, field.name) != _usual(field)]
    return {field.name: _strip(getattr(value, field.name)) for field in kept}


def _usual(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{_key(key)} = {_value(value, where=key)}"


def _value(value: Any, *, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if abs(value) > MAX_WHOLE:
            raise BadRecipe(f"recipe: {where}: {value} has more than 64 bits, which TOML can't hold")
        return str(value)
    if isinstance(value, float):
        return repr(value)  # also inf and nan, as TOML spells them
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item, where=where) for item in value)}]"
    if isinstance(value, Mapping):
        items = [f"{_key(key)} = {_value(item, where=f'{where}.{key}')}" for key, item in value.items()]
        return f"{{ {', '.join(items)} }}" if items else "{}"
    raise BadRecipe(f"recipe: {where}: {type(value).__name__} has no form in TOML")


def _key(key: str) -> str:
    is_bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if is_bare else _text(key)


def _text(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL, and for characters that aren't any."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise BadRecipe("recipe: a text has half a character (a surrogate), which no file can hold")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
