import base64
import concurrent.futures
import http.client
import logging
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent import auth, server
from epochcast.agent import ticks_first as ticking
from epochcast.agent.config import Config, Web
from epochcast.agent.errors import InputError
from epochcast.agent.server import Server, listen
from epochcast.agent.ticks_first import ticks_first


def hello(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"hello ", environ["PATH_INFO"].encode()])  # no list: no Content-Length, the end must be told otherwise


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Serve applications on free ports until the test ends."""
    with ExitStack() as stack:

        def start(app: Any = hello, host: str = "127.0.0.1", **web: Any) -> Server:
            listening = listen(Config(host=host, port=0, web=Web(**web)), app)
            thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            stack.callback(thread.join, timeout=10)
            stack.callback(listening.server_close)
            stack.callback(listening.shutdown)
            return listening

        yield start


def fetch(
    listening: Server, path: str = "/", context: ssl.SSLContext | None = None, method: str = "GET", **options: Any
) -> tuple[int, dict[str, str], bytes]:
    """Return (status, headers, body) of one request."""
    host, port = listening.server_address[:2]
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection(str(host), int(port), timeout=10)
    else:
        connection = http.client.HTTPSConnection(str(host), int(port), timeout=10, context=context)
    try:
        connection.request(method, path, **options)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


# --- plain HTTP


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_answers_on_both_families(serve: Any, host: str) -> None:
    try:
        listening = serve(host=host)
    except InputError:
        if host == "::1":
            pytest.skip("no IPv6 on this machine")
        raise
    status, headers, body = fetch(listening, "/x")
    assert (status, body, headers["Server"]) == (200, b"hello /x", "epochcast-agent")


def test_a_port_in_use_and_an_address_of_others_are_one_sentence(serve: Any) -> None:
    port = serve().server_address[1]
    with pytest.raises(InputError, match=rf"^port {port} of 127.0.0.1 is in use; choose another with --port"):
        listen(Config(port=port), hello)
    with pytest.raises(InputError, match=r"^port 0 of 192.0.2.1 cannot be listened on \(.*\); choose others with --host"):
        listen(Config(host="192.0.2.1", port=0), hello)


def test_no_more_requests_at_once_than_threads_and_the_others_wait_their_turn(serve: Any) -> None:
    lock = threading.Lock()
    at_once = most = 0

    def slow(environ: Any, start_response: Any) -> Iterable[bytes]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return hello(environ, start_response)

    listening = serve(slow, connections=3)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: fetch(listening), range(20)))
    assert [status for status, _, _ in answers] == [200] * 20
    assert most == 3


def test_beyond_those_who_may_wait_it_says_come_back(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WAITING", 1)
    asked, go_on = threading.Event(), threading.Event()

    def stuck(environ: Any, start_response: Any) -> Iterable[bytes]:
        asked.set()
        go_on.wait(10)
        return hello(environ, start_response)

    listening = serve(stuck, connections=1)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch, listening)
        assert asked.wait(10)
        with socket.create_connection(listening.server_address[:2]):  # waits
            status, headers, _ = fetch(listening)
            go_on.set()
        assert (status, headers["Retry-After"]) == (503, "1")
        assert first.result()[0] == 200
    assert fetch(listening)[0] == 200


def test_a_client_that_drips_its_request_is_cut_off(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST_REQUEST_S", 0.5)
    listening = serve(connections=1)
    with socket.create_connection(listening.server_address[:2], timeout=10) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\n")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(fetch, listening)  # the only thread is taken by the one that drips
            cut = False
            for _ in range(200):
                try:
                    dripping.sendall(b"X-Drip: 1\r\n")
                    dripping.settimeout(0.05)
                    cut = dripping.recv(1) == b""
                except TimeoutError:
                    continue
                except OSError:
                    cut = True
                if cut:
                    break
            assert cut
            assert other.result()[0] == 200


def test_a_client_that_does_not_take_its_answer_is_cut_off(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST_REQUEST_S", 0.4)
    monkeypatch.setattr(server, "LONGEST_ANSWER_S", 1.0)
    ended = threading.Event()

    def endless(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 100_000
        finally:
            ended.set()

    listening = serve(endless, connections=1)
    with socket.create_connection(listening.server_address[:2], timeout=10) as lazy:
        lazy.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert ended.wait(10)
    listening.set_app(hello)
    assert fetch(listening)[0] == 200


def test_a_body_that_nobody_reads_does_not_cost_the_client_its_answer(serve: Any) -> None:
    assert fetch(serve(), "/x", method="POST", body=b"x" * 60_000)[2] == b"hello /x"


def test_resets_nonsense_and_endless_lines_leave_no_traceback(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    listening = serve()
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 70_000):
        with socket.create_connection(listening.server_address[:2], timeout=10) as connection:
            connection.sendall(nonsense)
    assert fetch(listening)[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_fault_of_the_application_is_logged_and_costs_one_answer(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    def faulty(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/bad":
            raise ZeroDivisionError
        return hello(environ, start_response)

    listening = serve(faulty)
    assert fetch(listening, "/bad")[0] == 500
    assert fetch(listening, "/good")[0] == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "/bad" in record.getMessage()
    assert record.exc_info is not None


def test_an_answer_that_breaks_off_is_not_taken_for_whole(serve: Any) -> None:
    def breaking(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/csv")])
        yield b"gpu,time\n"
        raise RuntimeError("the rest is lost")

    with pytest.raises(http.client.IncompleteRead):
        fetch(serve(breaking))


def test_an_old_client_gets_no_chunks(serve: Any) -> None:
    with socket.create_connection(serve().server_address[:2], timeout=10) as client:
        client.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        head, _, body = b"".join(iter(lambda: client.recv(4096), b"")).partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head and b"Connection: close" in head
    assert body == b"hello /x"


def test_closing_does_not_wait_for_clients(serve: Any) -> None:
    listening = serve()
    with socket.create_connection(listening.server_address[:2], timeout=10) as silent:
        fetch(listening)
        listening.shutdown()
        listening.server_close()
        assert silent.recv(1) == b""


def test_an_answer_waits_while_a_tick_is_read_but_not_for_ever(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticking, "LONGEST_WAIT_S", 60.0)
    listening = serve()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with ticks_first:
            waiting = pool.submit(fetch, listening)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
        assert waiting.result(timeout=10)[0] == 200
    monkeypatch.setattr(ticking, "LONGEST_WAIT_S", 0.01)
    with ticks_first:  # hangs in the driver
        assert fetch(listening)[0] == 200


# --- basic authentication


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the user ada, password "secret"."""
    bcrypt = pytest.importorskip("bcrypt")
    monkeypatch.setattr(auth, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "users"
    path.write_text(f"# who may ask\n\nada:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    return path


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("ada", "wrong"),
        basic("eve", "secret"),
        basic("ada", ""),
        basic("ada", "sec\0ret"),
        basic("ada", "s" * 100),
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + base64.b64encode(b"no colon").decode()},
        {"Authorization": "Basic " + base64.b64encode(b"\xff:secret").decode()},
        {"Authorization": "Bearer secret"},
    ],
)
def test_who_has_no_password_is_asked_for_one(serve: Any, users: Path, headers: dict[str, str]) -> None:
    listening = serve(users=users)
    for _ in range(2):  # the second time the answer is remembered
        status, answer, body = fetch(listening, "/metrics", headers=headers)
        assert (status, b"hello" in body) == (401, False)
        assert answer["WWW-Authenticate"].startswith("Basic realm=")


