"""`python -m bipareto`: the command line."""

import sys

from bipareto.cli import main

sys.exit(main())
