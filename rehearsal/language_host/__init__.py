"""Run Pulumi programs and policy packs written in Python, for an engine that came without its own language host."""

RUNNER_VARIABLE = "EFA_RAY_TRAIN_PROGRAM_RUNNER"
"""Names the SDK's script that runs a program; the rehearsal sets it for the language host."""
