"""Run a script as if it were another time: `at_moment.py MILLISECONDS SCRIPT ARGUMENT…`. It imports what a hook may.

It sets what the program reads its clock by, `time.time_ns`.
"""

import runpy
import sys
import time

real = time.time_ns
begun = real()
moment = int(sys.argv[1]) * 1_000_000
time.time_ns = lambda: moment + real() - begun
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
