"""The control process: configuration, residency, admission, HTTP, live sessions, packages. Runs on trio.

It holds no model code and no numpy: audio passes through as bytes.
"""
