"""Public training data that no user has; importing this makes them known to `epochcast.regressor.load_corpus`."""

from epochcast.regressor.corpora import CSV_ADAPTERS
from lab.corpora import profet

CSV_ADAPTERS["profet"] = profet
