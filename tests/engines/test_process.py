"""What a process asks of the kernel for itself, in processes of their own."""

import subprocess
import sys

UNMAP = """
import numpy as np, onnxruntime, pathlib
from audiocpp.engines.process import unmap_library_pages

def file_pages_kb():
    rows = (line.split() for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return next(int(row[1]) for row in rows if row[0] == "RssFile:")

before = file_pages_kb()
unmap_library_pages()
after = file_pages_kb()
assert np.linalg.inv(np.full((1, 1), 2.0)) == 0.5
onnxruntime.SessionOptions().intra_op_num_threads = 1
print(before, after)
"""


def test_library_pages_are_given_up_and_come_back_when_used() -> None:
    run = subprocess.run([sys.executable, "-c", UNMAP], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    before_kb, after_kb = map(int, run.stdout.split())
    assert after_kb < before_kb / 2
