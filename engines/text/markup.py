"""Takes Markdown and tags out of a text, so that only what is meant to be heard remains.

- Markdown (CommonMark, tables, strikethrough) is reduced to its words: a link to its text, a picture to what it is
  called, a table row to its cells. Bullets are dropped; the number of a numbered item is spoken. Indented code is text.
- Well-formed tags of XML, SSML or HTML are dropped and what they enclose is kept; block elements end a passage. A
  `break` becomes a `Pause`. Every attribute of a tag needs a value, as in XML: `x <y and z> w` is text, as are a bare
  `<` and `&`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from audiocpp.engines.text.sentences import cut_position

LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence that the text asks for."""

    seconds: float


_BREAK_STRENGTHS_S = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.5, "strong": 0.75, "x-strong": 1.0}
"""Lengths of SSML's `strength` values; SSML leaves them to the synthesizer."""

_BLOCK_TAGS = frozenset((
    "article", "blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "header", "footer",
    "hr", "li", "ol", "p", "paragraph", "pre", "s", "section", "sentence", "speak", "table", "td", "th", "tr", "ul",
))  # fmt: skip
# Neither a value nor a comment may run on without end: a hostile text would be scanned once per `<`.
_TAG = re.compile(
    r"""<(?P<close>/?)(?P<name>[A-Za-z][\w:.-]{0,63})(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*/?>"""
    r"""|<!--.{0,1000}?-->|<[!?][A-Za-z][^<>]*>""",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*["']([^"']*)["']""")
_TIME = re.compile(r"\+?(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})(ms|s)")

# A pause travels through the Markdown parser as a mark of two private-use characters around its milliseconds.
_PAUSE_OPEN, _PAUSE_CLOSE = "\ue000", "\ue001"
_PAUSE_MARK = re.compile(f"{_PAUSE_OPEN}(\\d+){_PAUSE_CLOSE}")
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u2060\ufeff\ue000-\uf8ff]")

_MARKDOWN_HINT = re.compile(
    r"[*_`~\[\]|\\]|<[A-Za-z]|&[\w#]+;|^[ \t]*(?:[-+>#]|\d{1,9}[.)][ \t]|[-=]{2,}[ \t]*$)", re.MULTILINE
)
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["code", "html_block"])
_STRETCH_CHARS = 4096
_LONGEST_PORTION_CHARS = 4 * _STRETCH_CHARS
_LONGEST_TAG_CHARS = 1024


def text_portions(text: str) -> Iterator[str]:
    """Yields `text` in portions, tags and what cannot be spoken taken out; some portions may be empty.

    A portion ends at a blank line outside fenced code; where there is none for too long at the end of a line, or within
    one. So each step takes a bounded time, and the first portion of a long text is there at once.
    """
    stretches = _untagged_stretches(text)
    held = next(stretches, "")
    for stretch in stretches:
        border = _last_border(held)
        yield held[:border]
        held = held[border:] + stretch
    yield held


def read_passages(portion: str) -> Iterator[str | Pause]:
    """Yields the passages of a portion and the pauses between them, in order.

    A passage is a paragraph, heading, list item or table row, on one line and not empty; a sentence never crosses its
    end.
    """
    for block in _markdown_blocks(portion) if _MARKDOWN_HINT.search(portion) else _paragraphs(portion):
        yield from _split_pauses(block)


def _untagged_stretches(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _outside_tags(text, start + _STRETCH_CHARS)
        yield _mark_tags(_UNSPEAKABLE.sub("", text[start:end]))
        start = end


def _outside_tags(text: str, at: int) -> int:
    """`at`, or the end of a tag that would be cut there."""
    for tag in _TAG.finditer(text, max(at - _LONGEST_TAG_CHARS, 0), at + _LONGEST_TAG_CHARS):
        if tag.start() < at < tag.end():
            return tag.end()
    return at


def _mark_tags(text: str) -> str:
    return _TAG.sub(_replace_tag, text) if "<" in text else text


def _replace_tag(match: re.Match[str]) -> str:
    name = (match["name"] or "").lower().rpartition(":")[2]
    if name == "break" and not match["close"]:
        milliseconds = round(_break_seconds(dict(_ATTRIBUTE.findall(match["attributes"]))) * 1000)
        return f" {_PAUSE_OPEN}{milliseconds}{_PAUSE_CLOSE} "
    return "\n\n" if name in _BLOCK_TAGS else ""


def _break_seconds(attributes: dict[str, str]) -> float:
    time = _TIME.fullmatch(attributes.get("time", "").strip())
    if time:
        return min(float(time[1]) / (1000 if time[2] == "ms" else 1), LONGEST_PAUSE_S)
    return _BREAK_STRENGTHS_S.get(attributes.get("strength", "medium"), _BREAK_STRENGTHS_S["medium"])


def _last_border(text: str) -> int:
    """Where the last portion of `text` ends; 0 where more must be seen."""
    border, end, fenced = 0, 0, False
    for line in text.splitlines(keepends=True):
        end += len(line)
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and line.isspace() and line[-1] in "\r\n":
            border = end
    if border or len(text) <= _LONGEST_PORTION_CHARS:
        return border
    return text.rfind("\n", 0, _LONGEST_PORTION_CHARS) + 1 or cut_position(text, _LONGEST_PORTION_CHARS)


def _paragraphs(text: str) -> Iterator[str]:
    return iter(re.split(r"\n[ \t\r]*\n", text))


def _markdown_blocks(text: str) -> Iterator[str]:
    item_number = ""
    cells: list[str] | None = None
    for token in _MARKDOWN.parse(text):
        match token.type:
            case "list_item_open":
                item_number = f"{token.info}. " if token.info else ""
            case "tr_open":
                cells = []
            case "inline" if cells is not None:
                cells.append(_inline_text(token))
            case "inline":
                yield item_number + _inline_text(token)
                item_number = ""
            case "fence":
                yield token.content
            case "tr_close":
                yield ", ".join(filter(None, cells or ()))
                cells = None


def _inline_text(token: Token) -> str:
    return "".join(_child_text(child) for child in token.children or ())


def _child_text(token: Token) -> str:
    match token.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "text" | "code_inline":
            return token.content
        case "image":
            return _inline_text(token)
        case _:
            return ""


def _split_pauses(block: str) -> Iterator[str | Pause]:
    for index, part in enumerate(_PAUSE_MARK.split(block)):
        if index % 2:
            yield Pause(int(part) / 1000)
        elif part := " ".join(part.split()):
            yield part
