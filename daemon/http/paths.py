"""Paths of routes as clients read them."""

import re

from werkzeug.routing import Rule

_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


def rule_path(rule: Rule) -> str:
    """`/v1/models/{model_id}`."""
    return _PARAMETER.sub(r"{\1}", rule.rule)