def test_who_has_one_is_answered_and_health_needs_none(serve: Any, users: Path) -> None:
    listening = serve(users=users)
    assert fetch(listening, "/metrics", headers=basic("ada", "secret"))[2] == b"hello /metrics"
    assert fetch(listening, "/healthz")[0] == fetch(listening, "/readyz")[0] == 200
    assert fetch(listening, "/healthz/")[0] == 401


def test_another_application_is_behind_the_same_password(serve: Any, users: Path) -> None:
    listening = serve(users=users)
    listening.set_app(hello)  # as a reload of the settings does
    assert fetch(listening, "/metrics")[0] == 401


def test_a_password_is_checked_once_right_or_wrong(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = auth.Users(auth.read_users(users))
    checks = []
    check = known._check
    monkeypatch.setattr(known, "_check", lambda *both: checks.append(both) or check(*both))
    assert [known.admit("ada", b"secret") for _ in range(5)] == [True] * 5
    assert [known.admit("ada", b"wrong") for _ in range(5)] == [False] * 5
    assert [known.admit("eve", b"secret") for _ in range(5)] == [False] * 5
    assert len(checks) == 3
    for number in range(2 * auth.REMEMBERED_REFUSALS):
        known._refused[str(number).encode()] = None
    known.admit("ada", b"guess")
    assert known.admit("ada", b"secret")  # nor do guesses make it forget
    assert len(checks) == 4


def test_guesses_that_wait_too_long_are_put_off(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "LONGEST_WAIT_S", 0.01)
    known = auth.Users(auth.read_users(users))
    assert known.admit("ada", b"secret")
    with known._checking:  # another check is going on
        assert known.admit("ada", b"guess") is None
        assert known.admit("ada", b"secret")


def test_a_long_password_is_cut_where_htpasswd_cuts_it(users: Path) -> None:
    import bcrypt

    long = "p" * 100
    users.write_text(f"ada:{bcrypt.hashpw(long[:72].encode(), bcrypt.gensalt(4)).decode()}\n")
    assert auth.Users(auth.read_users(users)).admit("ada", long.encode())


def test_users_that_change_are_read_anew_and_a_broken_file_locks_nobody_out(
    serve: Any, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import bcrypt

    listening = serve(users=users)
    assert fetch(listening, headers=basic("ada", "secret"))[0] == 200
    users.write_text("nonsense of three words")
    assert fetch(listening, headers=basic("ada", "secret"))[0] == 200
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "line 1 is no name:bcrypt-hash" in warning
    assert "nonsense" not in warning
    users.write_text(f"bob:{bcrypt.hashpw(b'other', bcrypt.gensalt(4)).decode()}\n")
    assert fetch(listening, headers=basic("ada", "secret"))[0] == 401
    assert fetch(listening, headers=basic("bob", "other"))[0] == 200


HASH = "$2y$05$" + "a" * 53


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "names no user"),
        ("ada:{SHA}nothing", "line 1 is no name:bcrypt-hash"),
        ("# one\nada", "line 2 is no name:bcrypt-hash"),
        (f":{HASH}", "line 1 is no name:bcrypt-hash"),
        (f"ada:{HASH}\nada:{HASH}", "line 2 names a user for the second time"),
        (f"ada:{HASH.replace('05', '31')}", "line 1 has bcrypt cost 31; use 4 to 14"),
        ("\udcff", "is not text in UTF-8"),
    ],
)
def test_a_wrong_users_file_is_one_sentence_that_tells_nothing_of_it(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "users"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=sentence) as caught:
        auth.read_users(path)
    assert str(path) in str(caught.value)
    assert "ada" not in str(caught.value).replace(str(path), "")
    assert "aaa" not in str(caught.value)


