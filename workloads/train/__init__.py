"""The training program. It runs inside the container image, as `python -m train`."""
