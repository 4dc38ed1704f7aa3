"""What is left of marked-up text when only words and pauses may be heard."""

import time
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audiocpp.engines.text.markup import LONGEST_PAUSE_S, Pause, read_passages, text_portions


def iter_passages(text: str) -> Iterator[str | Pause]:
    for portion in text_portions(text):
        yield from read_passages(portion)


def passages(text: str) -> list[str | Pause]:
    return list(iter_passages(text))


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("**Note** see [x](http://y)", ["Note see x"]),
        ("*a* _b_ ***c*** ~~d~~ `e`", ["a b c d e"]),
        ("# Title\nBody.\n\n## Next ##", ["Title", "Body.", "Next"]),
        ("- one\n- two\n  more", ["one", "two more"]),
        ("> quoted\n> on", ["quoted on"]),
        ("![a cat](cat.png)", ["a cat"]),
        ("<https://example.com>", ["https://example.com"]),
        ("```python\nprint(1)\n```", ["print(1)"]),
        ("| a | b |\n|---|---|\n| c | d |\n\nend", ["a, b", "c, d", "end"]),
        ("---\n\n***", []),
    ],
)
def test_markdown_is_reduced_to_its_words(text: str, heard: list[str]) -> None:
    assert passages(text) == heard


@pytest.mark.parametrize(
    "text",
    ["snake_case_name", "2 * 3 * 4", "a < b & c", "x <y and y> z", "5 <6", "C:\\temp", "1.5 - 2", "[brackets] stay"],
)
def test_what_only_looks_like_markup_is_text(text: str) -> None:
    assert passages(text) == [text]


def test_the_number_of_a_numbered_item_is_kept() -> None:
    assert passages("1. First\n2. Second") == ["1. First", "2. Second"]
    assert passages("1999. What a year") == ["1999. What a year"]


def test_indented_text_is_not_code() -> None:
    assert passages("    four spaces\n    and *more*") == ["four spaces and more"]


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("<speak>Hello <prosody rate='slow'>slow</prosody></speak>", ["Hello slow"]),
        ("<p>One</p><p>two<br/>three</p>", ["One", "two", "three"]),
        ("Hel<b>lo</b>", ["Hello"]),
        ("a<!-- never > this -->b", ["ab"]),
        ('<?xml version="1.0"?><speak xml:lang="en">x</speak>', ["x"]),
        ("AT&amp;T &lt;3", ["AT&T <3"]),
    ],
)
def test_tags_are_removed_and_their_content_kept(text: str, heard: list[str]) -> None:
    assert passages(text) == heard


@pytest.mark.parametrize(
    ("tag", "seconds"),
    [
        ('<break time="800ms"/>', 0.8),
        ("<break time='1.5s' />", 1.5),
        ('<break strength="strong"/>', 0.75),
        ('<break strength="none"/>', 0.0),
        ("<break>", 0.5),
        ('<break time="soon"/>', 0.5),
        ('<break time="3600s"/>', LONGEST_PAUSE_S),
    ],
)
def test_a_break_becomes_a_pause(tag: str, seconds: float) -> None:
    assert passages(f"Hi {tag} there") == ["Hi", Pause(seconds), "there"]


def test_a_break_inside_emphasis_leaves_no_asterisks() -> None:
    assert passages("**so <break time='1s'/> bold**") == ["so", Pause(1.0), "bold"]


def test_the_marks_that_stand_for_a_pause_cannot_be_sent() -> None:
    assert passages("a \ue0009000\ue001 b") == ["a 9000 b"]


def test_control_characters_are_dropped() -> None:
    assert passages("a\x00b\x07 c\u200bd") == ["ab cd"]


def test_a_blank_line_ends_a_passage_and_a_line_break_does_not() -> None:
    assert passages("one\ntwo\n \nthree") == ["one two", "three"]


def test_fenced_code_of_a_long_text_is_not_torn() -> None:
    text = "*intro*\n\n" * 3000 + "```\na\n\n*b*\n```\n\n" + "end\n\n" * 3000
    assert "a *b*" in passages(text)


def test_the_first_passage_of_a_long_text_is_found_without_reading_all() -> None:
    text = "*word* " * 20 + "\n\n"

    def first_s(repeats: int) -> float:
        started = time.perf_counter()
        assert len(list(islice(iter_passages(text * repeats), 1))) == 1
        return time.perf_counter() - started

    first_s(200)
    assert min(first_s(8000) for _ in range(3)) < 10 * min(first_s(200) for _ in range(3))


BLOCKS = [
    "A short paragraph.",
    "One that is *long*: " + "so it goes, " * 400 + "and ends.",
    "- one\n- two",
    "```\na <b>\n\n*c*\n```",
    "| a | b |\n|---|---|\n| c | d |",
    "Wait <break time='1s'/> for it",
    "<p>" + "words " * 150 + "</p><p>more</p>",
    "Hidden <!-- " + "so \n\n" * 100 + "--> text",
    "zero\u200bwidth " * 300,
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(BLOCKS), max_size=12))
def test_a_long_text_is_read_like_its_blocks(blocks: list[str]) -> None:
    assert passages("\n\n".join(blocks)) == [passage for block in blocks for passage in passages(block)]


@pytest.mark.parametrize("tag", ["<break time='1s'/>", "</b>", "<b class='" + "x" * 900 + "'>", f"<!--{'x' * 900}-->"])
def test_a_tag_is_not_torn_wherever_it_lies(tag: str) -> None:
    for before in range(4000, 4200, 7):
        heard = passages(f"{'a ' * (before // 2)}{tag} end")
        assert "".join(part for part in heard if isinstance(part, str)).replace(" ", "") == "a" * (before // 2) + "end"


@pytest.mark.parametrize(
    "text", ["word " * 200_000, "\u200b" * 1_000_000, "x" * 1_000_000, "\u0301" * 1_000_000, "a\n" * 500_000]
)
def test_portions_are_short_whatever_the_text(text: str) -> None:
    portions = list(text_portions(text))
    assert max(map(len, portions)) <= 24_576
    assert sum(map(len, portions)) == len(text.replace("\u200b", ""))


@pytest.mark.parametrize("unit", ["<!--", "<a b='", "<a ", "<![CDATA[", "[", "*", "`", "&", "<?x", "\n ", "> "])
def test_hostile_repetition_costs_little(unit: str) -> None:
    started = time.perf_counter()
    passages(unit * (20_000 // len(unit)))
    assert time.perf_counter() - started < 5
