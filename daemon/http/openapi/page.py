"""The OpenAPI document as a page: everything is in the page itself, so that it reads the same on a device offline."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape

Json = Mapping[str, Any]

_BOUNDS = {"minimum": "at least", "maximum": "at most", "minItems": "at least", "maxItems": "at most"}
_CODE = re.compile(r"`([^`]+)`")


class Operation(NamedTuple):
    method: str
    path: str
    says: Json

    @property
    def anchor(self) -> str:
        return str(self.says["operationId"])


class Member(NamedTuple):
    """A row of a table of members."""

    name: str
    type: str
    required: bool
    description: str


def render_page(document: Json) -> str:
    """HTML of the whole document."""
    environment = Environment(
        loader=PackageLoader("audiocpp.daemon.http.openapi", "."),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.filters["type"] = type_name
    environment.filters["members"] = members_of
    environment.filters["refs"] = _refs
    schemas = document["components"]["schemas"]
    return environment.get_template("page.html").render(document=document, tags=_by_tag(document), schemas=schemas)


def _by_tag(document: Json) -> dict[str, list[Operation]]:
    tags: dict[str, list[Operation]] = {}
    for path, operations in document["paths"].items():
        for method, says in operations.items():
            shown = "WebSocket" if "x-websocket" in says else method.upper()
            tags.setdefault(says["tags"][0], []).append(Operation(shown, path, says))
    return tags


def type_name(schema: Json) -> str:
    """`string`, `integer or null`, `array of WordRow`, ..."""
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if choices := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(type_name(choice) for choice in choices))
    if values := schema.get("enum"):
        return ", ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)
    if schema.get("type") == "array":
        return f"array of {type_name(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def members_of(schema: Json) -> list[Member]:
    """The members of an object."""
    required = schema.get("required", ())
    return [
        Member(name, type_name(row), name in required, _with_bounds(row))
        for name, row in schema.get("properties", {}).items()
    ]


def _with_bounds(schema: Json) -> str:
    says = schema.get("description", "")
    default = schema.get("default")
    bounds = [
        f"{word} {schema[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in schema
    ]
    extra = "; ".join(bounds + ([f"default `{default}`"] if default not in (None, "", [], {}) else []))
    return f"{says} ({extra})" if extra else str(says)


def _refs(value: Any) -> list[str]:  # noqa: ANN401 - any part of the document
    """The schemas that a part of the document names, each once."""
    return list(dict.fromkeys(_found_refs(value)))


def _found_refs(value: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield str(value["$ref"]).rpartition("/")[2]
        for item in value.values():
            yield from _found_refs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _found_refs(item)


def _prose(text: str) -> Markup:
    """Text with its words in backquotes as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))).replace("\n", "<br>"))  # noqa: S704 - escaped
