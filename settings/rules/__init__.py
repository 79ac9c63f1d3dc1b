"""The rules that hold between settings; each module has those of one topic."""

from settings.rules import capacity, network, storage, workload
from settings.rules.rule import Rule

RULES: tuple[Rule, ...] = (*network.RULES, *capacity.RULES, *workload.RULES, *storage.RULES)
