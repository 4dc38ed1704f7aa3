"""Writes the tables of the documentation that mirror code, between their markers. `make fix` runs it."""

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect
from quart_trio import QuartTrio
from werkzeug.routing import Rule

from audiocpp.daemon import errors as daemon_errors
from audiocpp.daemon.config import LiveIngest, ModelConfig, ServerConfig, VoicePreset
from audiocpp.daemon.config.model import INERT, MAX_MS
from audiocpp.daemon.errors import DaemonError
from audiocpp.daemon.flags import flag_parser
from audiocpp.daemon.http.app import BLUEPRINTS
from audiocpp.daemon.http.speech import STREAMED_CONTENT_TYPES
from audiocpp.daemon.http.speech_request import CONTENT_TYPES, STREAM_FORMATS, SpeechBody
from audiocpp.daemon.http.task_artifacts import Artifact
from audiocpp.daemon.http.task_request import RequestObject
from audiocpp.daemon.http.transcription_request import TranscriptionBody
from audiocpp.daemon.live.session import CLOSE_CODES
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.spec import ModelSpec, OptionSpec, PackageSpec

DOCS = Path(__file__).parent
SECTION = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def updated(text: str) -> str:
    """`text` with the tables in it as the code has them now. Raises `KeyError` for a table that does not exist."""
    return SECTION.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}", text)


def main() -> None:
    for path in (*DOCS.rglob("*.md"), DOCS.parent / "README.md"):
        text = path.read_text(encoding="utf-8")
        if (new := updated(text)) != text:
            path.write_text(new, encoding="utf-8")


