"""`python -m dragoman` is the command line."""

from __future__ import annotations

import sys

from dragoman.cli import main

sys.exit(main())
