"""Schemathesis: what the description promises is what is answered, for any request."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.workers import Workers

from .conftest import fill, made

# Left out: positive_data_acceptance. A profile must also be consistent (quartiles in order), which no JSON schema can say, so
# that most made-up ones are rightly refused.
_CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def described(
    tmp_path_factory: pytest.TempPathFactory, advisor: Advisor, workers: Workers, backends: Registry
) -> Iterator[schemathesis.BaseSchema]:
    of_service = Settings(
        state=tmp_path_factory.mktemp("service") / "state.db",
        read_only=False,
        hosts=["testserver", "localhost"],
    )
    for parts in made(of_service, fill, advisor, workers, backends):
        yield schemathesis.openapi.from_asgi("/openapi.json", create_app(parts))


@pytest.mark.parametrize("examples", [3, pytest.param(30, marks=pytest.mark.soak)])
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_operation_keeps_what_its_description_says(
    described: schemathesis.BaseSchema, mode: GenerationMode, examples: int
) -> None:
    # Not by schemathesis' own plug-in, which knows pytest 9.2 too little.
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=_CHECKS, timeout=300)  # a first question loads torch

        try:
            check()
        except Unsatisfiable:  # nothing about it can be wrong
            assert mode is GenerationMode.NEGATIVE and not operation.body, operation.label
        except BaseException as error:
            error.add_note(f"operation: {operation.label}")
            raise
