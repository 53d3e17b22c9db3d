"""The reference of the HTTP interfaces: the service's from its OpenAPI document, the others' next to their routes."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from markdown import code, head, prose, table
from prometheus_client import CollectorRegistry

from epochcast.agent import api as agent_api
from epochcast.agent import samples
from epochcast.analyzer.node import process as node_api
from epochcast.analyzer.plugins import Settings as PluginSettings
from epochcast.analyzer.plugins.registry import Registry, body
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings

_OURS = "epochcast "  # how the backends that come along name their package

_AGENT = {
    "/metrics": "Prometheus text or OpenMetrics, gzipped if the client accepts it; `name[]` (repeatable): only these families.",
    "/api/v1/samples": (
        "Every sample of a time range. `from`, `to`: unix seconds; `gpu` (label or UUID) and `metric`: repeatable, all unless"
        f" given; `format`: {', '.join(map(code, samples.FORMATS))}."
    ),
    "/api/v1/metrics": "The metric catalogue, and which of its metrics are measured here.",
    "/api/v1/gpus": "Each GPU with its source and why, the sources that were rejected and why, and its static attributes.",
    "/api/v1/processes": "Which processes use which GPU; 404 unless the setting `processes` is on.",
    "/healthz": "200 while samples flow, else 503.",
    "/readyz": "200 once every GPU has delivered samples; else 503, with the GPUs that have not.",
}
_NODE = {
    "/metrics": "Prometheus text or OpenMetrics.",
    "/api/v1/reports": (
        "The report of every GPU: state, job, epochs, profile; `problems`: what is wrong at what it reads. At most 500 "
        "`reports`; with `since`, the `mark` of an earlier answer, those changed since, and of the others "
        "the `pulses` (newest sample, samples, dropped) by UUID; `more`: whether to go on."
    ),
    "/api/v1/epochs": (
        "Epochs that have ended, newest last. `gpu`: its UUID, required; `since`: unix seconds; `limit`: 1 to"
        f" {node_api.MOST_EPOCHS}, {node_api.EPOCHS} unless given."
    ),
    "/healthz": "200 while detection runs, else 503. Needs no token.",
}


def page() -> str:
    """docs/reference/http-api.md."""
    introduction = (
        "Three programs answer HTTP. Errors are JSON with one sentence. [Privacy and security](../privacy-and-security.md)\n"
        "says how to protect them."
    )
    document = _openapi()
    parts = [head("HTTP API", "For programs that query us: every path, parameter and answer.", introduction)]
    parts += ["## Agent (port 9911)", _paths(_AGENT, _known_agent())]
    parts += ["## Node analyzer (port 9912)", _paths(_NODE, _known_node())]
    parts += ["## Service (port 9913)", document["info"]["description"]]
    parts += ["The service describes itself as OpenAPI 3.1 at `/openapi.json`."]
    parts += _operations(document)
    parts += [
        "### Requests to backends",
        "The body of `POST /api/v1/backends/NAME`, for each backend that we ship.",
        *_backends(),
    ]
    parts += ["### Objects in requests and answers", *_schemas(document["components"]["schemas"])]
    return "\n\n".join(filter(None, (part.strip() for part in parts))) + "\n"


def _paths(told: dict[str, str], known: set[str]) -> str:
    if set(told) != known:
        raise SystemExit(f"docs/generate/http_api.py and the code differ in {sorted(set(told) ^ known)}")
    return table(["path", "answer"], [[code(path), meaning] for path, meaning in told.items()])


def _known_agent() -> set[str]:
    node: Any = SimpleNamespace(stores=(), samplers=(), choices=(), config=None, clock=None)
    return set(agent_api.Api(node, CollectorRegistry())._routes)


def _known_node() -> set[str]:
    nothing: Any = SimpleNamespace(reports={}, sources=(), health=SimpleNamespace(gpus=0))
    return set(node_api.Api(nothing, nothing)._routes)


def _openapi() -> dict[str, Any]:
    """The service's description, without operations of single backends: those depend on what is installed."""
    parts: Any = SimpleNamespace(settings=Settings(), registry=CollectorRegistry(), authentication=None, backends=Registry(()))
    return create_app(parts).openapi()


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for tag in document["tags"]:
        yield f"### {tag['name']}"
        yield tag["description"]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation.get("tags") == [tag["name"]]:
                    yield f"#### `{method.upper()} {path}`"
                    yield f"{operation['summary']}. {prose(operation.get('description', ''))}".strip()
                    parameters = [
                        [code(one["name"]), one["in"], _type(one["schema"]), _about(one)]
                        for one in operation.get("parameters", ())
                    ]
                    yield table(["parameter", "in", "type", "meaning"], parameters) if parameters else ""
                    yield _bodies(operation)


def _bodies(operation: dict[str, Any]) -> str:
    asked = operation.get("requestBody", {}).get("content", {})
    good = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    answered = good[0].get("content", {}) if good else {}  # a path parameter may stand for good and bad alike
    lines = [f"Sends {_content(asked)}." if asked else "", f"Answers {_content(answered)}." if answered else ""]
    return " ".join(filter(None, lines))


def _content(content: dict[str, Any]) -> str:
    return " or ".join(
        f"{_type(told['schema'])} as JSON" if kind == "application/json" else code(kind) for kind, told in content.items()
    )


def _backends() -> Iterator[str]:
    for one in Registry.load(PluginSettings(), {}):
        if one.distribution.startswith(_OURS):
            if one.kind is None:
                raise SystemExit(f"the backend {one.name} cannot be described here: {one.why}")
            yield f"#### {one.name}"
            yield prose(one.kind.summary)
            schema = body(one.kind).model_json_schema(ref_template="{model}")
            yield _fields(schema)
            yield from _schemas(schema.get("$defs", {}), level=5)


def _schemas(schemas: dict[str, Any], level: int = 4) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        if "properties" in schema:
            yield f"{'#' * level} {name} object"  # not the name alone: a tag has it too
            yield prose(schema.get("description", ""))
            yield _fields(schema)


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        [code(name), _type(told), "yes" if name in required else "", _about(told)]
        for name, told in schema.get("properties", {}).items()
    ]
    return table(["field", "type", "always there", "meaning"], rows)


def _about(told: dict[str, Any]) -> str:
    text = prose(told.get("description", ""))
    default = told.get("default", told.get("schema", {}).get("default"))
    return text if default in (None, "", [], {}) else f"{text} Unless given: {code(str(default))}.".strip()


def _type(schema: dict[str, Any]) -> str:
    """What a JSON schema lets through, in a word or two."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()}-object)"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"name → {_type(schema['additionalProperties'])}"
    return str(kind)
