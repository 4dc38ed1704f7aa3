"""What a pull leaves on the disk: all of a package, or nothing."""

import fcntl
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio
from tests.fakes.packages import CONTENTS, file_spec, model_spec, package_file, write_wheel

from audiocpp.daemon.packages import NoSpace, PackageStore, PullError, PullProgress, WrongContent
from audiocpp.engines.catalog import Catalog
from audiocpp.engines.spec import FileSource, ModelSpec, PartsSource, Source

TIMEOUT_S = 30


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def store_of(models: Path, *specs: ModelSpec, free_bytes: Callable[[Path], int] = lambda _: 1 << 40) -> PackageStore:
    return PackageStore(models, Catalog.of(specs), free_bytes=free_bytes)


def archive_spec(archive: Path) -> ModelSpec:
    files = (
        package_file(name, content, FileSource(path=str(archive), member=f"tiny_model/{name}"))
        for name, content in CONTENTS.items()
    )
    return model_spec("asr", *files)


def leftovers(models: Path) -> set[str]:
    """Everything below the models root but locks."""
    return {str(path.relative_to(models)) for path in models.rglob("*") if path.is_file() and path.suffix != ".lock"}


def silent(_: PullProgress) -> None:
    pass


async def test_the_first_message_has_licence_and_size_and_the_last_is_complete(sources: Path, models: Path) -> None:
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S):
        await store_of(models, file_spec("asr", sources)).pull("asr", heard.append)
    first, last = heard[0], heard[-1]
    assert (first.phase, first.license, first.attribution) == ("resolving", "MIT", "Copyright the authors")
    assert first.total_bytes == sum(map(len, CONTENTS.values()))
    assert last.phase == "complete"
    phases = list(dict.fromkeys(progress.phase for progress in heard))
    assert phases == ["resolving", "downloading", "verifying", "installing", "complete"]


async def test_only_the_declared_members_of_an_archive_are_written(sources: Path, models: Path) -> None:
    with trio.fail_after(TIMEOUT_S):
        await store_of(models, archive_spec(write_wheel(sources))).pull("asr", silent)
    assert leftovers(models) == {"asr/weights.onnx", "asr/tokens.txt", "asr/.package.json"}
    assert (models / "asr" / "weights.onnx").read_bytes() == CONTENTS["weights.onnx"]


async def test_a_package_that_is_here_is_not_fetched_again(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources))
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", silent)
        for name in CONTENTS:
            (sources / name).unlink()
        result = await store.pull("asr", heard.append)
    assert result.pulled == ()
    assert [progress.phase for progress in heard] == ["resolving", "complete"]


async def test_a_complete_file_is_kept_when_another_one_is_missing(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources))
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", silent)
        kept = (models / "asr" / "weights.onnx").stat().st_ino
        (models / "asr" / "tokens.txt").unlink()
        (sources / "weights.onnx").unlink()
        result = await store.pull("asr", silent)
    assert result.pulled == ("asr",)
    assert store.installed("asr")
    assert (models / "asr" / "weights.onnx").stat().st_ino == kept


async def test_a_damaged_file_of_the_right_size_is_fetched_again(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources))
    with trio.fail_after(TIMEOUT_S):
        await store.pull("asr", silent)
        (models / "asr" / "weights.onnx").write_bytes(b"x" * len(CONTENTS["weights.onnx"]))
        (models / "asr" / "tokens.txt").unlink()
        await store.pull("asr", silent)
    assert (models / "asr" / "weights.onnx").read_bytes() == CONTENTS["weights.onnx"]


async def test_a_file_with_the_wrong_hash_is_refused_by_name_and_nothing_stays(sources: Path, models: Path) -> None:
    spec = file_spec("asr", sources)
    (sources / "tokens.txt").write_bytes(b"a b d")
    expected = next(file.sha256 for file in spec.packages[0].files if file.name == "tokens.txt")
    with (
        trio.fail_after(TIMEOUT_S),
        pytest.raises(WrongContent, match=rf"tokens\.txt: expected sha256 {expected}, got "),
    ):
        await store_of(models, spec).pull("asr", silent)
    assert leftovers(models) == set()


