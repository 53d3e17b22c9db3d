"""What is loaded once to answer jobs: GPUs, the predictor and the price table. Service and fleet hold one for all jobs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.job import Job, answer_job
from epochcast.analyzer.jobs.prices import Instance, Offer, load_instances, load_inventory
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.rank import rank_instances
from epochcast.analyzer.jobs.sources import Source
from epochcast.regressor import Catalog, Profile, load_catalog
from epochcast.regressor.pipelines import Predictor, load_predictor

log = logging.getLogger(__name__)


class Advisor:
    """Answers jobs; every method may be called from any thread.

    Attributes:
        configured: what a question is taken to say where it says nothing.
        instances: what can be rented, at the provider's own cost where an inventory says so.
        inventory_time: when the inventory was written [unix s]; 0 without one.
    """

    def __init__(
        self,
        catalog: Catalog,
        predictor: Predictor,
        instances: Sequence[Instance],
        configured: JobQuestion | None = None,
        inventory: Path | None = None,
    ) -> None:
        """Take what was loaded once.

        Args:
            catalog, predictor, instances: GPUs, how to predict between them, what can be rented.
            configured: see above; None: nothing.
            inventory: what is free, read again when it changes; None: everything.

        Raises:
            InputError: a cloud or a region of the limits that no instance is of, or an inventory that cannot be used.
        """
        self.catalog = catalog
        self._priced = self.instances = instances
        self._inventory = inventory
        self._free: Mapping[Offer, int] | None = None
        self.inventory_time = 0.0
        if inventory is not None:
            self._read_inventory(inventory)
        self.configured = configured or JobQuestion()
        self._predictors = {predictor.pipeline: predictor}
        self._pipeline = predictor.pipeline
        # Threads share the interpreter: with more of them than cores at it, each takes longer, and all of them together too.
        self._turns = threading.BoundedSemaphore(os.cpu_count() or 1)
        rank_instances([], instances, catalog, limits=self.configured.limits)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it was made of: a lock is of its process."""
        predictor = self._predictors[self._pipeline]
        return Advisor, (self.catalog, predictor, self._priced, self.configured, self._inventory)

    @classmethod
    def load(
        cls,
        configured: JobQuestion | None = None,
        *,
        gpus: Path | None = None,
        prices: Path | None = None,
        inventory: Path | None = None,
    ) -> Advisor:
        """Read the configured pipeline's model, GPUs in addition to the catalogue's and a price table; None: what is shipped.

        Raises:
            InputError: one of them cannot be used.
        """
        catalog = load_catalog(gpus)
        instances, notes = load_instances(prices, catalog)
        for note in notes:
            log.warning("%s", note)
        configured = configured or JobQuestion()
        predictor = load_predictor(configured.pipeline or "default", configured.model, catalog)
        return cls(catalog, predictor, instances, configured, inventory)

    def renew_inventory(self) -> None:
        """Read the inventory again if it has changed; one that cannot be read any more is logged, and the last stays."""
        if self._inventory is None:
            return
        try:
            if self._inventory.stat().st_mtime != self.inventory_time:
                self._read_inventory(self._inventory)
        except (OSError, InputError) as error:
            log.warning("the inventory stays as it was: %s", error)

    def _read_inventory(self, path: Path) -> None:
        written = path.stat().st_mtime if path.exists() else 0.0
        self.instances, self._free = load_inventory(path, self._priced)
        self.inventory_time = written

    @property
    def oldest_price(self) -> date:
        """Day of the oldest price."""
        return min(instance.date for instance in self.instances)

    def answer(self, sources: Sequence[Profile | Source], question: JobQuestion, **more: Any) -> Job:
        """Answer the job of these GPUs.

        Args:
            sources: one per GPU of the job; a profile's GPU is looked up in the catalogue.
            question: what to answer. A pipeline that is not the configured one predicts by its shipped model.
            more: what else is known of the job, as `answer_job` has it.

        Raises:
            InputError: as `answer_job`.
        """
        read = [self._source(number, profile) for number, profile in enumerate(sources)]
        question = question.completed(self.configured)
        with self._turns:
            wanted = question.pipeline or self._pipeline
            if wanted not in self._predictors:
                self._predictors[wanted] = load_predictor(wanted, None, self.catalog)
            return answer_job(read, self._predictors[wanted], self.instances, question, free=self._free, **more)

    def _source(self, number: int, profile: Profile | Source) -> Source:
        if isinstance(profile, Source):
            return profile
        return Source(name=f"profile {number + 1}", profile=profile, gpu=self.catalog.resolve(profile.gpu))
