from epochcast.agent.catalog import catalog

# DCGM's ids as the black-box paper's own collection script passed them to dcgmi (public metrics that change during a run).
PAPER_IDS = {
    "SMACT": 1002,
    "SMOCC": 1003,
    "TENSO": 1004,
    "DRAMA": 1005,
    "FP32A": 1007,
    "FP16A": 1008,
    "PCIRX": 1010,
    "NVLTX": 1011,
}


def test_paper_metrics_carry_the_ids_the_paper_collected() -> None:
    by_paper_name = {metric.paper: metric.dcgm for metric in catalog().values()}
    assert {name: by_paper_name[name] for name in PAPER_IDS} == PAPER_IDS


def test_no_id_is_used_twice() -> None:
    for field in ("dcgm", "gpm", "prometheus"):
        ids = [value for metric in catalog().values() if (value := getattr(metric, field)) is not None]
        assert len(set(ids)) == len(ids)
