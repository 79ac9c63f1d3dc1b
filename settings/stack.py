"""The one reader of Pulumi's configuration."""

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from settings import Settings, SettingsError, parse
from settings.warnings import warnings


def load() -> Settings:
    """Return the settings of the selected stack and log its warnings.

    Raises:
        pulumi.RunError: with every problem of the configuration, one a line.
    """
    try:
        settings = parse(_everything(), stack=pulumi.get_stack())
    except SettingsError as error:
        raise pulumi.RunError(f"the configuration of stack {pulumi.get_stack()} is refused:\n{error}") from None
    for warning in warnings(settings):
        pulumi.log.warn(warning)
    return settings


def _everything() -> dict[str, object]:
    # pulumi.Config answers for keys that it is asked about; unknown keys show only in the whole map.
    return {**get_config_env(), **CONFIG.get()}
