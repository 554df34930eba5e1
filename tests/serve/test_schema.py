"""The service does what its own description says, asked by schemathesis."""

import subprocess
import sys
from pathlib import Path

import grinch
from grinch.serve.api.app import make_app
from grinch.serve.api.guard import Settings
from grinch.serve.api.service import Service
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views.viewer import Viewer
from serving import TOKEN


def test_answers_are_as_described():
    command = [sys.executable, "-m", "pytest", str(Path(__file__).with_name("asked_by_schema.py"))]
    asked = subprocess.run(command, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stdout + asked.stderr


def test_every_route_is_described():
    service = Service(ModelBackend(grinch.Tree.from_newick("(a,b);")), Settings(token=TOKEN))
    described = make_app(Viewer(service.backend), service=service).openapi()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            name = f"{method} {path}"
            is_open = path.startswith("/health")
            assert operation["security"] == ([] if is_open else [{"token": []}]), name
            if path.startswith("/v1"):
                assert operation["description"], name
                statuses = {"200", "401", "403", "413", "421", "422", "500", "503", "507"}
                assert statuses <= operation["responses"].keys(), name
    assert described["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
