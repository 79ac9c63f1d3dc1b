"""Start the policy pack, for `pulumi preview --policy-pack policies`."""

import sys
from pathlib import Path

# The engine puts this directory on the path, not the repository's root, where the packages `policies` and `infra` are.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi_policy import PolicyPack

from policies.engine import policies
from policies.pack import NAME, RULES

PolicyPack(NAME, policies(RULES))
