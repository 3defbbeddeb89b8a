"""The tests' settings in a project that keeps local times without a zone."""

from settings.test import *  # noqa: F403 -- as settings.test does

USE_TZ = False
TIME_ZONE = "America/New_York"
