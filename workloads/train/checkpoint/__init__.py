"""Checkpoints: saved beside the training, counted when whole, resumed in another world, exported for others.

    STORE/step-0000000010/__0_0.distcp ...     the shards (torch.distributed.checkpoint, readable by its own tools)
    STORE/step-0000000010/.metadata            which tensor lies where; from rank 0
    STORE/step-0000000010/rng-00000.json ...   the random number generators of each rank
    STORE/step-0000000010/model/config.json    the model's and tokenizer's own files, so that the folder is enough for an export
    STORE/step-0000000010/manifest.json        the commit, written last: step, extra, fingerprints, size and SHA-256 of every file

Modules, in the order of a save: config, checkpoints (the class that a trainer uses), state, layout, staging, upload, manifest, folders,
store; then reading (resume), rng; then export, safetensors_file and command.
"""
