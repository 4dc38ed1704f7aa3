"""audiocpp: a speech and audio server for devices.

The real source folders are `daemon`, `engines`, `control` and `model_specs` at the top of the repository.
The wheel maps them here; an editable install reaches them through links.
"""

__version__ = "0.1.0"
