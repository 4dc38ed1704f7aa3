"""The operator's plane: protocol types, the admin server app, its client and the command line `audiocppctl`.

`protocol`, `client` and `cli` use the standard library only, so that the command answers at once on a small board.
"""
