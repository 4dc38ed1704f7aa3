"""What runs inside a worker process: runtimes, placement, model families and the worker loop.

Nothing here knows of trio, HTTP or the daemon. `tasks`, `wire`, `spec`, `catalog`, `placement`, `host` and `errors`
are also imported by the control process, so they import neither numpy nor a runtime.
"""
