"""Prometheus' text format as a dictionary, read by Prometheus' own parser."""

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series_of(text: str) -> Series:
    """(name, labels) -> value, of every sample. Fails where a series occurs twice."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(series: Series, name: str, **labels: str) -> float:
    """The value of one series; 0 for one that does not exist (yet)."""
    return series.get((name, frozenset(labels.items())), 0.0)
