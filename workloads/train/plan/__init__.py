"""The plan: how a job is laid out on the machines it got, what that will cost, and how the prediction compares with what was measured.

Pure: plan, config, machine, hardware, instances, shapes, flops, memory, cost, candidates, choose, refuse, trial, hosts, what_if, command.
With torch.distributed: agree, probe.
"""
