"""Pictures of a recommendation as `epochcast recommend --plot` draws it, and the paper's Fig. 1 from predictions.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.recommendation_pictures

Writes docs/images/recommendation/*.png and prints the lines that show them. They are pictures of the output, not of accuracy:
the shipped model was trained on these workloads. How good its advice is for new ones: regret.py.
"""

from epochcast.analyzer.figures import cost_figure, relative_figure
from epochcast.analyzer.instances import load_instances
from epochcast.analyzer.recommendation import Work, recommend, whole_job
from epochcast.regressor import LatencyPredictor, Profile, load_catalog, load_corpus

from ..page import RECOMMENDATION, options
from .public_pairs import DATA

SOURCE = "T4"
WORK = Work(epochs=90)
# A network that leaves a GPU idle and one that fills it, as in the paper's Fig. 1.
WORKLOADS = {"small": "LeNet5|32|64", "large": "VGG19|16|224"}


def draw(size: str, profile: Profile) -> None:
    """Draw the bars of a workload, and the front of the large one."""
    catalog = load_catalog()
    instances, _ = load_instances(None, catalog)
    predictions = LatencyPredictor.load().predict(profile)
    rows = recommend(predictions, instances, catalog, job_of=lambda one: whole_job(profile, one, WORK)).recommendations
    what = f"{WORK.epochs} epochs of {profile.workload} seen on {SOURCE}, {len(instances)} instances"
    if size == "large":
        print(f"![{what}: time against cost]({RECOMMENDATION.save_picture(cost_figure(rows), 'front')})\n")
    bars = RECOMMENDATION.save_picture(relative_figure(rows, SOURCE), f"relative_{size}")
    print(f"![{what}: relative time and cost by GPU]({bars})\n")


if __name__ == "__main__":
    options(__doc__, page=False).parse_args()
    measured = {profile.workload: profile for profile in load_corpus(DATA) if profile.gpu == SOURCE}
    for name, workload in WORKLOADS.items():
        draw(name, measured[workload])
