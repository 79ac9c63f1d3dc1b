"""The training program. It runs inside the container image, as `python -m train`.

In the order of a run: cli and config (sections), launch and worker (Ray) or alone (torchrun), relay and recorder (events to the driver and
into the record), prepare (model, hub, parallel, plan, transport, data, checkpoint), trainer (the loop: loss, optimizer, anomalies, metrics,
faults), evaluate, finished, record.
"""
