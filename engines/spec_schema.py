"""Prints the JSON Schema of a spec: `python -m audiocpp.engines.spec_schema > model_specs/schema.json`."""

import json
import sys
from typing import Any

import msgspec

from audiocpp.engines.spec import ModelSpec


def spec_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of `model_specs/<family>.json`, made from the types that read it."""
    schema = msgspec.json.schema(ModelSpec)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "audiocppd model spec", **schema}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(spec_schema(), indent=2) + "\n")
