"""The settings of a run's data."""

import re
from pathlib import PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SYNTHETIC, BUILTIN = "synthetic", "builtin"
_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")

Format = Literal["text", "instruction", "tokens"]


class DataConfig(BaseModel):
    """The section `data`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(
        default=BUILTIN,
        description="builtin: English text that Python ships. synthetic: tokens of a Markov source. Otherwise files ending in .jsonl or "
        ".parquet: an absolute path of a file or a folder, a glob, or s3://BUCKET/PREFIX.",
    )
    format: Format = Field(
        default="text",
        description="What a row of the files is. text: `text_column` is a document. instruction: `messages` ({role, content}, through the "
        "tokenizer's chat template) or `prompt` and `response`; the loss is on what the assistant says. tokens: `input_ids` is a document "
        "that was tokenised before, with `loss_mask` (0 or 1 for each) where not all of it counts.",
    )
    text_column: str = Field(default="text", min_length=1, description="The column that holds the text of a row.")
    tokenizer: str | None = Field(
        default=None,
        min_length=1,
        description="Folder or Hugging Face id of the tokenizer, or bytes: one token for each byte and one for the end. Default: the "
        "model's own, or bytes where the model has none.",
    )
    sequence_length: int = Field(
        default=2048, ge=8, le=1 << 20, description="Tokens of a sequence; documents are packed to it."
    )
    seed: int = Field(
        default=0,
        ge=0,
        lt=1 << 63,
        description="Seed of the order in which sequences are trained on, and of synthetic tokens.",
    )
    held_out: float = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="Share of the rows that is evaluated on and never trained on. Chosen by a hash of what a row says, so a row that "
        "occurs twice is on one side. 0: all rows are trained on, none is evaluated.",
    )
    cache_path: str | None = Field(
        default=None,
        description="Folder of this node for packed sequences; about 5 bytes a token, so the fast local disk. Default: train-data in the "
        "folder for temporary files, TMPDIR.",
    )
    preparation_timeout: float = Field(
        default=3600, gt=0, description="Seconds that the ranks of a node wait for the one that packs."
    )

    def problems(self) -> list[str]:
        """Return what is wrong across fields, one line each."""
        found: list[str] = []
        if self.source not in (SYNTHETIC, BUILTIN):
            if not self.source.startswith("/") and not _S3.fullmatch(self.source):
                found.append(
                    f"data.source: found {self.source!r}; allowed: builtin, synthetic, an absolute path or glob, or s3://BUCKET/PREFIX; "
                    "write the path in full"
                )
        elif self.format != "text":
            found.append(
                f"data.format: found {self.format!r} with data.source={self.source}; allowed: text; leave it out or name files"
            )
        if self.cache_path is not None and not PurePosixPath(self.cache_path).is_absolute():
            found.append(
                f"data.cache_path: found {self.cache_path!r}; allowed: an absolute path on this node; write the path in full"
            )
        return found
