"""Traffic of fused chains, by hand."""

from epochcast.analyzer.backends.distributed.graph import Traffic, fused_bytes


def one(kind, reads, writes, elements=100, phase="forward"):
    return Traffic(kind, phase, tuple((x, 400) for x in reads), tuple((x, 400) for x in writes), elements)


def test_a_chain_reads_its_inputs_once_and_writes_its_end() -> None:
    chain = [
        one("matmul", "ab", "c"),
        one("elementwise", "cd", "e"),  # bias
        one("elementwise", "e", "f"),  # gelu
        one("matmul", "fg", "h"),
    ]
    assert fused_bytes(chain) == [1200, 800 + 400, 0, 1200]  # what nobody reads is the answer: written too


def test_what_another_reads_is_written() -> None:
    chain = [one("elementwise", "a", "b"), one("elementwise", "b", "c"), one("matmul", "cb", "d"), one("matmul", "d", "e")]
    assert fused_bytes(chain)[:2] == [400 + 800, 0]


def test_what_another_kind_writes_anew_starts_no_chain() -> None:
    chain = [one("elementwise", "a", "b"), one("matmul", "cd", "b"), one("elementwise", "b", "e"), one("matmul", "e", "f")]
    assert fused_bytes(chain) == [800, 1200, 800, 800]


def test_backward_does_not_join_a_forward_chain() -> None:
    chain = [one("elementwise", "a", "b"), one("matmul", "b", "c"), one("elementwise", "b", "d", phase="backward")]
    assert fused_bytes(chain) == [800, 800, 800]


def test_other_sizes_and_kinds_do_not_join() -> None:
    assert (
        fused_bytes([one("elementwise", "a", "b"), one("elementwise", "b", "c", elements=7), one("matmul", "c", "d")])[1] == 800
    )
    assert fused_bytes([one("elementwise", "a", "b"), one("reduction", "b", "c"), one("matmul", "c", "d")])[:2] == [800, 800]
