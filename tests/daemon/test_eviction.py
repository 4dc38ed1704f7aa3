"""Whom to evict: examples of each decision, and what holds for all of them."""

from hypothesis import given
from hypothesis import strategies as st

from audiocpp.daemon.eviction import ByteLimit, Evict, Fits, Never, Resident, Wait, decide


def resident(
    name: str, held: int, idle_since: float | None, *, pinned: bool = False, leaving: bool = False
) -> Resident:
    return Resident(name, name, held, idle_since, pinned=pinned, leaving=leaving)


def limit(free: int) -> list[ByteLimit]:
    return [ByteLimit("max_resident_memory_mb", free)]


def test_what_fits_evicts_nobody() -> None:
    assert decide(100, [resident("a", 50, 1.0)], limit(100), None) == Fits()


def test_the_least_recently_used_goes_first() -> None:
    idle = [resident("new", 60, 9.0), resident("old", 60, 1.0)]
    assert decide(100, idle, limit(50), None) == Evict(("old",))


def test_one_that_would_not_help_stays() -> None:
    idle = [resident("small and old", 10, 1.0), resident("large and new", 90, 2.0)]
    assert decide(100, idle, limit(20), None) == Evict(("large and new",))


def test_the_count_of_models_is_a_limit_of_its_own() -> None:
    idle = [resident("a", 10, 2.0), resident("b", 10, 1.0)]
    assert decide(5, idle, limit(1000), 0) == Evict(("b",))
    assert decide(5, idle, [], 0) == Evict(("b",))


def test_every_limit_must_hold() -> None:
    limits = [ByteLimit("host", 200), ByteLimit("cgroup /audiocpp", 20)]
    assert decide(100, [resident("a", 90, 1.0)], limits, None) == Evict(("a",))


def test_a_busy_model_is_waited_for_and_the_binding_limit_named() -> None:
    assert decide(100, [resident("busy", 90, None)], limit(20), None) == Wait("max_resident_memory_mb", 100, 20)
    assert decide(1, [resident("busy", 9, None)], limit(20), 0) == Wait("max_loaded_models", 1, 0)


def test_a_model_that_is_leaving_is_waited_for_instead_of_evicting_another() -> None:
    residents = [resident("going", 90, 1.0, leaving=True), resident("idle", 90, 1.0)]
    assert decide(100, residents, limit(20), None) == Wait("max_resident_memory_mb", 100, 20)


def test_what_pinned_models_leave_no_room_for_never_fits() -> None:
    residents = [resident("pinned", 90, 1.0, pinned=True), resident("idle", 5, 1.0)]
    assert decide(100, residents, limit(20), None) == Never("max_resident_memory_mb", 100, 25, ("pinned",))


def test_a_model_larger_than_the_machine_never_fits() -> None:
    assert decide(100, [], limit(99), None) == Never("max_resident_memory_mb", 100, 99, ())


residents_strategy = st.lists(
    st.builds(
        Resident,
        name=st.uuids().map(str),
        label=st.just("m"),
        held_bytes=st.integers(0, 100),
        idle_since=st.none() | st.floats(0, 100),
        pinned=st.booleans(),
        leaving=st.booleans(),
    ),
    max_size=7,
    unique_by=lambda each: each.name,
)
limits_strategy = st.lists(st.builds(ByteLimit, st.sampled_from("xyz"), st.integers(-50, 200)), max_size=3)
places_strategy = st.none() | st.integers(0, 3)


def room(needed: int, gone: list[Resident], limits: list[ByteLimit], places: int | None) -> bool:
    freed = sum(each.held_bytes for each in gone)
    return (places is None or places + len(gone) > 0) and all(each.free_bytes + freed >= needed for each in limits)


@given(st.integers(0, 150), residents_strategy, limits_strategy, places_strategy)
def test_victims_are_idle_unpinned_enough_and_none_too_many(
    needed: int, residents: list[Resident], limits: list[ByteLimit], places: int | None
) -> None:
    by_name = {each.name: each for each in residents}
    leaving = [each for each in residents if each.leaving]
    match decide(needed, residents, limits, places):
        case Fits():
            assert room(needed, [], limits, places)
        case Evict(names):
            victims = [by_name[name] for name in names]
            assert victims
            assert all(each.evictable for each in victims)
            assert room(needed, leaving + victims, limits, places)
            for spared in victims:
                assert not room(needed, leaving + [each for each in victims if each is not spared], limits, places)
        case Wait():
            assert not room(needed, [], limits, places)
            assert room(needed, [each for each in residents if not each.pinned], limits, places)
        case Never():
            assert not room(needed, [each for each in residents if not each.pinned], limits, places)
