"""`python -m labtui` is `labtui`."""

import sys

from labtui.cli.main import main

sys.exit(main())
