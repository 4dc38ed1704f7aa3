"""What a bench found, and how it is printed."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of the report.

    Attributes:
        value: in `unit`; a ratio's unit is empty.
        limit: the most that `value` may be; None where the number only informs.
        target: what a later version wants.
        made_of: what the number was computed from, in words.
        why: the reason it is measured.
    """

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    target: float | None = None
    samples: int
    made_of: str = ""
    why: str = ""

    @property
    def missed(self) -> bool:
        # Not `value > limit`: a NaN is a miss.
        return self.limit is not None and not self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one bench. `notes` say what was seen besides, or why all of them are measured."""

    title: str
    figures: Sequence[Figure]
    notes: Sequence[str] = ()

    @property
    def missed(self) -> bool:
        return any(figure.missed for figure in self.figures)


def lines(report: Report) -> Iterable[str]:
    """The report as it is printed."""
    yield report.title
    for figure in report.figures:
        yield _line(figure)
        if figure.why:
            yield f"        {figure.why}"
    for note in report.notes:
        yield f"    {note}"


def _line(figure: Figure) -> str:
    verdict = "" if figure.limit is None else "MISSED" if figure.missed else "ok"
    limit = "" if figure.limit is None else f"at most {figure.limit:g}"
    target = "" if figure.target is None else f" (wanted later: {figure.target:g})"
    value = f"{figure.value:.3g} {figure.unit}".rstrip()
    row = f"    {figure.name:<32} {value:>12}   {limit:<14} {verdict:<6} n={figure.samples:<3} {figure.made_of}{target}"
    return row.rstrip()


def write_json(reports: Iterable[Report], path: Path) -> None:
    path.write_text(json.dumps([_document(report) for report in reports], indent=2) + "\n")


def _document(report: Report) -> dict[str, Any]:
    figures = [{**asdict(figure), "missed": figure.missed} for figure in report.figures]
    return {"title": report.title, "figures": figures, "notes": list(report.notes)}