@pytest.mark.parametrize("content", [b"a b", b"a b c d"], ids=["shorter", "longer"])
async def test_a_file_of_the_wrong_size_is_refused(sources: Path, models: Path, content: bytes) -> None:
    spec = file_spec("asr", sources)
    (sources / "tokens.txt").write_bytes(content)
    with trio.fail_after(TIMEOUT_S), pytest.raises(WrongContent, match=r"tokens\.txt: .*5 bytes"):
        await store_of(models, spec).pull("asr", silent)
    assert leftovers(models) == set()


async def test_a_truncated_archive_is_refused_and_nothing_stays(sources: Path, models: Path) -> None:
    archive = write_wheel(sources)
    archive.write_bytes(archive.read_bytes()[:-100])
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match="is damaged"):
        await store_of(models, archive_spec(archive)).pull("asr", silent)
    assert leftovers(models) == set()


async def test_an_archive_with_a_changed_byte_is_refused(sources: Path, models: Path) -> None:
    archive = write_wheel(sources)
    archive.write_bytes(archive.read_bytes().replace(CONTENTS["tokens.txt"], b"a b d"))
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match="is damaged"):
        await store_of(models, archive_spec(archive)).pull("asr", silent)
    assert leftovers(models) == set()


async def test_an_archive_without_the_member_is_refused(sources: Path, models: Path) -> None:
    archive = sources / "other.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("tiny_model/weights.onnx", CONTENTS["weights.onnx"])
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match=r"has no member tiny_model/tokens\.txt"):
        await store_of(models, archive_spec(archive)).pull("asr", silent)


async def test_sources_are_tried_in_order_until_one_gives_the_file(sources: Path, models: Path) -> None:
    wrong, right = sources / "wrong", sources / "right"
    wrong.write_bytes(b"wrong")
    right.write_bytes(b"right")
    tried: tuple[Source, ...] = tuple(FileSource(path=str(path)) for path in (sources / "absent", wrong, right))
    with trio.fail_after(TIMEOUT_S):
        await store_of(models, model_spec("asr", package_file("a.onnx", b"right", *tried))).pull("asr", silent)
    assert (models / "asr" / "a.onnx").read_bytes() == b"right"


async def test_pieces_in_the_wrong_order_are_refused(sources: Path, models: Path) -> None:
    for name in ("first", "second"):
        (sources / name).write_bytes(name.encode())
    parts = tuple(FileSource(path=str(sources / name)) for name in ("second", "first"))
    spec = model_spec("asr", package_file("a.onnx", b"firstsecond", PartsSource(parts=parts)))
    with trio.fail_after(TIMEOUT_S), pytest.raises(WrongContent, match=r"a\.onnx: expected sha256"):
        await store_of(models, spec).pull("asr", silent)
    assert leftovers(models) == set()


async def test_a_file_in_pieces_has_other_sources_as_well(sources: Path, models: Path) -> None:
    (sources / "whole").write_bytes(b"whole")
    pieces = PartsSource(parts=tuple(FileSource(path=str(sources / name)) for name in ("absent", "whole")))
    spec = model_spec("asr", package_file("a.onnx", b"whole", pieces, FileSource(path=str(sources / "whole"))))
    with trio.fail_after(TIMEOUT_S):
        await store_of(models, spec).pull("asr", silent)
    assert (models / "asr" / "a.onnx").read_bytes() == b"whole"


async def test_the_error_lists_every_source_that_was_tried(sources: Path, models: Path) -> None:
    tried = tuple(FileSource(path=str(sources / name)) for name in ("first", "second"))
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match=r"a\.onnx.*/first: .*/second: "):
        await store_of(models, model_spec("asr", package_file("a.onnx", b"a", *tried))).pull("asr", silent)


async def test_too_little_space_is_refused_before_anything_is_written(sources: Path, models: Path) -> None:
    needed = sum(map(len, CONTENTS.values()))
    store = store_of(models, file_spec("asr", sources), free_bytes=lambda _: needed - 1)
    heard: list[PullProgress] = []
    with trio.fail_after(TIMEOUT_S), pytest.raises(NoSpace, match=rf"needs {needed} bytes.*{needed - 1} are available"):
        await store.pull("asr", heard.append)
    assert "downloading" not in {progress.phase for progress in heard}
    assert leftovers(models) == set()


async def test_a_models_root_that_cannot_be_made_is_a_pull_error(sources: Path) -> None:
    spec = file_spec("asr", sources)
    occupied = sources / "tokens.txt"
    with trio.fail_after(TIMEOUT_S), pytest.raises(PullError, match=str(occupied)):
        await store_of(occupied, spec).pull("asr", silent)


