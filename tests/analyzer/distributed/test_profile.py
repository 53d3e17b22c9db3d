"""Operators run again on this CPU, in rounds; what cannot run is estimated and named; and the cache of their times."""

import sqlite3
import threading
import time

import numpy as np
import pytest

from epochcast.analyzer.backends.distributed.graph import Operator, Tensor, Weight
from epochcast.analyzer.backends.distributed.operator_time.operator_text import operator_from_text, operator_text
from epochcast.analyzer.backends.distributed.precision import PRECISIONS
from epochcast.analyzer.errors import InputError

torch = pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.models.building import build, example_inputs  # noqa: E402
from epochcast.analyzer.backends.distributed.models.named import from_text  # noqa: E402
from epochcast.analyzer.backends.distributed.operator_time.arguments import RandomMemory, _orders, runnable  # noqa: E402
from epochcast.analyzer.backends.distributed.operator_time.profile import ProfiledTimes  # noqa: E402
from epochcast.analyzer.backends.distributed.operator_time.profile_cache import ProfileCache, cache_path  # noqa: E402
from epochcast.analyzer.backends.distributed.operator_time.timing import FEWEST_ROUNDS, CpuClock, Timing, time_in_rounds  # noqa: E402
from epochcast.analyzer.backends.distributed.trace import trace  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

X = Tensor((4, 8), "float32")


def operator(name, arguments, outputs=(X,), kind="elementwise", phase="forward"):
    inputs = tuple(one for one in arguments if isinstance(one, Tensor))
    return Operator(name, kind, phase, inputs, outputs, arguments=arguments)


def run(one):
    return runnable(one, RandomMemory("cpu", 1 << 20))()


def operators_of(text, precision="fp32", attention="fused", batch=2, length=8):
    architecture = from_text(text)
    precision = PRECISIONS[precision]
    module = build(architecture, attention).to(getattr(torch, precision.weights))
    inputs, targets = example_inputs(architecture, batch, length)
    if inputs.is_floating_point():
        inputs = inputs.to(getattr(torch, precision.weights))
    graph = trace(module, (inputs, targets), precision, "cpu")
    return [one for block in (graph.before, *graph.blocks, graph.after) for one in block.operators]


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16"])
@pytest.mark.parametrize(
    ("text", "attention"),
    [
        ("gpt2:hidden=16,layers=1,heads=2,vocab=32", "eager"),
        ("llama:hidden=16,layers=1,heads=2,kv_heads=1,ffn=32,vocab=32", "fused"),
        ("vit:hidden=16,layers=1,heads=2,image_size=16,patch=8,classes=4", "fused"),
        ("resnet:stages=1-1-1-1,image_size=32,classes=4", "fused"),
    ],
)
def test_every_operator_of_a_traced_model_runs_and_answers_what_was_recorded(text, attention, precision):
    for one in dict.fromkeys(operators_of(text, precision, attention)):
        answer = run(one)
        tensors = [answer] if isinstance(answer, torch.Tensor) else [leaf for leaf in answer if leaf is not None]
        if one.name == "epochcast.attention":
            assert tuple(tensors[0].shape) == one.outputs[0].shape
            continue
        seen = [tuple(leaf.shape) for leaf in tensors]
        assert seen[: len(one.outputs)] == [output.shape for output in one.outputs][: len(seen)], one.name
        assert str(tensors[0].dtype) == f"torch.{one.outputs[0].dtype}", one.name


def test_indices_lie_within_their_tables():
    table, ids = Tensor((5, 3), "float32"), Tensor((1000,), "int64")
    looked_up = run(operator("aten.embedding.default", (table, ids), (Tensor((1000, 3), "float32"),), "embedding"))
    assert len(torch.unique(looked_up, dim=0)) == 5
    gathered = operator("aten.gather.default", (Tensor((4, 6), "float32"), 1, Tensor((4, 6), "int64")))
    assert run(gathered).shape == (4, 6)


def test_recorded_words_become_torch_types_on_the_device_that_measures():
    cast = operator("aten._to_copy.default", (X, "torch.bfloat16", "torch.strided", "cuda:0"))
    answer = run(cast)
    assert answer.dtype == torch.bfloat16
    assert answer.device.type == "cpu"
    tanh = run(operator("aten.gelu.default", (X, "tanh")))
    assert tanh.shape == X.shape


