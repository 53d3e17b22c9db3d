"""Profiles as JSON under schema ``epochcast.profile/v1``, checked by what `Profile` declares."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from epochcast.regressor.errors import InputError, describe
from epochcast.regressor.profile import Profile, feature_set

SCHEMA = "epochcast.profile/v1"

_ADAPTER = TypeAdapter(Profile)

_LEFT_OUT = ("tensor_clock", "throttled", "held_idle_s", "type", "inference")
"""Where they say nothing: older profiles, and the fingerprints of models fitted on them, stay as they were."""


def profile_json(profile: Profile) -> dict[str, Any]:
    """The profile as JSON values."""
    plain = {each.name: getattr(profile, each.name) for each in fields(profile)}
    for name in _LEFT_OUT:
        if plain[name] is None or plain[name] is False:
            del plain[name]
    return {"schema": SCHEMA} | plain | {"metrics": {name: dict(values) for name, values in profile.metrics.items()}}


def read_profile(data: object) -> Profile:
    """The profile in JSON values of :func:`profile_json`.

    Raises:
        InputError: another schema, a missing or unknown key, or a value that no profile can hold.
    """
    if not isinstance(data, Mapping):
        raise InputError(f"a profile is a JSON object, not {type(data).__name__}; `epochcast profile` writes one")
    if data.get("schema") != SCHEMA:
        raise InputError(f"the profile's schema is {data.get('schema')!r}; this version reads {SCHEMA!r}")
    try:
        profile = _ADAPTER.validate_json(json.dumps({key: value for key, value in data.items() if key != "schema"}))
    except ValidationError as error:
        raise InputError(describe(error, "the profile", [each.name for each in fields(Profile)])) from error
    if profile.feature_set != (held := feature_set(profile.metrics)):
        raise InputError(f"the profile has feature_set {profile.feature_set!r}, but its metrics are {held!r}; correct one")
    return profile


def read_profiles(path: Path) -> list[Profile]:
    """Profiles of a folder of ``*.json``, one JSON file, or JSON lines (``*.jsonl``), in the order of their names or lines.

    Raises:
        InputError: nothing is there, or one of them is not a profile (the message says which).
    """
    if not (path.is_dir() or (path.is_file() and path.suffix in (".json", ".jsonl"))):
        raise InputError(f"no training data at {str(path)!r}; give profiles (*.json, *.jsonl), or a folder of traces")
    texts: dict[str, str] = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the profile {str(file)!r}: {error}") from error
        if file.suffix == ".jsonl":
            texts |= {f"line {number} of {str(file)!r}": line for number, line in enumerate(text.splitlines(), start=1)}
        else:
            texts[file.name] = text or "nothing"
    profiles = []
    for name, text in texts.items():
        if text.strip():
            try:
                profiles.append(read_profile(json.loads(text)))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{name} is not a profile: {error}") from error
    if not profiles:
        raise InputError(f"{str(path)!r} holds no profile: a folder holds *.json, a file *.jsonl one in each line")
    return profiles


def profile_schema() -> dict[str, Any]:
    """The JSON schema of a profile."""
    schema = _ADAPTER.json_schema()
    return schema | {
        "description": f"Summary of one job on one GPU ({SCHEMA}), as `epochcast profile` and the service write it.",
        "properties": {"schema": {"const": SCHEMA, "type": "string"}, **schema["properties"]},
        "required": ["schema", *schema["required"]],
    }
