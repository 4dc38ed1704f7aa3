"""Builds the OpenAPI document from the table of routes, the app and the structs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from quart import Quart
from werkzeug.routing import Rule

from audiocpp.daemon.errors import DaemonError, Forbidden, Unauthorized
from audiocpp.daemon.http.openapi.replies import ErrorReply
from audiocpp.daemon.http.openapi.route import JSON, Content, Messages, Parameter, Reply, Route
from audiocpp.daemon.http.openapi.routes import EVERYWHERE, ROUTES
from audiocpp.daemon.http.paths import rule_path

Json = dict[str, Any]

WEBSOCKET = "WEBSOCKET"

_ABOUT = (
    "audio.cpp's server API and OpenAI's audio API. Errors have one form on all routes. Beside what the routes list, a "
    "daemon with too many connections answers 503 before it reads a request, and a method that a route does not take "
    "is answered with 405 and `Allow`. `HEAD` works where `GET` does."
)

_HEADERS = {
    "X-Request-Id": "The request's own, if it is a plain token, else a new one; the log has it too.",
    "Server-Timing": "Where the time went, in ms: `queue`, `load`, `decode`, `run`, `encode`, `total`.",
}


def build_document(app: Quart, *, version: str) -> Json:
    """Describes every route of `app`. Raises `KeyError` for one that the table does not have."""
    schemas = _Schemas()
    paths: Json = {}
    for rule in app.url_map.iter_rules():
        says = app.view_functions[rule.endpoint].__doc__ or ""
        for method in methods_of(rule):
            route = ROUTES[method, rule_path(rule)]
            shown = "get" if method == WEBSOCKET else method.lower()
            operation = _operation(rule, route, says, schemas)
            paths.setdefault(rule_path(rule), {})[shown] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "audiocpp", "version": version, "description": _ABOUT, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "Asked for where `api_keys` are configured."}
            },
            "headers": {name: _header(text) for name, text in _HEADERS.items()},
            "schemas": schemas.components(),
        },
    }


def methods_of(rule: Rule) -> Iterator[str]:
    """Those that the document has."""
    if rule.websocket:
        yield WEBSOCKET
        return
    yield from sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})


class _Schemas:
    """References to types, and in the end the schemas of all that were referred to."""

    def __init__(self) -> None:
        self._kinds: list[Any] = []

    def of(self, kind: Any) -> Json:  # noqa: ANN401 - any type that msgspec describes
        self._kinds.append(kind)
        ((schema,), _) = _described([kind])
        return schema

    def components(self) -> Json:
        _, components = _described(self._kinds)
        return dict(sorted(components.items()))


def _described(kinds: list[Any]) -> tuple[tuple[Json, ...], Json]:
    return msgspec.json.schema_components(kinds, schema_hook=_any_value, ref_template="#/components/schemas/{name}")


def _any_value(kind: type) -> Json:
    """Members that may hold anything."""
    if kind is not object:
        raise NotImplementedError(kind)
    return {"description": "Any value."}


def _operation(rule: Rule, route: Route, says: str, schemas: _Schemas) -> Json:
    summary, _, more = says.strip().partition("\n")
    operation: Json = {
        "operationId": rule.endpoint.rpartition(".")[2],
        "tags": [route.tag],
        "summary": summary,
        "responses": {
            str(route.status): _reply(route.reply, schemas),
            **_errors((*EVERYWHERE, Forbidden, *(() if route.open else (Unauthorized,)), *route.errors), schemas),
        },
    }
    if text := " ".join(more.split()):
        operation["description"] = text
    if parameters := [*_path_parameters(rule), *(_parameter(row, schemas) for row in route.query)]:
        operation["parameters"] = parameters
    if route.body:
        operation["requestBody"] = {"required": True, "content": _contents(route.body, schemas)}
    if route.open:
        operation["security"] = []
    if route.messages is not None:
        operation["x-websocket"] = _messages(route.messages, schemas)
    return operation


def _path_parameters(rule: Rule) -> Iterator[Json]:
    for name in sorted(rule.arguments):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _parameter(row: Parameter, schemas: _Schemas) -> Json:
    schema = schemas.of(row.kind)
    if row.default is not None:
        schema = {**schema, "default": row.default}
    return {
        "name": row.name,
        "in": "query",
        "required": row.required,
        "description": row.description,
        "schema": schema,
    }


def _reply(reply: Reply, schemas: _Schemas) -> Json:
    described: Json = {"description": reply.description, "headers": _headers(reply.headers)}
    if reply.contents:
        described["content"] = _contents(reply.contents, schemas)
    return described


def _errors(kinds: Iterable[type[DaemonError]], schemas: _Schemas) -> Json:
    """By status; the description lists the codes."""
    by_status: dict[int, dict[str, str]] = {}
    for kind in kinds:
        says = (kind.__doc__ or "").partition("\n")[0]
        by_status.setdefault(kind.status, {})[kind.code] = says
    return {
        str(status): {
            "description": "\n".join(f"`{code}`: {text}" for code, text in codes.items()),
            "headers": _headers({"Retry-After": "Seconds."} if status == 503 else {}),
            "content": {JSON: {"schema": schemas.of(ErrorReply)}},
        }
        for status, codes in sorted(by_status.items())
    }


def _contents(contents: Iterable[Content], schemas: _Schemas) -> Json:
    return {content.media_type: _content(content, schemas) for content in contents}


def _content(content: Content, schemas: _Schemas) -> Json:
    if content.events:
        return {"schema": {"type": "string"}, "x-events": [schemas.of(kind) for kind in content.events]}
    match content.kind:
        case None:
            return {}
        case tuple(kinds):
            return {"schema": {"anyOf": [schemas.of(kind) for kind in kinds]}}
        case kind:
            return {"schema": schemas.of(kind)}


def _messages(messages: Messages, schemas: _Schemas) -> Json:
    return {
        "binary": messages.binary,
        "send": [schemas.of(kind) for kind in messages.sent],
        "receive": [schemas.of(kind) for kind in messages.received],
        "closeCodes": {str(code): text for code, text in messages.close_codes.items()},
    }


def _headers(more: Mapping[str, str]) -> Json:
    named = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}
    return named | {name: _header(text) for name, text in more.items()}


def _header(text: str) -> Json:
    return {"description": text, "schema": {"type": "string"}}
