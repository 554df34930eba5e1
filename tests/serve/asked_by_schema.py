"""Tests that test_schema.py runs in a process of their own: schemathesis changes hypothesis for all tests beside it."""

from contextlib import closing

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as of_openapi

import grinch
from effort import trials
from grinch.serve.api.app import make_app
from grinch.serve.api.guard import Settings
from grinch.serve.api.service import Service
from grinch.serve.views.viewer import Viewer
from serving import some_rows

CHECKS = [
    *(not_a_server_error, of_openapi.status_code_conformance, of_openapi.content_type_conformance),
    *(of_openapi.response_headers_conformance, of_openapi.response_schema_conformance),
    *(of_openapi.negative_data_rejection, of_openapi.unsupported_method),
]
EXAMPLES = trials(3, 100)
TAGS = ["points", "clusters", "changes", "tree", "service", "look"]
# They do not end.
STREAMS = ["/v1/changes/stream", "/api/events"]
HEADERS = {"Host": "localhost"}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    store, ids = grinch.open(tmp_path_factory.mktemp("store"), n_clusters=3), [f"p{i}" for i in range(20)]
    store.insert(some_rows(20), ids=ids, payload=[{"text": f"point {i}"} for i in range(20)])
    with closing(Service(store, Settings(max_body=100_000))) as service:
        yield make_app(Viewer(service.backend), service=service)


@pytest.fixture(scope="module")
def operations(app):
    """By tag, the operations that are described."""
    described = schemathesis.openapi.from_asgi("/openapi.json", app, headers=HEADERS)
    found = [result.ok() for result in described.get_all_operations()]
    return {tag: [one for one in found if tag in one.tags and one.path not in STREAMS] for tag in TAGS}


@schemathesis.serializer("application/x-npy", "application/x-npz", "application/vnd.apache.arrow.stream")
def as_bytes(context, value):
    """Bodies of arrays, of any bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("tag", TAGS)
def test_answers_are_as_described(operations, tag, mode):
    assert operations[tag]
    # What the page asks may have further parameters.
    checks = [check for check in CHECKS if tag != "look" or check is not of_openapi.negative_data_rejection]
    for operation in operations[tag]:
        try:
            cases = operation.as_strategy(generation_mode=mode)
        except schemathesis.errors.InvalidSchema:
            continue

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=cases)
        def ask(case):
            case.call_and_validate(headers=HEADERS, checks=checks)

        try:
            ask()
        except Unsatisfiable:
            # Nothing can be wrong with a request that has neither parameters nor a body.
            assert mode is schemathesis.GenerationMode.NEGATIVE
