"""Policies of the stack: pure predicates over a graph of its resources. `__main__.py` hands them to the engine."""