def test_weights_of_dense_layers_lie_transposed_as_in_a_forward_pass():
    weight = Tensor((8, 4), "float32")
    assert _orders(operator("aten.mm.default", (X, weight))) == {(1,): (1, 0)}
    assert _orders(operator("aten.addmm.default", (Tensor((4,), "float32"), X, weight))) == {(2,): (1, 0)}
    assert _orders(operator("aten.mm.default", (X, weight), phase="backward")) == {}


def test_an_operator_in_place_leaves_what_others_read():
    memory = RandomMemory("cpu", 4 * 64 * 4)
    before = memory.tensor(Tensor((256,), "float32"))
    kept = before.clone()
    runnable(operator("aten.zero_.default", (Tensor((256,), "float32"),)), memory)()
    assert torch.equal(before, kept)


def test_memory_goes_round_and_layouts_are_kept():
    memory = RandomMemory("cpu", 1024)
    first, second = (memory.tensor(Tensor((100,), "float32")) for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    assert memory.tensor(Tensor((128,), "float32")).data_ptr() == first.data_ptr()
    turned = memory.tensor(Tensor((2, 3, 4), "float32"), (1, 0, 2))
    assert turned.shape == (2, 3, 4)
    assert turned.stride() == (4, 8, 1)


def test_larger_work_takes_longer_and_equal_work_is_timed_once():
    def product(size):
        side = Tensor((size, size), "float32")
        return operator("aten.mm.default", (side, side), (side,), "matmul")

    times = ProfiledTimes("cpu", PRECISIONS["fp32"], most_rounds=FEWEST_ROUNDS, clock=CpuClock(time.process_time))
    small, large, again = times.seconds([product(64), product(640), product(64)])
    assert large > 20 * small > 0
    assert again == small
    assert len(times.timings) == 2
    assert times.estimated == {}


def test_what_cannot_run_is_estimated_by_its_bytes_and_named():
    unknown = operator("custom.kernel.default", (X,))
    wrong = operator("aten.mm.default", (X, X), kind="matmul")
    untold = Operator("aten.relu.default", "elementwise", "forward", (X,), (X,))
    exchange = Operator("all_reduce", "communication", "forward", (X,), (X,))
    times = ProfiledTimes("cpu", PRECISIONS["fp32"], most_rounds=1)
    seconds = times.seconds([unknown, wrong, untold, exchange])
    assert set(times.estimated) == {unknown, wrong, untold}
    assert "no operator custom.kernel" in times.estimated[unknown]
    assert seconds[0] == pytest.approx(seconds[2])
    assert seconds[1] == pytest.approx(1.5 * seconds[0])
    assert seconds[3] == 0.0


def test_every_round_runs_every_operator_once_and_the_budget_ends_it():
    seen = []
    calls = [[lambda: seen.append("a"), lambda: seen.append("A")], [lambda: seen.append("b")]]
    timings = time_in_rounds(calls, CpuClock(), budget_seconds=0.0, most_rounds=50)
    assert seen == ["a", "b"] + ["A", "b", "a", "b"] * 2 + ["A", "b"]
    assert [one.rounds for one in timings] == [FEWEST_ROUNDS] * 2
    slow = time_in_rounds([[lambda: time.sleep(0.002)]], CpuClock(), budget_seconds=60.0, most_rounds=3)
    assert slow[0].seconds >= 0.002
    assert slow[0].iqr >= 0.0


def test_a_clock_of_ones_own_times_every_operator():
    class Ticking:
        cache_bytes = 1024

        def copies(self, nbytes, round_bytes):
            return 2

        def time(self, calls, turn):
            assert len(calls) == 2
            calls[turn % 2]()
            return 1e-3 * (turn + 1)

    times = ProfiledTimes("cpu", PRECISIONS["fp32"], most_rounds=5, clock=Ticking())
    assert times.seconds([operator("aten.relu.default", (X,))]) == pytest.approx([4e-3])  # rounds of 2 to 6 ms


def test_timings_come_back_from_the_cache(tmp_path):
    one = operator("aten.relu.default", (X,))
    cache = ProfileCache(tmp_path / "times.sqlite")
    first = ProfiledTimes("cpu", PRECISIONS["fp32"], cache, most_rounds=5).seconds([one])
    told = []
    second = ProfiledTimes("cpu", PRECISIONS["fp32"], cache, progress=lambda *done: told.append(done)).seconds([one])
    assert np.array_equal(first, second)
    assert told == []


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_optimizer_step_is_measured_on_weights_of_the_given_sizes(optimizer, tmp_path):
    def weights(count):
        return [Weight(f"w{number}", Tensor((64, 64), "float32"), "float32") for number in range(count)]

    cache, clock = ProfileCache(tmp_path / "times.sqlite"), CpuClock(time.process_time)
    times = ProfiledTimes("cpu", PRECISIONS["fp32"], cache, most_rounds=5, clock=clock)
    few, many = (times.optimizer_seconds(weights(count), optimizer) for count in (1, 100))
    assert many > 5 * few > 0
    assert times.optimizer_seconds(weights(1), optimizer) == few


def test_devices_that_are_not_here_are_refused():
    with pytest.raises(InputError, match="choose cpu or cuda"):
        ProfiledTimes("tpu", PRECISIONS["fp32"])
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="no CUDA device"):
            ProfiledTimes("cuda", PRECISIONS["fp32"])


