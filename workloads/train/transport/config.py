"""What a run demands of its network."""

from pathlib import PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Expect = Literal["efa", "tcp", "any"]


class TransportConfig(BaseModel):
    """The section `transport` of a run's configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expect: Expect = Field(
        default="any",
        description="What must carry the traffic between nodes: efa, tcp (plain sockets, asked for), or any (it is only reported).",
    )
    log_dir: str = Field(
        default="/tmp/nccl",
        description="Directory on each node for NCCL's debug output, a file for each rank; an absolute path.",
    )
    measure: bool = Field(default=True, description="Measure the bus bandwidth of every group before the first step.")

    def problems(self) -> list[str]:
        """Return what is wrong, one line each."""
        # NCCL opens the file itself and expands no ~; a relative path would follow Ray's working directory, which is cleared.
        if not PurePosixPath(self.log_dir).is_absolute():
            return [
                f"transport.log_dir: found {self.log_dir!r}; allowed: an absolute path; write it in full, NCCL expands no ~"
            ]
        return []
