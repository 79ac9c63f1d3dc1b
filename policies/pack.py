"""Every rule of the pack, family by family."""

from typing import Final

from policies import (
    efa,
    efa_security_group,
    exposure,
    hidden_resources,
    identity,
    network,
    nodes,
    placement,
    supply_chain,
    workload,
    zone,
)
from policies.rules import Rule

NAME: Final = "efa-ray-train"
RULES: Final[tuple[Rule, ...]] = (
    *zone.RULES,
    *placement.RULES,
    *efa.RULES,
    *efa_security_group.RULES,
    *nodes.RULES,
    *network.RULES,
    *exposure.RULES,
    *identity.RULES,
    *workload.RULES,
    *hidden_resources.RULES,
    *supply_chain.RULES,
)