def test_an_operator_survives_being_written_down():
    for one in dict.fromkeys(operators_of("gpt2:hidden=16,layers=1,heads=2,vocab=32", "amp-bf16")):
        assert operator_from_text(one.name, one.phase, one.flops, operator_text(one)) == Operator(
            one.name, one.kind, one.phase, one.inputs, one.outputs, one.flops, arguments=one.arguments
        )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind":"magic","inputs":[],"outputs":[],"arguments":[]}', '{"kind":"copy","inputs":3}']
)
def test_text_that_is_no_operator_is_refused(text):
    with pytest.raises(InputError, match="cannot be read"):
        operator_from_text("aten.add.Tensor", "forward", 0.0, text)


TIMING = Timing(1.5e-3, 1e-5, 9)


def test_timings_are_kept_apart_by_device_and_replaced(tmp_path):
    cache = ProfileCache(tmp_path / "new" / "times.sqlite")
    cache.put("cpu", {"a": TIMING, "b": TIMING})
    cache.put("cpu", {"b": Timing(2.0, 0.0, 1)})
    assert cache.get("cpu", ["a", "b", "c"]) == {"a": TIMING, "b": Timing(2.0, 0.0, 1)}
    assert cache.get("gpu", ["a"]) == {}


def test_more_operators_than_sqlite_takes_at_once(tmp_path):
    cache = ProfileCache(tmp_path / "times.sqlite")
    cache.put("cpu", {str(number): TIMING for number in range(2000)})
    assert len(cache.get("cpu", [str(number) for number in range(1, 3000)])) == 1999


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_file_is_set_aside_with_a_sentence(tmp_path, capsys, content):
    path = tmp_path / "times.sqlite"
    path.write_bytes(content)
    cache = ProfileCache(path)
    cache.put("cpu", {"a": TIMING})
    assert cache.get("cpu", ["a"]) == {"a": TIMING}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "damaged" in said
    (aside,) = tmp_path.glob("*.damaged")
    assert aside.read_bytes() == content
    assert aside.name in said


def test_a_table_of_other_columns_is_set_aside(tmp_path, capsys):
    path = tmp_path / "times.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE operator_times (device TEXT, operator TEXT)")
    database.close()
    ProfileCache(path).put("cpu", {"a": TIMING})
    assert "its columns are device, operator" in capsys.readouterr().err


def test_rows_that_are_no_times_are_left_out(tmp_path):
    cache = ProfileCache(tmp_path / "times.sqlite")
    cache.put("cpu", {"a": Timing(-1.0, 0.0, 3), "b": TIMING})
    assert cache.get("cpu", ["a", "b"]) == {"b": TIMING}


def test_several_writers_lose_nothing(tmp_path):
    path = tmp_path / "times.sqlite"

    def write(first):
        for number in range(first, first + 10):
            ProfileCache(path).put("cpu", {str(number): TIMING})

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 40, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ProfileCache(path).get("cpu", [str(number) for number in range(40)])) == 40


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        ProfileCache(tmp_path / "file" / "times.sqlite")


def test_the_place_follows_the_users_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_path() == tmp_path / "epochcast" / "operator_times.sqlite"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_path() == tmp_path / "home" / ".cache" / "epochcast" / "operator_times.sqlite"
