"""The settings of checkpoints."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class CheckpointConfig(BaseModel):
    """When checkpoints are written, how many stay, and what happens when one cannot be written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: int = Field(
        default=500, ge=1, description="Optimizer steps between two checkpoints; the last step is always saved."
    )
    keep: int = Field(
        default=2, ge=1, description="Complete checkpoints that stay; one more is there while the next is written."
    )
    streams: int = Field(
        default=4, ge=1, le=64, description="Files that one rank writes, uploads or downloads at once."
    )
    when_busy: Literal["wait", "skip"] = Field(
        default="wait",
        description="What a save does while the one before is not durable yet: wait for it, or be skipped.",
    )
    max_failures: int = Field(
        default=3, ge=1, description="Saves that may fail in a row; the run ends with the last of them."
    )
    export: Literal["bfloat16", "float32"] | None = Field(
        default="bfloat16",
        description="Numbers of the Hugging Face folder that a finished run leaves in `export` beside its checkpoints; null: none is left.",
    )
    local_path: str | None = Field(
        default=None,
        description="Directory on a local disk (NVMe) for files on their way to and from the store; default: the system's temporary one.",
    )

    def problems(self) -> list[str]:
        """Return what is wrong across fields, one line each."""
        if self.local_path is None or self.local_path.startswith("/"):
            return []
        return [
            f"checkpoint.local_path: found {self.local_path!r}; allowed: an absolute path on every node; "
            "name a directory of the node's local disk, or leave it out"
        ]
