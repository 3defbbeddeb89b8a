#!/usr/bin/env python
"""The reference project's door to Django's management commands."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command named in the arguments, under the development settings unless told otherwise."""
    # Works without an installed package too: `platform/` is the source root of `celeriac`. It is appended, never
    # put first, so that nothing in it can take the place of an installed module.
    sys.path.append(str(Path(__file__).resolve().parent / "platform"))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings.dev")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
