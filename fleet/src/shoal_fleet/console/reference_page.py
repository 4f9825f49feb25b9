"""How does the list of the API look? Rendered from its own OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from shoal_fleet.console.page import Visitor, document, element, escape, table, wrap

_VERBS = ("get", "head", "post", "put", "patch", "delete")
_FIELDS = (("Name", "tight"), ("Type", "tight"), ("", "words soft"))

Schema = dict[str, Any]


def render_reference(openapi: Schema, *, visitor: Visitor) -> str:
    """The page: every path with its parameters, body and answer, by feature."""
    schemas: Schema = openapi.get("components", {}).get("schemas", {})
    by_tag: dict[str, list[str]] = {}
    for path, verb, operation in _operations(openapi):
        tag = (operation.get("tags") or ["other"])[0]
        by_tag.setdefault(tag, []).append(_render_operation(path, verb, operation, schemas))
    intro = element(
        "p",
        "An API token goes along as bearer, or as the password of HTTP Basic. Times are Unix seconds. What is "
        'refused is answered with {"error": {"code", "message"}}.',
        css="soft",
    )
    main = intro + "".join(
        element("h2", tag.capitalize()) + wrap("div", "".join(operations), css="card")
        for tag, operations in by_tag.items()
    )
    return document("Shoal: API", main, is_live=False, visitor=visitor)


def name_type(schema: Schema) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(name_type(part) for part in schema[key])
    if schema.get("type") == "array":
        return f"list of {name_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any")


def _operations(openapi: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, item in openapi.get("paths", {}).items():
        for verb in _VERBS:
            if verb in item:
                yield path, verb, item[verb]


def _render_operation(path: str, verb: str, operation: Schema, schemas: Schema) -> str:
    described = str(operation.get("description") or operation.get("summary") or "")
    first, _, rest = described.partition("\n\n")
    head = (
        element("span", verb.upper(), css="verb")
        + wrap("span", element("code", path))
        + element("span", first, css="soft")
    )
    parts = [element("p", rest)] if rest else []
    rows = [_parameter_cells(parameter) for parameter in operation.get("parameters", [])]
    parts += _section("Parameters", rows)
    parts += _schema_section("Body", operation.get("requestBody", {}), schemas)
    for status, answer in operation.get("responses", {}).items():
        if status.startswith("2"):
            parts += _schema_section(f"Answer {status}", answer, schemas)
    return wrap("details", wrap("summary", head) + wrap("div", "".join(parts), css="inside"))


def _parameter_cells(parameter: Schema) -> tuple[str, str, str]:
    about = [str(parameter.get("in", "")), "required" if parameter.get("required") else ""]
    about.append(str(parameter.get("description", "")))
    return (
        element("code", parameter.get("name", "")),
        escape(name_type(parameter.get("schema", {}))),
        escape(", ".join(part for part in about if part)),
    )


def _schema_section(title: str, holder: Schema, schemas: Schema) -> list[str]:
    schema: Schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    if not schema:
        return []
    rows = list(_field_rows(schema, schemas, prefix="", seen=()))
    return _section(f"{title}: {name_type(schema)}", rows)


def _field_rows(
    schema: Schema, schemas: Schema, *, prefix: str, seen: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """A row for each field, those of named parts below theirs."""
    for part in (schema, schema.get("items", {}), *schema.get("anyOf", [])):
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if not name or name in seen:
            continue
        named = schemas.get(name, {})
        required = named.get("required", [])
        for field, inner in named.get("properties", {}).items():
            about = [str(inner.get("description", "")), "" if field in required else "optional"]
            yield (
                element("code", f"{prefix}{field}"),
                escape(name_type(inner)),
                escape(", ".join(part for part in about if part)),
            )
            yield from _field_rows(inner, schemas, prefix=f"{prefix}{field}.", seen=(*seen, name))


def _section(title: str, rows: list[tuple[str, str, str]]) -> list[str]:
    return [element("h3", title) + table(_FIELDS, [rows])] if rows else []
