"""Drills: faults that people met, made on purpose, each with the message, the time and the way out that it has to have."""