def keys(struct: type[msgspec.Struct]) -> str:
    """One row for each key of a configuration struct."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return table(("Key", "Type", "Default", "Meaning"), (_key_row(field, struct) for field in info.fields))


def packages() -> str:
    """One row for each package that can be pulled."""
    head = ("Package", "Family", "Tasks", "Modes", "Languages", "Size", "Licence")
    return table(head, (_package_row(spec, package) for spec, package in Catalog.load().packages()))


def request_options() -> str:
    """One row for each option that a family takes with a request."""
    rows = (
        (f"`{spec.family}`", f"`{row.name}`", *_option_cells(row))
        for spec in Catalog.load().families.values()
        for row in spec.options.request
    )
    return table(("Family", "Option", "Type", "Default", "Meaning"), rows)


def model_options() -> str:
    """One row for each option that a family takes when it loads."""
    rows = (
        (f"`{scope}_options`", f"`{spec.family}.{row.name}`", *_option_cells(row))
        for spec in Catalog.load().families.values()
        for scope, rows in (("load", spec.options.load), ("session", spec.options.session))
        for row in rows
    )
    return table(("Key", "Option", "Type", "Default", "Meaning"), rows)


def routes() -> str:
    """One row for each route, with the first line of what its function says of itself."""
    app = QuartTrio("audiocpp", static_folder=None)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    return table(("Method", "Path", "What it does"), (_route_row(app, rule) for rule in app.url_map.iter_rules()))


def _route_row(app: QuartTrio, rule: Rule) -> tuple[str, ...]:
    method = "WebSocket" if rule.websocket else ", ".join((rule.methods or set()) - {"HEAD", "OPTIONS"})
    said = app.view_functions[rule.endpoint].__doc__ or ""
    return method, f"`{rule.rule.replace('<path:model_id>', 'ID')}`", said.partition("\n")[0]


def errors() -> str:
    """One row for each error that a client can see."""
    known = vars(daemon_errors).values()
    kinds = [kind for kind in known if isinstance(kind, type) and issubclass(kind, DaemonError)]
    rows = (
        (str(kind.status), f"`{kind.type}`", f"`{kind.code}`", (kind.__doc__ or "").partition("\n")[0])
        for kind in sorted(kinds, key=lambda kind: (kind.status, kind.code))
        if kind is not DaemonError
    )
    return table(("Status", "Type", "Code", "When"), rows)


def speech_formats() -> str:
    """One row for each format of speech."""
    rows = ((f"`{name}`", f"`{kind}`", *_streams(name)) for name, kind in CONTENT_TYPES.items())
    return table(("`response_format`", "Content type", "In a stream", "Its content type"), rows)


def _streams(name: str) -> tuple[str, str]:
    kinds = ", ".join(f"`{kind}`" for kind, names in STREAM_FORMATS.items() if name in names)
    return kinds, f"`{STREAMED_CONTENT_TYPES[name]}`"


def flags() -> str:
    """One row for each flag of `audiocppd`."""
    return table(("Flag", "What it does"), (_flag_row(action) for action in flag_parser()._actions))


def _flag_row(action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    words = "|".join(str(choice) for choice in action.choices) if action.choices else action.metavar
    takes_value = action.nargs != 0
    return f"{names} {words or action.dest.upper()}" if takes_value else names, action.help or ""


def close_codes() -> str:
    return table(("Code", "When"), ((str(code), meaning) for code, meaning in CLOSE_CODES.items()))


TABLES: dict[str, Callable[[], str]] = {
    "server-keys": lambda: keys(ServerConfig),
    "model-keys": lambda: keys(ModelConfig),
    "live-ingest-keys": lambda: keys(LiveIngest),
    "voice-preset-keys": lambda: keys(VoicePreset),
    "packages": packages,
    "request-options": request_options,
    "model-options": model_options,
    "routes": routes,
    "speech-formats": speech_formats,
    "speech-members": lambda: keys(SpeechBody),
    "transcription-members": lambda: keys(TranscriptionBody),
    "task-members": lambda: keys(RequestObject),
    "artifact-members": lambda: keys(Artifact),
    "errors": errors,
    "flags": flags,
    "close-codes": close_codes,
}


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _package_row(spec: ModelSpec, package: PackageSpec) -> tuple[str, ...]:
    return (
        f"`{package.id}`",
        f"`{spec.family}`",
        ", ".join(spec.tasks),
        ", ".join(spec.modes),
        ", ".join(package.languages) or "any",
        f"{package.size_bytes / 1e6:.1f} MB",
        package.license.spdx,
    )


def _option_cells(row: OptionSpec) -> tuple[str, ...]:
    values = ", ".join(f"`{value}`" for value in row.values)
    low, high = ("" if bound is None else f"{bound:g}" for bound in (row.min, row.max))
    bounds = f", {low}..{high}" if low or high else ""
    default = "" if row.default is None else f"`{msgspec.json.encode(row.default).decode()}`"
    return values or f"{row.type}{bounds}", default, row.description


def _key_row(field: inspect.Field, struct: type[msgspec.Struct]) -> tuple[str, ...]:
    description = ""
    kind = field.type
    if isinstance(kind, inspect.Metadata):
        description, kind = (kind.extra_json_schema or {}).get("description", ""), kind.type
    if field.name in INERT.get(struct, ()):
        description += " *No effect in this version.*"
    return f"`{field.name}`", _type(kind), _default(field), description


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:
        return ""  # msgspec.UNSET: absent is not the same as null
    value: Any = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if isinstance(value, msgspec.Struct):
        return "see below"
    return "" if value is None else f"`{msgspec.json.encode(value).decode()}`"


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata():
            return _type(kind.type)
        case inspect.UnionType():
            return " or ".join(_type(one) for one in kind.types if not isinstance(one, inspect.NoneType))
        case inspect.LiteralType():
            return ", ".join(f"`{msgspec.json.encode(value).decode()}`" for value in kind.values)
        case inspect.IntType() | inspect.FloatType():
            return _number(kind)
        case inspect.VarTupleType() | inspect.ListType():
            return f"array of {_type(kind.item_type)}s"
        case inspect.StructType() | inspect.DictType(value_type=inspect.AnyType() | inspect.CustomType()):
            return "object"
        case inspect.DictType():
            return f"object of {_type(kind.value_type)}s"
        case inspect.CustomType(cls) if cls is Path:
            return "path"
        case inspect.AnyType() | inspect.CustomType():
            return "value"
        case _:
            return {inspect.StrType: "string", inspect.BoolType: "boolean"}[type(kind)]


def _number(kind: inspect.IntType | inspect.FloatType) -> str:
    name = "integer" if isinstance(kind, inspect.IntType) else "number"
    low = f" > {kind.gt}" if kind.gt is not None else f" >= {kind.ge}" if kind.ge is not None else ""
    high = f", <= {kind.le}" if kind.le is not None and kind.le < MAX_MS else ""
    return f"{name}{low}{high}"


if __name__ == "__main__":
    main()
