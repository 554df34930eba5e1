"""grinch serve on the command line: what is refused before it listens."""

import pytest
from typer.testing import CliRunner

from grinch import Grinch
from grinch.cli.app import app
from grinch.serve.api import app as server
from serving import TOKEN, some_rows


@pytest.fixture
def served(monkeypatch):
    """What would have been served."""
    found = {}

    def run(application, listening, *, ready, stop=None):
        found.update(port=listening.getsockname()[1], application=application)
        ready()

    monkeypatch.setattr(server, "run", run)
    monkeypatch.delenv("GRINCH_TOKEN", raising=False)
    return found


def invoked(*arguments):
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def test_it_says_where_it_is(tmp_path, served):
    found = invoked(tmp_path / "news", "--port", 0, "--clusters", 4)
    assert found.exit_code == 0, found.output
    assert "a new store is created" in found.output.replace("\n", " ")
    assert f"http://127.0.0.1:{served['port']}/" in found.output


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_beyond_this_machine_a_token_is_needed(tmp_path, served, host, monkeypatch):
    found = invoked(tmp_path / "news", "--port", 0, "--host", host)
    assert isinstance(found.exception, ValueError)
    assert "a token is needed" in str(found.exception)
    assert "secrets.token_urlsafe" in str(found.exception)
    assert not served
    assert not (tmp_path / "news").exists()
    monkeypatch.setenv("GRINCH_TOKEN", TOKEN)
    if host == "0.0.0.0":
        assert invoked(tmp_path / "news", "--port", 0, "--host", host).exit_code == 0
        assert served["port"]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read"), (b"", "is empty"), (b"\xff", "cannot be read"), (b"short", "16")]
)
def test_a_token_file_is_checked(tmp_path, served, content, message):
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    found = invoked(tmp_path / "news", "--port", 0, "--token-file", tmp_path / "token")
    assert message in str(found.exception)
    assert not served


def test_a_model_is_served_with_a_token_from_a_file(tmp_path, served):
    Grinch(n_clusters=2).fit(some_rows(10)).save(tmp_path / "model.grinch")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    found = invoked(tmp_path / "model.grinch", "--port", 0, "--token-file", tmp_path / "token")
    assert "10 points, read-only" in found.output
    assert served["application"].openapi()["components"]["securitySchemes"]


def test_what_is_not_there_is_not_read_and_a_port_that_is_taken_is_named(tmp_path, served):
    assert "does not exist" in str(invoked(tmp_path / "news", "--read-only").exception)
    (tmp_path / "note.txt").write_text("hello")
    assert "cannot be opened; accepted are a store" in str(invoked(tmp_path / "note.txt").exception)
    with server.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        found = invoked(tmp_path / "news", "--port", port)
    assert isinstance(found.exception, OSError)
    assert str(port) in str(found.exception)
