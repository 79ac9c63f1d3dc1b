"""The configuration of a stack: read once, checked as a whole, then passed on as frozen dataclasses."""

from settings.fields import Settings
from settings.problems import Problem, SettingsError
from settings.read import parse

__all__ = ["Problem", "Settings", "SettingsError", "parse"]
