import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry.settings import AgentSettings, FilesSettings, NodeSettings, PrometheusSettings, opened


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "gpu-1:9911"}, "url is 'gpu-1:9911'; give a full address"),
        ({"url": "ftp://gpu-1"}, "give a full address"),
        ({"url": "http://[::1"}, "give a full address"),
        ({"url": "http://x:99999"}, "give a full address"),
        ({"url": "http://x/?a=b"}, "give a full address"),
        ({"url": "http://ann:secret@x"}, "url holds a user name; give user and password_file"),
        ({"url": "http://x", "user": "ann"}, "user and password_file belong together"),
        ({"url": "http://x", "password_file": Path("p")}, "user and password_file belong together"),
        (
            {"url": "http://x", "user": "a", "password_file": Path("p"), "token_file": Path("t")},
            "user and token_file exclude each other",
        ),
        ({"url": "http://x", "interval": 0.1}, "interval is 0.1 s; give 0.2 to"),
        ({"url": "http://x", "interval": float("nan")}, "interval is nan s"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        AgentSettings(**settings)
    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"history": 5.0}, "history is 5.0 s; give 60 s to 30 days"),
        ({"lag": -1.0}, "lag is -1.0 s"),
        ({"matcher": {"a b": "c"}}, "'a b' is not a label name"),
        ({"node_label": "a-b"}, "'a-b' is not a label name"),
    ],
)
def test_settings_of_databases_that_cannot_be(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        PrometheusSettings(url="http://x", **settings)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_files_need_a_pattern(path: str) -> None:
    with pytest.raises(InputError, match="name trace files"):
        FilesSettings(path=path)


def test_the_host_of_a_loopback_is_this_machine() -> None:
    assert AgentSettings(url="http://127.0.0.1:9911").host == socket.gethostname()
    assert AgentSettings(url="http://[::1]:9911").host == socket.gethostname()
    assert AgentSettings(url="http://gpu-7:9911").host == "gpu-7"


def test_of_a_gpu_that_two_tell_of_nodes_come_first_and_files_last() -> None:
    settings = [
        FilesSettings(path="x"),
        PrometheusSettings(url="http://p"),
        AgentSettings(url="http://a"),
        NodeSettings(url="http://n"),
        AgentSettings(url="http://b"),
    ]
    sources = opened(settings)
    assert [(source.kind, source.name) for source in sources] == [
        ("node", "http://n"),
        ("agent", "http://a"),
        ("agent", "http://b"),
        ("prometheus", "http://p"),
        ("files", "x"),
    ]
    for source in sources:
        source.close()


@pytest.mark.parametrize(
    ("twice", "table"),
    [
        (AgentSettings(url="http://x:1"), "[[agents]] http://x:1"),
        (NodeSettings(url="http://x:1"), "[[nodes]] http://x:1"),
        (PrometheusSettings(url="http://x:1", tenant="t"), "[[prometheus]] http://x:1 of tenant t"),
        (FilesSettings(path="/data/*.csv"), "[[files]] /data/*.csv"),
    ],
)
def test_a_source_that_is_there_twice_is_refused(twice: Any, table: str) -> None:
    with pytest.raises(InputError) as caught:
        opened([twice, replace(twice, interval=1.0)])
    assert f"the configuration has {table} twice; keep one" in str(caught.value)


def test_one_address_may_be_several_sources() -> None:
    """A state that knew them by their address alone could keep neither."""
    url = "http://x:1"
    every = [
        PrometheusSettings(url=url),
        PrometheusSettings(url=url, tenant="a"),
        PrometheusSettings(url=url, tenant="b"),
        PrometheusSettings(url=url, matcher={"cluster": "a"}),
        AgentSettings(url=url),
        NodeSettings(url=url),
    ]
    sources = opened(every)
    assert len({(source.kind, source.name) for source in sources}) == len(every)
