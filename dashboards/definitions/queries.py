"""Pieces of PromQL that several dashboards need.

A GPU may have two series: scraped and remote-written by its agent, or from a service that was its detector before. So every
query says by which labels it means one thing, and takes the larger of two values of it.
"""

STATES = {"0": ("idle", "text"), "1": ("searching", "yellow"), "2": ("answered", "green")}
ACTIVE = {"0": ("ended or idle", "text"), "1": ("working", "green")}
UP = {"0": ("down", "red"), "1": ("up", "green")}

TO_GPU = "/d/epochcast-gpu?var-datasource=${datasource}&var-gpu=${__data.fields.uuid}&${__url_time_range}"
TO_JOB = "/d/epochcast-job?var-datasource=${datasource}&var-training_job=${__data.fields.training_job}&${__url_time_range}"


def mean_of(metric: str, by: str, selector: str) -> str:
    """Return the mean of one of the agent's ratios: the exact one where it is scraped, else that of remote-written samples."""
    exact = f"max by ({by}) (rate(epochcast_gpu_{metric}_seconds_total{{{selector}}}[$__rate_interval]))"
    return f"{exact} or max by ({by}) (avg_over_time(epochcast_gpu_{metric}_ratio{{{selector}}}[$__rate_interval]))"


def state_of(by: str, selector: str) -> str:
    """Return a detector's state as a number: 0 idle, 1 searching, 2 answered."""
    return (
        f'max by ({by}) (2 * (epochcast_gpu_detector_state{{{selector},state="answered"}} == 1)'
        f' or (epochcast_gpu_detector_state{{{selector},state="searching"}} == 1)'
        f' or 0 * (epochcast_gpu_detector_state{{{selector},state="idle"}} == 1))'
    )


def with_node(query: str, selector: str = 'node=~"$node"') -> str:
    """Return a query by ``uuid`` for the chosen nodes, with labels ``node``, which agents do not know, and ``gpu``."""
    return f"({query}) * on (uuid) group_left (node, gpu) max by (uuid, node, gpu) (epochcast_gpu_detector_state{{{selector}}})"


def of_jobs(query: str) -> str:
    """Return a query by ``training_job`` for the jobs that have a GPU on the chosen nodes."""
    return (
        f"({query}) and on (training_job) (epochcast_gpu_training_job_info"
        ' and on (uuid) epochcast_gpu_detector_state{node=~"$node",state="idle"})'
    )


def period(of: str, by: str, selector: str = "") -> str:
    """Return the length of the epoch, step or other cycle of a ``gpu`` or a ``job`` [s]: it has one of them."""
    return " or ".join(f"max by ({by}) (epochcast_{of}_{unit}_seconds{{{selector}}})" for unit in ("epoch", "step", "cycle"))
