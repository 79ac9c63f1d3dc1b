"""The training program. It runs inside the container image, as `python -m train`.

Modules, in the order of a run: options, launch (Ray), worker (Ray), device, relay, loop, model, data, checkpoint, store, events, failures.
"""
