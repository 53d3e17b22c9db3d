"""TLS, its certificates and those of clients."""

import http.client
import logging
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.config import Config, Web
from epochcast.agent.server import listen
from epochcast.common import authentication
from epochcast.common.errors import InputError


@pytest.fixture
def pair(make_certificate: Callable[[str], tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(authentication, "LOOK_INTERVAL_S", 0.0)
    return make_certificate("agent")


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(path))


def test_old_versions_of_tls_are_refused(serve: Any, pair: tuple[Path, Path], fetch: Any) -> None:
    listening = serve(certificate=pair[0], key=pair[1])
    old = trusting(pair[0])
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1_1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        fetch(listening, context=old)


def test_a_renewed_certificate_is_used_without_a_restart(
    serve: Any, pair: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, fetch: Any, make_certificate: Any
) -> None:
    listening = serve(certificate=pair[0], key=pair[1])
    old = trusting(pair[0])
    assert fetch(listening, context=old)[0] == 200
    renewed = make_certificate("renewed")
    renewed[0].replace(pair[0])
    assert fetch(listening, context=old)[0] == 200  # its key is not there yet: the old pair stays
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "belong together" in warning
    renewed[1].replace(pair[1])
    assert fetch(listening, context=trusting(pair[0]))[0] == 200
    with pytest.raises(ssl.SSLError):
        fetch(listening, context=old)


def test_only_clients_with_a_certificate_of_the_authority(
    serve: Any, pair: tuple[Path, Path], tmp_path: Path, fetch: Any, make_certificate: Any
) -> None:
    client = make_certificate("prometheus")
    listening = serve(certificate=pair[0], key=pair[1], client_ca=client[0])
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        fetch(listening, context=trusting(pair[0]))
    context = trusting(pair[0])
    context.load_cert_chain(*client)
    assert fetch(listening, context=context)[0] == 200


def test_wrong_files_are_one_sentence_that_names_them(
    pair: tuple[Path, Path], tmp_path: Path, hello: Any, make_certificate: Any
) -> None:
    other = make_certificate("other")
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkey", "-in", pair[1], "-out", locked, "-aes128", "-passout", "pass:secret"],
        check=True,
        capture_output=True,
    )
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
