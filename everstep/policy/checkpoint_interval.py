"""How long to train between two checkpoints: Young's and Daly's answer.

Too often costs saves, too seldom costs steps done again. With C the training time that a save
costs and M the mean time between failures of the whole job, Young's first-order optimum is
√(2CM) (CACM 17(9), 1974); Daly's series is right for a C that is not small beside M ("A higher
order estimate of the optimum checkpoint interval", FGCS 22(3), 2006, eq. 37).
"""

from math import sqrt

FAILURES_PER_NODE_DAY = 6.5e-3
"""Meta's RSC-1, eight A100 a node, 11 months: 6.5 failures in 1,000 node-days (Kokolis et al.,
"Revisiting Reliability in Large-Scale Machine Learning Research Clusters", 2024). Llama 3's 54
days on 2,048 nodes had 3.8 (419 unexpected interruptions)."""
DAY = 86_400.0
SHORTEST_SECONDS = 60.0
"""However cheap a save: half a minute done again is nothing beside a restart."""
LONGEST_SECONDS = 3600.0
"""However reliable the hosts: a person's stop or a bad step should not cost more."""


def mean_time_between_failures(nodes: int, failures_per_node_day: float) -> float:
    """Seconds; of a job that any one of its nodes ends."""
    return DAY / (nodes * failures_per_node_day)


def optimum(cost_seconds: float, mtbf_seconds: float) -> float:
    """Seconds of training between two checkpoints (Daly, eq. 37); the save itself comes on top."""
    if cost_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = cost_seconds / (2 * mtbf_seconds)
    series = 1 + sqrt(ratio) / 3 + ratio / 9
    return sqrt(2 * cost_seconds * mtbf_seconds) * series - cost_seconds


def interval(cost_seconds: float, durable_seconds: float, mtbf_seconds: float) -> float:
    """Seconds between the beginnings of two checkpoints.

    ``cost_seconds``: training time that one costs; ``durable_seconds``: how long it is in flight,
    which bounds the answer from below, since one at most is. Otherwise between
    ``SHORTEST_SECONDS`` and ``LONGEST_SECONDS``.
    """
    best = optimum(cost_seconds, mtbf_seconds) + cost_seconds
    return max(durable_seconds, SHORTEST_SECONDS, min(best, LONGEST_SECONDS))
