"""What a user may fix of the plan. What is left open is decided from what the probe measures."""

from pydantic import BaseModel, ConfigDict, Field

from .plan import ActivationCheckpoint, Strategy


class PlanConfig(BaseModel):
    """Parts of the plan that are not to be chosen. Global batch, sequence length and dtypes are not here: no plan changes them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Strategy | None = Field(
        default=None, description="hsdp, fsdp or unsharded-accumulation; default: the fastest"
    )
    micro_batch: int | None = Field(
        default=None, ge=1, description="sequences per rank and micro-batch; default: the fastest"
    )
    activation_checkpoint: ActivationCheckpoint | None = Field(
        default=None, description="none, selective or full; default: the fastest that fits"
    )
    reshard_after_forward: bool | None = Field(
        default=None, description="free gathered weights between forward and backward; default: the fastest that fits"
    )
    prefetch: int | None = Field(
        default=None, ge=0, le=2, description="blocks gathered ahead in the forward pass; default: 1"
    )

    @property
    def fixed(self) -> dict[str, object]:
        """Return what is not left open, by key."""
        return {key: value for key, value in self.model_dump().items() if value is not None}

    def problems(self) -> list[str]:
        """Return what cannot go together, one line each."""
        if self.strategy == "unsharded-accumulation" and self.reshard_after_forward:
            return [
                "plan.reshard_after_forward: found true; allowed: false with plan.strategy unsharded-accumulation, "
                "which keeps the weights gathered; leave it out"
            ]
        return []
