"""The page of live transcription in a real browser, whose microphone plays a recording."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from tests.integration.daemon_process import DaemonProcess, running_daemon
from tests.integration.passages import MAX_WORD_ERRORS, passage, word_errors

pytestmark = pytest.mark.integration

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HEARD_S = 12
"""What the microphone plays of the passage."""

PLAYED = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness"
"""Its first words. The cut falls within the sentences after them."""

WAIT_MS = 40_000


@pytest.fixture(scope="module")
def browser(audio_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without a window. Its microphone plays the passage once and is silent then."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    samples, rate_hz = soundfile.read(audio_files["two_cities.wav"], dtype="int16")
    played = tmp_path_factory.mktemp("microphone") / "played.wav"
    soundfile.write(played, np.concatenate([samples[: HEARD_S * rate_hz], np.zeros(2 * rate_hz, np.int16)]), rate_hz)
    flags = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={played}%noloop",
    ]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, headless=True, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page as wide as a phone. Whatever it complains about fails the test."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(WAIT_MS)
    page.on("console", complain)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert [text for text in complaints if "401" not in text and "WebSocket connection" not in text] == []


def open_page(page: Page, url: str) -> None:
    page.goto(f"{url}/live")
    expect(page.locator("#model option")).not_to_have_count(0, timeout=WAIT_MS)


def final(page: Page) -> str:
    return page.inner_text("#final")


def expect_done(page: Page) -> None:
    expect(page.locator("#status")).to_have_text("Done.", timeout=WAIT_MS)
    expect(page.locator("#talk")).to_have_text("Start")
    expect(page.locator("#partial")).to_have_text("")


def test_what_the_microphone_hears_is_written_while_it_is_said(daemon: DaemonProcess, page: Page) -> None:
    open_page(page, daemon.url)
    page.click("#talk")
    expect(page.locator("#status")).to_have_text("Listening.", timeout=WAIT_MS)
    expect(page.locator("#partial")).not_to_have_text("", timeout=WAIT_MS)
    assert float(page.locator("#level").evaluate("element => element.value")) >= 0
    expect(page.locator("#final")).to_contain_text("times", timeout=WAIT_MS)
    assert page.inner_text("#talk") == "Stop"
    expect(page.locator("#final")).to_contain_text("foolishness", timeout=WAIT_MS)
    page.click("#talk")
    expect_done(page)
    words = len(PLAYED.split())
    assert word_errors(PLAYED, " ".join(final(page).split()[:words])) <= MAX_WORD_ERRORS
    expect(page.locator("#timing")).to_contain_text("s heard")


def test_the_level_follows_the_microphone(daemon: DaemonProcess, page: Page) -> None:
    open_page(page, daemon.url)
    page.click("#talk")
    level = page.locator("#level")
    expect(level).not_to_have_js_property("value", 0, timeout=WAIT_MS)
    page.click("#talk")
    expect_done(page)
    expect(level).to_have_js_property("value", 0)


def test_a_recording_is_transcribed(daemon: DaemonProcess, page: Page, audio_files: dict[str, Path]) -> None:
    open_page(page, daemon.url)
    page.set_input_files("#file", audio_files["beckett.wav"])
    expect_done(page)
    assert word_errors(passage("beckett"), final(page)) <= MAX_WORD_ERRORS


def test_the_page_fits_a_phone(daemon: DaemonProcess, page: Page) -> None:
    open_page(page, daemon.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for control in ("#model", "#talk"):
        box = page.locator(control).bounding_box()
        assert box is not None
        assert box["height"] >= 44, "too small for a thumb"


def test_a_key_is_asked_for_and_used(
    browser: Browser, page: Page, tmp_path: Path, models_root: Path, audio_files: dict[str, Path]
) -> None:
    with running_daemon(tmp_path, models_root, api_keys=["s3cret.key"]) as daemon:
        page.goto(f"{daemon.url}/live")
        expect(page.locator("#key-label")).to_be_visible(timeout=WAIT_MS)
        expect(page.locator("#status")).to_contain_text("API key")
        page.fill("#key", "s3cret.key")
        page.press("#key", "Tab")
        expect(page.locator("#model option")).to_have_text(["moonshine-live"], timeout=WAIT_MS)
        page.set_input_files("#file", audio_files["beckett.wav"])
        expect_done(page)
        assert word_errors(passage("beckett"), final(page)) <= MAX_WORD_ERRORS


class Relay:
    """Passes connections on to a daemon, and can break those that are open."""

    def __init__(self, url: str) -> None:
        self._to = (str(urlsplit(url).hostname), urlsplit(url).port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            far = socket.create_connection(self._to)
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # broken

    def break_all(self) -> None:
        broken, self._open = self._open, []
        for end in broken:
            with suppress(OSError):  # the other end was first
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_all()


@contextmanager
def relay(url: str) -> Iterator[Relay]:
    between = Relay(url)
    try:
        yield between
    finally:
        between.close()


def test_a_connection_that_breaks_costs_no_word(daemon: DaemonProcess, page: Page) -> None:
    with relay(daemon.url) as between:
        open_page(page, between.url)
        page.click("#talk")
        for words in ("best", "age of wisdom"):
            expect(page.locator("#final")).to_contain_text(words, ignore_case=True, timeout=WAIT_MS)
            between.break_all()
            expect(page.locator("#status")).to_contain_text("The connection broke", timeout=WAIT_MS)
            expect(page.locator("#status")).to_have_text("Listening.", timeout=WAIT_MS)
        expect(page.locator("#final")).to_contain_text("foolishness", timeout=WAIT_MS)
        page.click("#talk")
        expect_done(page)
        words_said = len(PLAYED.split())
        assert word_errors(PLAYED, " ".join(final(page).split()[:words_said])) <= MAX_WORD_ERRORS
