"""What every test runs without."""

import os

# Pipes are buffered on most machines: a program that forgets to flush must hang here too.
os.environ.pop("PYTHONUNBUFFERED", None)
