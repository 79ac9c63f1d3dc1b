"""After the first step: communicators that come later, and channels that old ones make later, are judged too."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false

from dataclasses import replace

import torch.distributed as dist

from ..agreement import gathered
from .config import Expect
from .evidence import RankLog, evidence, judge_all
from .gate import refuse
from .report import CommunicatorReport, TransportReport, Verdict

_HARMLESS: tuple[Verdict, ...] = ("local", "unknown")


class Watch:
    """Looks at what NCCL wrote since the last look; all ranks look together, at checkpoints."""

    def __init__(
        self, log: RankLog, expect: Expect, *, node: str = "", control: dist.ProcessGroup | None = None
    ) -> None:
        self._log, self._node, self._control = log, node, control
        self._expect: Expect = expect
        self._known: dict[str, CommunicatorReport] = {}

    def look(self) -> list[CommunicatorReport]:
        """Return the communicators that are new or have changed their verdict since the last look; all of them at the first.

        One that was made and not used yet is returned as unknown and ends nothing.

        Raises:
            TrainingError: on all ranks, the same line, when one goes another way than the run shall use.
        """
        parts = gathered(evidence(self._log, self._log.read(), {}, self._node), self._control)
        report = judge_all(parts, self._expect)
        changed = [
            one
            for one in report.communicators
            if one.name not in self._known or self._known[one.name].verdict != one.verdict
        ]
        self._known = {one.name: one for one in report.communicators}
        fallen = next((one for one in report.communicators if one.verdict not in (*_HARMLESS, self._expect)), None)
        if fallen is not None:
            refuse(_because(report, fallen))
        return changed


def _because(report: TransportReport, fallen: CommunicatorReport) -> TransportReport:
    reason = f"communicator {fallen.name}, seen at a checkpoint: {fallen.reason}"
    return replace(report, verdict=fallen.verdict, good=False, reason=reason, proof=fallen.proof)
