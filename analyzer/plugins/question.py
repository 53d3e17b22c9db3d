"""A question is declared once: command-line options and the HTTP schema both come from its fields."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, DirectoryPath, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo

from epochcast.analyzer.errors import InputError

GpuName = Annotated[str, Field(min_length=1, max_length=100, description="Any name that the GPU catalogue knows.")]

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _no_file(name: str) -> str:
    if name.lower().endswith(".onnx"):
        raise ValueError(f"the network {name!r} looks like a file name; name one of torchvision or timm")
    return name


LibraryName = Annotated[
    str,
    Field(
        # No slash and no dots in a row, which a path has; a colon only after a library, as an import path has one too.
        pattern=r"^((torchvision|timm):)?[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*$",
        max_length=100,
        description="A network of torchvision or timm by its name there, or torchvision:NAME or timm:NAME.",
    ),
    AfterValidator(_no_file),
]
"""A network as it may be named over HTTP: a name of a library, never something that runs code, reads a file or asks a host."""


@dataclass(frozen=True)
class Http:
    """Marks a field that may be asked over HTTP. Fields without it are for the command line alone.

    Attributes:
        kind: a stricter type over HTTP, which may have a description of its own; None: the field's own.
        required: whether it must be given, though it has a default elsewhere.
        only: whether the command has no option for it.
    """

    kind: Any = None
    required: bool = False
    only: bool = False


@dataclass(frozen=True)
class Option:
    """How a field reads on the command line, where that is not ``--field-name``.

    Attributes:
        name: of the option.
        metavar: of its value.
        default: what the help says where the field has no value of its own.
        unit: of a bare number (``minutes``, ``GiB``); text may name another. The field itself is in seconds or bytes.
        value: what the option gives the field, as a flag.
        help: of such a flag.
    """

    name: str = ""
    metavar: str = ""
    default: str = ""
    unit: str = ""
    value: str = ""
    help: str = ""


class Body(BaseModel):
    """A question as it comes over HTTP: numbers as numbers (no text for one), nothing that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Question(BaseModel):
    """What a backend is asked. Fields marked with :class:`Http` may be asked over HTTP, the others on the command line."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    body: ClassVar[type[Body]] = Body
    """What the HTTP schema starts from."""

    @classmethod
    def of_body(cls, body: Body, models: Mapping[str, Path], **more: Any) -> Self:
        """The question of a request.

        Args:
            body: a :func:`body_of` this class.
            models: folders of fitted models by the names that the service's configuration gives them.
            more: fields that a request has in another way.

        Raises:
            InputError: what was sent cannot be read, or no model has the name.
        """
        fields = {name: value for name, value in body if name in cls.model_fields}
        folders = [name for name in fields if cls.model_fields[name].annotation == Path | None]
        return cls.of(fields | {name: _folder_named(models, fields[name]) for name in folders} | more)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """From checked fields; raises InputError where they do not go together."""
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InputError(sentence(error)) from error


class NetworkQuestion(Question):
    """A question on a network. Over HTTP it is named; import paths and files are for the command line."""

    network: Annotated[
        str,
        Http(LibraryName, required=True),
        Option(metavar="NETWORK"),
        Field(description="Network: a name in torchvision or timm, package.module:factory, or FILE.onnx."),
    ]


_REMEDIES = {
    "greater_than": "a number above {gt:.10g}",
    "greater_than_equal": "{ge:.10g} or more",
    "less_than": "a number below {lt:.10g}",
    "less_than_equal": "{le:.10g} or less",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "date_from_datetime_parsing": "a date as YYYY-MM-DD",
}
"""By pydantic's name for what is wrong with a number or a date."""


def sentence(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """What is wrong with the first wrong field, which ``names`` may call otherwise."""
    first = error.errors()[0]
    reason = str(first["ctx"]["error"]) if "error" in first.get("ctx", {}) else first["msg"][:1].lower() + first["msg"][1:]
    if not first["loc"]:
        return reason
    field = (names or {}).get(str(first["loc"][0]), str(first["loc"][0]))
    if remedy := _REMEDIES.get(first["type"]):
        seen = f"{first['input']:g}" if isinstance(first["input"], float) else f"{first['input']!r:.60}"
        return f"{field} is {seen}; give {remedy.format(**first.get('ctx', {}))}"
    return f"{field} is missing; give it" if first["type"] == "missing" else f"{field} is {first['input']!r:.60}: {reason}"


@cache
def body_of(question: type[Question]) -> type[Body]:
    """The model of a question's requests over HTTP: the fields marked with :class:`Http`."""
    fields: dict[str, Any] = {}
    for name, field in question.model_fields.items():
        mark = next((mark for mark in field.metadata if isinstance(mark, Http)), None)
        if mark is None:
            continue
        own = copy(field)
        own.metadata = [each for each in field.metadata if not isinstance(each, Http | Option)]
        option = next((mark for mark in field.metadata if isinstance(mark, Option)), Option())
        if option.default:
            own.description = f"{own.description} Default: {option.default}."
        if mark.kind is not None:
            description = FieldInfo.from_annotation(mark.kind).description or own.description
            default = {} if mark.required else {"default": own.default}
            own = FieldInfo(**default, description=description)
        fields[name] = (mark.kind or field.annotation, own)
    extra = question.model_config.get("json_schema_extra")
    body: type[Body] = create_model(
        question.__name__, __base__=question.body, __module__=question.__module__, __doc__=question.__doc__, **fields
    )
    if extra is not None:
        body.model_config = {**body.model_config, "json_schema_extra": extra}
        body.model_rebuild(force=True)
    return body


ModelFolder = Annotated[
    Path | None,
    Http(Name | None),
    Option(metavar="DIR", default="the shipped one"),
]
"""A fitted model: a folder on the command line, or over HTTP a name from the service's configuration."""


def model_folders(backend: str, own: Mapping[str, Any]) -> dict[str, Path]:
    """The table ``models`` of ``[backends.NAME]``: folders of fitted models by name, as a question over HTTP never has a path.

    Raises:
        InputError: ``own`` has something else, or a folder that is not there.
    """
    try:
        if unknown := sorted(set(own) - {"models"}):
            raise ValueError(f"unknown setting {unknown[0]!r}")
        return TypeAdapter(dict[str, DirectoryPath]).validate_python(own.get("models", {}))
    except ValueError as error:
        wrong = sentence(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(
            f"[backends.{backend}] takes models = {{NAME = DIR}} alone, of folders that exist ({wrong})"
        ) from error


def _folder_named(known: Mapping[str, Path], name: str | None) -> Path:
    """The folder of a model; where none is named, of the only one; raises InputError where that is not clear."""
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name is None or name not in known:
        which = "several models are configured" if name is None else f"no model {name!r:.60} is configured"
        raise InputError(f"{which}; name one of {', '.join(known) or 'none'}")
    return known[name]
