"""Schemathesis: what the description promises is what is answered, whatever is sent."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.advisor import Advisor
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.workers import Workers

from .conftest import made

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
    for parts in made(tmp_path_factory.mktemp("service"), advisor, workers, backends):
        yield schemathesis.openapi.from_asgi("/openapi.json", create_app(parts))


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_operation_keeps_what_its_description_says(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=_CHECKS)
