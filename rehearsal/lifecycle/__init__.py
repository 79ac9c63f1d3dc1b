"""The life of a rehearsal: up, a look at it, down, and the proof that nothing is left."""
