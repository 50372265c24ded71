"""Runs the capture hook of the mcp_memory package beside this file, whichever Python a client finds. Always exits 0."""

import os
import sys

try:
    _here = os.path.dirname(os.path.realpath(__file__))
    # The package is in the directory above in a checkout, and around this file in an installed wheel.
    for _parent in (os.path.dirname(_here), os.path.dirname(os.path.dirname(_here))):
        if os.path.isfile(os.path.join(_parent, "mcp_memory", "capture", "hook.py")):
            sys.path.append(_parent)  # last, so that nothing installed there can stand in for the standard library
            break
    from mcp_memory.capture.hook import main

    main()
except BaseException as error:
    sys.stderr.write("mcp-memory: the capture hook could not run (%s)\n" % type(error).__name__)
finally:
    os._exit(0)  # without the interpreter's own clean-up, which would close, and so checkpoint, the database
