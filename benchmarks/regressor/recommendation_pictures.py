"""Pictures of a recommendation as `epochcast recommend --plot` draws it, and the paper's Fig. 1 from predictions.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.recommendation_pictures

Writes docs/images/recommendation/*.png and prints the lines that show them. They are pictures of the output, not of accuracy:
the shipped model was trained on these workloads. How good its advice is for new ones: regret.py.
"""

from functools import partial

from epochcast.analyzer.figures import cost_figure, relative_figure
from epochcast.analyzer.instances import load_instances
from epochcast.analyzer.recommendation import Work, recommend, whole_job
from epochcast.regressor import Predictor, load_catalog, load_corpus

from ..page import RECOMMENDATION
from .public_pairs import DATA

SOURCE = "T4"
EPOCHS = 90
# A network that leaves a GPU idle and one that fills it, as in the paper's Fig. 1.
WORKLOADS = {"small": "LeNet5|32|64", "large": "VGG19|16|224"}


def main() -> None:
    """Draw the bars of each workload, and the front of the large one."""
    catalog = load_catalog()
    instances, _ = load_instances(None, catalog)
    predictor = Predictor.load()
    measured = [row for row in load_corpus(DATA) if row.gpu == SOURCE]
    for size, workload in WORKLOADS.items():
        profile = next(row for row in measured if row.workload == workload)
        predictions = predictor.predict(profile)
        job_of = partial(whole_job, profile, work=Work(EPOCHS))
        rows = recommend(predictions, instances, catalog, job_of=job_of).recommendations
        what = f"{EPOCHS} epochs of {profile.workload} seen on {SOURCE}, {len(instances)} instances"
        if size == "large":
            print(f"![{what}: time against cost]({RECOMMENDATION.save_picture(cost_figure(rows), 'front')})\n")
        bars = RECOMMENDATION.save_picture(relative_figure(rows, SOURCE), f"relative_{size}")
        print(f"![{what}: relative time and cost by GPU]({bars})\n")


if __name__ == "__main__":
    main()