@pytest.mark.parametrize("phase", ["resolving", "downloading", "verifying"])
async def test_a_pull_cancelled_in_any_phase_leaves_nothing(sources: Path, models: Path, phase: str) -> None:
    store = store_of(models, file_spec("asr", sources))
    with trio.fail_after(TIMEOUT_S):
        with trio.CancelScope() as scope:
            await store.pull("asr", lambda progress: scope.cancel() if progress.phase == phase else None)
        assert scope.cancelled_caught
        assert leftovers(models) == set()
        assert (await store.pull("asr", silent)).pulled == ("asr",)


async def test_a_pull_cancelled_while_it_installs_has_installed(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources))
    with trio.fail_after(TIMEOUT_S), trio.CancelScope() as scope:
        await store.pull("asr", lambda progress: scope.cancel() if progress.phase == "installing" else None)
    assert store.installed("asr")
    assert leftovers(models) == {"asr/weights.onnx", "asr/tokens.txt", "asr/.package.json"}


async def test_a_second_pull_joins_the_first_and_hears_the_licence(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources))
    heard: dict[str, list[PullProgress]] = {"first": [], "second": []}
    results = {}

    async def pull(name: str) -> None:
        results[name] = await store.pull("asr", heard[name].append)

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull, "first")
            nursery.start_soon(pull, "second")
    assert results["first"] == results["second"]
    assert all(progresses[0].license == "MIT" for progresses in heard.values())
    assert all([p.phase for p in progresses].count("installing") == 1 for progresses in heard.values())


async def test_when_the_first_of_two_pulls_is_cancelled_the_second_goes_on(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources))
    scope = trio.CancelScope()

    def second_heard(_: PullProgress) -> None:
        scope.cancel()

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(_started, store, scope)
            result = await store.pull("asr", second_heard)
    assert scope.cancelled_caught
    assert result.pulled == ("asr",)


async def _started(
    store: PackageStore, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Pulls inside `scope`; started when the first message is out, so that the pull is in progress."""
    begun = False

    def begin(_: PullProgress) -> None:
        nonlocal begun
        if not begun:
            begun = True
            task_status.started()

    with scope:
        await store.pull("asr", begin)


async def test_both_of_two_pulls_fail_when_the_shared_one_does(sources: Path, models: Path) -> None:
    store = store_of(models, file_spec("asr", sources), free_bytes=lambda _: 0)
    failures = []

    async def pull() -> None:
        try:
            await store.pull("asr", silent)
        except NoSpace as error:
            failures.append(error)

    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            nursery.start_soon(pull)
    assert len(failures) == 2


async def test_a_pull_waits_for_the_lock_of_another_process(sources: Path, models: Path) -> None:
    (models / ".pulls").mkdir(parents=True)
    with (models / ".pulls" / "asr.lock").open("ab") as lock, trio.fail_after(TIMEOUT_S):
        fcntl.flock(lock, fcntl.LOCK_EX)
        waited: list[str] = []

        def release(progress: PullProgress) -> None:
            if "waiting" in progress.message:
                waited.append(progress.message)
                fcntl.flock(lock, fcntl.LOCK_UN)

        await store_of(models, file_spec("asr", sources)).pull("asr", release)
    assert len(waited) == 1


async def test_remains_of_dead_pulls_are_removed_and_those_of_live_ones_stay(sources: Path, models: Path) -> None:
    for name in ("asr", "dead", "alive"):
        (models / ".pulls" / name / "ready").mkdir(parents=True)
        (models / ".pulls" / name / "ready" / "part").write_bytes(b"part")
    with (models / ".pulls" / "alive.lock").open("ab") as lock, trio.fail_after(TIMEOUT_S):
        fcntl.flock(lock, fcntl.LOCK_EX)
        await store_of(models, file_spec("asr", sources)).pull("asr", silent)
    assert {path.name for path in (models / ".pulls").iterdir() if path.is_dir()} == {"alive"}


def test_progress_crosses_json_unchanged() -> None:
    progress = PullProgress(package="asr", phase="verifying", file="a.onnx", done_bytes=1, total_bytes=2)
    assert msgspec.json.decode(msgspec.json.encode(progress), type=PullProgress) == progress
