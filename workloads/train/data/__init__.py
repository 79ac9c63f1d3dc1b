"""The data of a run: from a source to packed sequences once (source, rows, documents, packing, prepare), from there to batches (state)."""