def test_no_users_file_and_no_bcrypt_are_one_sentence(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"cannot read web.users .*nowhere: No such file"):
        listen(Config(port=0, web=Web(users=users.with_name("nowhere"))), hello)

    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(auth, "import_module", missing)
    with pytest.raises(InputError, match=r"web.users needs the package bcrypt; install epochcast\[agent-auth\]"):
        listen(Config(port=0, web=Web(users=users)), hello)


# --- TLS


def openssl(*arguments: object) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl: no certificates to test with")
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1; return it and its key."""
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", 2)
    openssl("req", "-x509", *curve, "-out", paths[0], "-keyout", paths[1], *subject)
    return paths


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(auth, "LOOK_INTERVAL_S", 0.0)
    return certificate(tmp_path, "agent")


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(path))


def test_tls_tells_where_an_answer_ends(serve: Any, pair: tuple[Path, Path]) -> None:
    listening = serve(certificate=pair[0], key=pair[1])
    assert fetch(listening, "/x", trusting(pair[0]))[2] == b"hello /x"
    with (
        socket.create_connection(listening.server_address[:2], timeout=10) as raw,
        trusting(pair[0]).wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as connection,
    ):
        connection.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := connection.recv(1000):  # a ragged end would raise
            answer += piece
    assert answer.endswith(b"hello /x")


def test_old_versions_of_tls_are_refused(serve: Any, pair: tuple[Path, Path]) -> None:
    listening = serve(certificate=pair[0], key=pair[1])
    old = trusting(pair[0])
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1_1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        fetch(listening, context=old)


def test_plain_http_to_a_tls_port_is_told_so(serve: Any, pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    listening = serve(certificate=pair[0], key=pair[1])
    status, _, body = fetch(listening)
    assert (status, b"HTTPS only" in body) == (400, True)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_client_that_never_shakes_hands_keeps_nobody_from_it(
    serve: Any, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LONGEST_REQUEST_S", 1.0)
    listening = serve(certificate=pair[0], key=pair[1], connections=2)
    with socket.create_connection(listening.server_address[:2], timeout=10) as silent:
        assert fetch(listening, "/x", trusting(pair[0]))[2] == b"hello /x"
        assert silent.recv(1) == b""
    for _ in range(200):  # its thread ends a moment after its connection
        if not listening._deadlines:
            break
        time.sleep(0.01)
    assert not listening._deadlines


def test_a_renewed_certificate_is_used_without_a_restart(
    serve: Any, pair: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listening = serve(certificate=pair[0], key=pair[1])
    old = trusting(pair[0])
    assert fetch(listening, context=old)[0] == 200
    renewed = certificate(tmp_path, "renewed")
    renewed[0].replace(pair[0])
    assert fetch(listening, context=old)[0] == 200  # its key is not there yet: the old pair stays
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "belong together" in warning
    renewed[1].replace(pair[1])
    assert fetch(listening, context=trusting(pair[0]))[0] == 200
    with pytest.raises(ssl.SSLError):
        fetch(listening, context=old)


def test_only_clients_with_a_certificate_of_the_authority(serve: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    client = certificate(tmp_path, "prometheus")
    listening = serve(certificate=pair[0], key=pair[1], client_ca=client[0])
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        fetch(listening, context=trusting(pair[0]))
    context = trusting(pair[0])
    context.load_cert_chain(*client)
    assert fetch(listening, context=context)[0] == 200


def test_wrong_files_are_one_sentence_that_names_them(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other = certificate(tmp_path, "other")
    locked = tmp_path / "locked.key"
    openssl("pkey", "-in", pair[1], "-out", locked, "-aes128", "-passout", "pass:secret")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nothing\n")
    for web, sentence in (
        (Web(certificate=tmp_path / "nowhere", key=pair[1]), "cannot read web.certificate .*nowhere: No such file"),
        (Web(certificate=pair[0], key=tmp_path), "cannot read web.key .*: Is a directory"),
        (Web(certificate=pair[0], key=other[1]), "cannot be used .*; give PEM files that belong together"),
        (Web(certificate=pair[0], key=locked), "cannot be used .*, the key without a passphrase"),
        (Web(certificate=nonsense, key=pair[1]), "cannot be used"),
        (
            Web(certificate=pair[0], key=pair[1], client_ca=nonsense),
            "web.client_ca .* cannot be used .*; give PEM certificates",
        ),
    ):
        with pytest.raises(InputError, match=sentence):
            listen(Config(port=0, web=web), hello)
