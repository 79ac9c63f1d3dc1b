"""Steps that are not to be trusted, found alike by all ranks: they judge the same numbers with the same memory."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, cast

from .sections import AnomalyConfig

_LEAST = 10
"""Norms that a mean and a deviation are made of at least."""


class Anomalies:
    """Judge loss and gradient norm of a step, both of the whole world."""

    def __init__(self, config: AnomalyConfig) -> None:
        self._config = config
        self._norms: deque[float] = deque(maxlen=config.window)
        self.skipped = 0
        """Of the run so far."""
        self.in_a_row = 0

    @property
    def may_skip(self) -> bool:
        """Return whether a step may be left out, so that it has to be judged before the optimizer makes it."""
        return self._config.action == "skip"

    def judge(self, loss: float, norm: float) -> str | None:
        """Return why a step is not to be trusted, or None and remember its norm."""
        if not math.isfinite(loss) or not math.isfinite(norm):
            return f"the loss is {loss:g} and the norm of the gradient {norm:g}; allowed: finite numbers"
        if self._config.sigma is not None and len(self._norms) >= min(_LEAST, self._config.window):
            mean = math.fsum(self._norms) / len(self._norms)
            deviation = math.sqrt(math.fsum((one - mean) ** 2 for one in self._norms) / len(self._norms))
            limit = mean + self._config.sigma * deviation
            if norm > limit:
                return (
                    f"the norm of the gradient is {norm:.4g}; allowed: {limit:.4g}, {self._config.sigma:g} standard deviations "
                    f"({deviation:.3g}) above the mean ({mean:.4g}) of the last {len(self._norms)}"
                )
        self._norms.append(norm)
        self.in_a_row = 0
        return None

    def skip(self) -> bool:
        """Count a step that is left out; tell whether the run may go on."""
        self.skipped += 1
        self.in_a_row += 1
        return self.in_a_row < self._config.most_skipped

    def state(self) -> dict[str, object]:
        """Return what a resumed run needs to judge alike, as JSON."""
        return {"norms": list(self._norms), "skipped": self.skipped, "in_a_row": self.in_a_row}

    def resume(self, state: Mapping[str, object]) -> None:
        """Take what `state` returned."""
        found = cast(Mapping[str, Any], state)
        self._norms.extend(found["norms"])
        self.skipped, self.in_a_row = found["skipped"], found["in_a_row"]
