"""Who may ask a server what: names, origins, tokens, sizes; and what a browser learns of it."""

import asyncio
import http.client
import json
import re
import socket
import time
from contextlib import ExitStack, closing, suppress

import pytest

import grinch
from grinch.serve.api import connection_limits
from grinch.serve.api.guard import Settings
from serving import TOKEN, serving, some_rows, streamed


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with serving(grinch.open(tmp_path_factory.mktemp("plain"), n_clusters=2), max_body=2_000) as served:
        served.post("/v1/insert", {"X": some_rows(5).tolist(), "ids": list("abcde")})
        yield served


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with serving(grinch.open(tmp_path_factory.mktemp("locked")), token=TOKEN) as served:
        yield served


@pytest.fixture(autouse=True)
def _unchanged(request):
    """Whatever is refused changes nothing, and the process goes on."""
    yield
    if "plain" in request.fixturenames:
        plain = request.getfixturevalue("plain")
        status, about = plain.get("/v1/info")
        assert (status, about["version"], about["points"]) == (200, 1, 5)


OTHER_HOSTS = ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "127.0.0.2", "", "[::2]"]
OWN_HOSTS = ["127.0.0.1", "localhost", "LOCALHOST:1234", "[::1]:80"]


@pytest.mark.parametrize("host", OTHER_HOSTS + OWN_HOSTS)
def test_names_of_this_machine_are_accepted_on_any_port_and_no_others(plain, host):
    status, said = plain.get("/v1/info", Host=host)
    assert status == (200 if host in OWN_HOSTS else 421)
    assert host in OWN_HOSTS or "--allow-host" in said["error"]


def test_what_may_be_named_further(tmp_path):
    """Hosts with their ports, and a notebook that may frame the page."""
    framing = ("'self'", "http://localhost:*")
    hosts = ("news.example.org", "other.example:81")
    with serving(grinch.open(tmp_path), hosts=hosts, frame_ancestors=framing) as served:
        for host, status in {"news.example.org:8080": 200, "other.example:81": 200, "other.example:82": 421}.items():
            assert served.get("/v1/info", Host=host)[0] == status, host
        served.get("/")
        assert served.headers["Content-Security-Policy"].endswith("frame-ancestors 'self' http://localhost:*")


OTHER_SITES = ["http://evil.example", "http://127.0.0.1:1", "https://localhost"]
NO_SITES = ["null", "file://", "chrome-extension://x", "", "http://["]


@pytest.mark.parametrize("origin", OTHER_SITES + NO_SITES)
def test_pages_of_others_are_refused(plain, origin):
    for asked in (("GET", "/v1/info"), ("POST", "/v1/insert", {"X": [[1, 2, 3, 4]], "ids": ["f"]})):
        status, said = plain.ask(*asked, Origin=origin)
        assert status == 403
        assert "Origin" in said["error"]


def test_answers_are_for_no_other_origin(plain):
    assert plain.get("/v1/info", Origin=plain.url.rstrip("/"))[0] == 200
    assert not [name for name in plain.headers if name.lower().startswith("access-control")]
    assert plain.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert plain.ask("OPTIONS", "/v1/insert", Origin="http://evil.example")[0] == 403


