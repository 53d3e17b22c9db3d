"""What to measure, in an order of which any beginning is a fair sample."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ..configuration import Configuration
from ..table_ii import different


def plan(networks: Sequence[str], per_network: int, precisions: Sequence[str], seed: int) -> list[Configuration]:
    """Configurations drawn from Table II, each at every precision, in random order.

    The order takes turns between networks, so that wherever it is stopped each has been measured as often as the others. What
    is drawn of a network depends on the seed alone, not on the other networks.

    Args:
        networks: names (``networks/build_network.py``).
        per_network: configurations of each; fewer where its ranges hold fewer.
        precisions: of ``networks.known_networks.PRECISIONS``.
        seed: of the draws and of the order.
    """
    groups = []
    for network in dict.fromkeys(networks):
        rng = Random(f"{seed}/{network}")
        drawn = different(network, per_network, rng)
        group = [replace(one, precision=precision) for one in drawn for precision in dict.fromkeys(precisions)]
        rng.shuffle(group)
        groups.append(group)
    order = Random(seed)
    configurations = []
    for turn in itertools.zip_longest(*groups):
        some = [one for one in turn if one is not None]
        order.shuffle(some)
        configurations += some
    return configurations
