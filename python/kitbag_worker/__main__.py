"""`python -I path/to/kitbag_worker HELLO DOOR`: two numbers of sockets."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kitbag_worker.parent import main  # noqa: E402

main()