def test_a_page_of_another_site_may_lead_here_but_not_fetch(plain):
    navigating = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert plain.get("/", **navigating)[0] == 200
    assert plain.get("/v1/tree", **navigating)[0] == 403
    assert plain.get("/api/about", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert plain.get("/api/about", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")[0] == 403
    assert plain.get("/api/about", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200


def test_the_page_runs_its_own_scripts_alone(plain):
    status, page = plain.get("/")
    policy = plain.headers["Content-Security-Policy"]
    nonce = re.search(r"'nonce-([^']+)'", policy)[1]
    assert status == 200
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert f'nonce="{nonce}"'.encode() in page
    plain.get("/")
    assert nonce not in plain.headers["Content-Security-Policy"]


# Tokens ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/v1/info", "/api/about", "/metrics", "/openapi.json", "/page/x.js", "/nowhere"])
def test_without_the_token_nothing_is_said(locked, path):
    wrong = ("Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xff")
    for headers in ({}, *({"Authorization": given} for given in wrong)):
        status, said = locked.get(path, **headers)
        assert status == 401
        assert "Authorization: Bearer" in said["error"]
        assert locked.headers["WWW-Authenticate"] == "Bearer"


def test_without_the_token_nothing_is_changed(locked):
    body = {"X": [[1, 2]], "ids": ["a"]}
    assert locked.post("/v1/insert", body)[0] == 401
    assert locked.post("/v1/insert", body, Authorization="Bearer not-this-one-at-all")[0] == 401
    assert locked.get("/v1/info", Authorization=f"Bearer {TOKEN}")[1]["version"] == 0


def test_health_needs_no_token(locked):
    assert locked.get("/health/live") == (200, {"status": "alive"})
    assert locked.get("/health/ready") == (200, {"status": "ready"})


def test_a_browser_gets_a_cookie_for_the_token(locked):
    assert locked.get("/?token=wrong")[0] == 401
    assert locked.get(f"/v1/info?token={TOKEN}")[0] == 401, "only the page takes it from the address"
    status, _ = locked.get(f"/?token={TOKEN}")
    cookie = locked.headers["Set-Cookie"]
    assert (status, locked.headers["Location"]) == (303, "/")
    assert {"httponly", "samesite=strict", "path=/"} <= set(cookie.lower().split("; "))
    assert TOKEN not in cookie
    assert locked.get("/", Cookie=cookie.split(";")[0])[0] == 200
    assert locked.get("/v1/info", Cookie=cookie.split(";")[0])[0] == 200
    assert locked.get("/v1/info", Cookie=cookie.split(";")[0] + "0")[0] == 401
    assert locked.get("/v1/info", Cookie="grinch-x=; =;;")[0] == 401


@pytest.mark.parametrize("before", ['x={"a":1}', "=;;", "a b=c", "{name}=wrong", "\xff=\xfe"])
def test_cookies_of_others_do_no_harm(locked, before):
    locked.get(f"/?token={TOKEN}")
    cookie = locked.headers["Set-Cookie"].split(";")[0]
    before = before.replace("{name}", cookie.partition("=")[0])
    assert locked.get("/v1/info", Cookie=f"{before}; {cookie}")[0] == 200
    assert locked.get("/v1/info", Cookie=f"{before}; {cookie}0")[0] == 401


@pytest.mark.parametrize(
    "token", ["", "short", "fifteen-letters", "with spaces in it, and long", "ünicode-and-long-enough"]
)
def test_a_token_is_long_and_plain(token):
    with pytest.raises(ValueError, match="token must"):
        Settings(token=token)


# Sizes ----------------------------------------------------------------------------------------------------------------


BEARER = f"Authorization: Bearer {TOKEN}"
HEAD = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
INSERT = HEAD.replace(b"predict", b"insert")


def connected(served):
    return socket.create_connection(("127.0.0.1", served.port), timeout=30)


def said_until_closed(connection, *sent):
    """All that comes until the other end closes the connection, after some was sent."""
    found = b""
    for part in sent:
        connection.sendall(part)
    with suppress(ConnectionResetError):
        while part := connection.recv(10_000):
            found += part
    return found


def test_a_large_body_in_chunks_is_refused(plain):
    chunk = b"3e8\r\n" + b"[" * 1000 + b"\r\n"
    with connected(plain) as connection:
        connection.sendall(INSERT + b"Transfer-Encoding: chunked\r\n\r\n" + 2 * chunk + b"1\r\n[\r\n")
        assert b" 413 " in connection.recv(10_000).split(b"\r\n")[0]


SIZES = {
    "/api/names json": 20,
    "/v1/label json": 20,
    "/api/place json": 22,
    "/v1/insert json": 24,
    "/v1/insert x-npy": 26,
}


@pytest.mark.parametrize("asked", SIZES)
def test_how_large_a_body_may_be_goes_by_what_is_sent(locked, asked):
    (path, kind), most = asked.split(), 2 ** SIZES[asked]
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\nContent-Type: application/{kind}\r\n"
    with connected(locked) as connection:
        sent = f"{head}Connection: close\r\nContent-Length: {most + 1}\r\n\r\n"
        answer = said_until_closed(connection, sent.encode())
    assert answer.startswith(b"HTTP/1.1 413")
    assert f"at most {most:,} bytes".encode() in answer


def test_what_is_compressed_ends_early_or_is_no_http_is_refused(plain):
    status, said = plain.post("/v1/insert", b"\x1f\x8b", Content_Encoding="gzip")
    assert status == 415
    assert "Content-Encoding" in said["error"]
    with connected(plain) as connection:
        connection.sendall(INSERT + b'Content-Length: 1000\r\n\r\n{"X": [[1, 2, 3, 4]], "ids": ["f"]}')
    with connected(plain) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http at all\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")


# Connections that do not go on ----------------------------------------------------------------------------------------


HEALTH = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALVES = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: x",
    "half a body": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    "half a head behind another": HEALTH + HEAD,
    "half a body behind": HEALTH + HEAD + b"Content-Length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("half", HALVES)
def test_half_a_request_is_not_waited_for_long(plain, monkeypatch, caplog, half):
    monkeypatch.setattr(connection_limits, "STALL_TIMEOUT", 0.1)
    with connected(plain) as connection:
        said = said_until_closed(connection, HALVES[half])
        assert said.count(b"HTTP/1.1 200") == HALVES[half].count(b"/health/live")
    plain.get("/health/live")
    assert "Traceback" not in caplog.text


def test_a_body_that_comes_slowly_is_waited_for(plain, monkeypatch):
    monkeypatch.setattr(connection_limits, "STALL_TIMEOUT", 0.5)
    monkeypatch.setattr(connection_limits, "MIN_PROGRESS", 1)
    body = b'{"X": [[1, 2, 3, 4]]}'
    with connected(plain) as connection:
        connection.sendall(HEAD + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
        for i in range(len(body)):
            time.sleep(0.03)
            connection.sendall(body[i : i + 1])
        assert said_until_closed(connection).startswith(b"HTTP/1.1 200")


def client_of(served):
    return closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=30))


def test_between_requests_a_connection_may_be_idle(plain, monkeypatch):
    monkeypatch.setattr(connection_limits, "STALL_TIMEOUT", 0.3)
    with client_of(plain) as connection:
        connection.connect()
        used = connection.sock
        for _ in range(2):
            connection.request("GET", "/health/live")
            assert connection.getresponse().read() == b'{"status":"alive"}'
            time.sleep(0.5)
        assert connection.sock is used


LISTENING = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\n\r\n".encode()


def listener(stack, served):
    """A connection on which a stream of events has begun."""
    connection = stack.enter_context(connected(served))
    connection.sendall(LISTENING)
    answer = stack.enter_context(connection.makefile("rb"))
    assert answer.readline().startswith(b"HTTP/1.1 200")
    return answer


def test_where_all_connections_are_being_answered_more_are_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(connection_limits, "_said", {})
    with serving(grinch.open(tmp_path), max_connections=3) as served, ExitStack() as stack:
        for _ in range(3):
            listener(stack, served)
        for _ in range(5):
            with connected(served) as connection:
                head, _, body = said_until_closed(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503")
            assert f"Content-Length: {len(body)}".encode() in head
        assert caplog.text.count("more are refused") == 1


UNFINISHED = {
    "nothing": b"",
    "half a head": f"GET / HTTP/1.1\r\nHost: localhost\r\n{BEARER}".encode(),
    "half a body without a token": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "half a body": HEAD + f"{BEARER}\r\nContent-Length: 1000\r\n\r\n{{".encode(),
    "idle without a token": HEALTH,
}


def flood(stack, served, n, kinds):
    """Open connections that do not go on, of several kinds by turns."""
    for i in range(n):
        connection = stack.enter_context(connected(served))
        with suppress(ConnectionError):
            connection.sendall(UNFINISHED[kinds[i % len(kinds)]])


def ask_info(client):
    client.request("GET", "/v1/info", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = client.getresponse()
    assert answer.read()
    assert answer.status == 200


@pytest.mark.parametrize("n", [60, pytest.param(1_500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kinds", [*([kind] for kind in UNFINISHED), list(UNFINISHED)], ids=lambda kinds: kinds[-1])
def test_connections_that_do_not_go_on_keep_nobody_out(tmp_path, monkeypatch, caplog, kinds, n):
    monkeypatch.setattr(connection_limits, "_said", {})
    limit = {"max_connections": 20} if n < 1_000 else {}
    if connection_limits.max_connections(2 * n) < 2 * n:
        pytest.skip(f"a process may not have {2 * n} files open here")
    with serving(grinch.open(tmp_path), token=TOKEN, **limit) as served, ExitStack() as stack:
        flood(stack, served, n, kinds)
        for _ in range(3):
            with client_of(served) as client:
                ask_info(client)
        assert caplog.text.count("are closed for new ones") == 1


def test_who_has_no_token_ends_no_connection_of_who_has_one(tmp_path):
    with serving(grinch.open(tmp_path), token=TOKEN, max_connections=20) as served, ExitStack() as stack:
        stream = listener(stack, served)
        upload = stack.enter_context(connected(served))
        body = json.dumps({"X": [[1, 2, 3, 4]], "ids": ["a"]}).encode()
        head = f"Connection: close\r\n{BEARER}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        upload.sendall(INSERT + head + body[:5])
        with client_of(served) as idle:
            ask_info(idle)
            used = idle.sock
            flood(stack, served, 100, ["nothing", "half a head", "half a body without a token"])
            ask_info(idle)
            assert idle.sock is used
        assert said_until_closed(upload, body[5:]).startswith(b"HTTP/1.1 200")
        assert [data["n"] for _, _, data in streamed(stream, 2)] == [0, 1]


def test_a_full_table_of_files_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(connection_limits, "_said", {})
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(connection_limits.answer_for_loop)
    for _ in range(100):
        loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": OSError(24)})
    loop.call_exception_handler({"message": "something else"})
    loop.close()
    assert caplog.text.count("out of system resource") == 1
    assert caplog.text.count("something else") == 1


def test_the_end_does_not_wait_for_half_a_body(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(connection_limits, "SHUTDOWN_GRACE", 0.05)
    with serving(grinch.open(tmp_path)) as served:
        connection = connected(served)
        connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        served.get("/health/live")
    with connection:
        assert said_until_closed(connection) == b""
    assert "Traceback" not in caplog.text


# Within ---------------------------------------------------------------------------------------------------------------


def test_what_goes_wrong_inside_is_in_the_log_alone(plain, monkeypatch, caplog):
    def broken(ask):
        raise ZeroDivisionError("in /home/somebody/secret.py")

    monkeypatch.setattr(plain.service, "read", broken)
    status, said = plain.get("/v1/info")
    monkeypatch.undo()
    assert status == 500
    number = re.search(r"as ([0-9a-f]{8})$", said["error"])[1]
    assert "secret" not in said["error"]
    assert number in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_damaged_file_of_names_is_said_without_its_path(tmp_path):
    with serving(grinch.open(tmp_path)) as served:
        served.post("/v1/insert", {"X": some_rows(5).tolist(), "ids": list("abcde")})
        name = {"node": 0, "name": "x"}
        served.get("/api/about")
        assert served.post("/api/names", name)[0] == 200
        served.service.backend.names_file.write_bytes(b"damaged" * 1_000)
        status, said = served.post("/api/names", name)
    assert status == 503
    assert str(tmp_path) not in said["error"]
    assert "the log has it as" in said["error"]


@pytest.mark.parametrize(
    "path", ["../settings.py", "..%2f..%2fsettings.py", "%2e%2e/x", "/etc/passwd", "%00", "../api/image/../../x"]
)
def test_no_path_leads_to_a_file(plain, path):
    assert [plain.get(f"/{folder}{path}")[0] for folder in ("page/", "")] == [404, 404]
