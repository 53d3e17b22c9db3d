"""The registry: what is known by name, and what a missing library is told as."""

import sys

import pytest

from epochcast.analyzer.backends.occupancy import models
from epochcast.analyzer.backends.occupancy.models import make
from epochcast.analyzer.errors import InputError


def test_an_unknown_model_is_told_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown model 'gcn'; known are operator-mean, dnn-occu, mlp, "):
        make("gcn")


def test_no_epochs_are_refused() -> None:
    with pytest.raises(InputError, match="cannot train for 0 epochs; give 1 or more"):
        make("mean", epochs=0)


@pytest.mark.parametrize(
    ("name", "library", "importer"), [("dnn-occu", "torch", "graph_network"), ("brp-nas", "torch_geometric.nn", "brp_nas")]
)
def test_a_missing_library_is_one_sentence(name: str, library: str, importer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, f"{models.__name__}.{importer}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        InputError,
        match=f"the model {name} needs PyTorch or torch-geometric, which cannot be loaded .*; in a checkout run",
    ):
        make(name)
