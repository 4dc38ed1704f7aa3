"""What the fork server imports once, so that its children share it: the libraries that every worker needs.

Imported only there. A worker forked from it starts in milliseconds instead of half a second.
"""

import importlib
import importlib.util
import signal

from audiocpp.engines.process import unmap_library_pages

# A service manager's SIGTERM reaches the whole control group. The daemon drains first and ends its workers itself, so
# the fork server (and with it every child) must outlive that signal; it leaves when the daemon does.
signal.signal(signal.SIGTERM, signal.SIG_IGN)

for _name in ("numpy", "msgspec", "soxr", "soundfile", "onnxruntime", "audiocpp.engines.worker"):
    if importlib.util.find_spec(_name) is not None:
        importlib.import_module(_name)

unmap_library_pages()
