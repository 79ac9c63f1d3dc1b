"""From the events of a run to its record: whoever prints the events of rank 0 hands them on here, and writes the record at the end."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from . import record
from .checkpoint.store import open_store
from .config import Config
from .events import Event

TRANSPORT = "transport.json"
_KEPT_STEPS = ("step", "loss", "grad_norm", "learning_rate", "tokens_per_second", "mfu", "memory_bytes")


class Recorder:
    """Remembers what a run said, over all its tries."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._started = _now()
        self._plan: Mapping[str, Any] = {}
        self._transport: Mapping[str, Any] | None = None
        self._checkpoints: dict[int, Mapping[str, Any]] = {}
        self._evaluations: dict[str, Mapping[str, Any]] = {}
        self._steps: list[Mapping[str, Any]] = []
        self._anomalies: list[str] = []
        self._resumed: list[Mapping[str, Any]] = []

    def take(self, event: Event) -> None:
        """Remember an event."""
        told = cast(Mapping[str, Any], event)
        match told["event"]:
            case "plan":
                self._plan = told
            case "transport" if "verdict" in told:
                self._transport = {key: value for key, value in told.items() if key != "event"}
            case "resume":
                self._resumed.append(told)
            case "checkpoint" if told["status"] == "saved":
                self._checkpoints[told["step"]] = told
            case "eval":
                # What was known before the first step stays so after a restart.
                if told["when"] != "before" or "before" not in self._evaluations:
                    self._evaluations[told["when"]] = told
            case "step":
                # A resumed run makes the steps after its checkpoint again.
                self._steps = [step for step in self._steps if step["step"] < told["step"]]
                self._steps.append({key: told[key] for key in _KEPT_STEPS if key in told})
            case "anomaly":
                self._anomalies.append(told["reason"])
            case _:
                pass

    def write(self, outcome: Mapping[str, object] | None, failure: str | None) -> str | None:
        """Write record and transport report to the run's place, and return where the record is; None where no place was given.

        Raises:
            StoreError: the store does not take them.
        """
        place = self._config.run.record_uri
        if place is None:
            return None
        store = open_store(place)
        with TemporaryDirectory(prefix="train-record-") as scratch:
            names: list[str] = []
            if self._transport is not None:
                path = Path(scratch) / TRANSPORT
                path.write_text(json.dumps(self._transport, indent=1) + "\n", encoding="utf-8")
                store.put(path, TRANSPORT)
                names.append(TRANSPORT)
            return record.write(self._record(outcome or {}, failure, record.reference(store, names)), store)

    def _record(self, outcome: Mapping[str, Any], failure: str | None, files: tuple[record.File, ...]) -> record.Record:
        facts = self._facts(outcome, failure)
        return record.Record(
            run=self._config.run.name,
            started=self._started,
            ended=_now(),
            verdict=record.judge(facts),
            facts=facts,
            code=record.code_of(os.environ),
            settings=self._config.model_dump(mode="json"),
            versions=self._plan.get("versions", {}),
            ranks=tuple(
                record.Rank(rank=one["rank"], node=one["node"], host=one["host"], device=self._plan["device"])
                for one in self._plan.get("ranks", ())
            ),
            transport=self._transport,
            plan=self._plan.get("plan"),
            metrics={
                **outcome,
                "curve": self._steps,
                "anomalies": self._anomalies,
                "resumed": self._resumed,
            },
            evaluation=self._evaluations or None,
            checkpoints=tuple(self._checkpoints[step] for step in sorted(self._checkpoints)),
            files=files,
        )

    def _facts(self, outcome: Mapping[str, Any], failure: str | None) -> record.Facts:
        transport = self._transport or {}
        return record.Facts(
            failure=failure,
            device=self._config.run.device,
            num_nodes=self._config.run.num_nodes,
            transport_good=transport.get("good"),
            transport=transport.get("reason", ""),
            steps=outcome.get("steps", 0),
            trained_steps=outcome.get("trained_steps", 0),
            skipped_steps=outcome.get("skipped_steps", 0),
            loss_before=self._evaluations.get("before", {}).get("loss"),
            loss_after=self._evaluations.get("after", {}).get("loss"),
            last_checkpoint_step=max(self._checkpoints, default=None),
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
