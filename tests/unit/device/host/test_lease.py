"""Which page holds the foreground lease."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lineloop.device.host.web.lease import ForegroundLease


def test_the_page_that_became_visible_and_focused_last_holds_it() -> None:
    lease = ForegroundLease()
    assert lease.holder is None
    lease.changed("a", visible=True, focused=True)
    lease.changed("b", visible=True, focused=False)
    assert lease.holder == "a"
    lease.changed("b", visible=True, focused=True)
    assert lease.holder == "b"


def test_losing_the_focus_to_another_program_keeps_it() -> None:
    lease = ForegroundLease()
    lease.changed("a", visible=True, focused=True)
    lease.changed("a", visible=True, focused=False)
    assert lease.holder == "a"


def test_a_hidden_or_closed_holder_gives_it_to_the_page_used_before() -> None:
    lease = ForegroundLease()
    for page in ("a", "b", "c"):
        lease.changed(page, visible=True, focused=True)
    lease.changed("c", visible=False, focused=False)
    assert lease.holder == "b"
    lease.gone("b")
    assert lease.holder == "a"
    lease.gone("a")
    assert lease.holder is None
    assert not lease.any_visible


def test_a_visible_page_takes_it_when_nobody_has_it() -> None:
    lease = ForegroundLease()
    lease.changed("a", visible=True, focused=False)
    assert lease.holder == "a"


def test_using_a_page_is_being_there_unless_nobody_can_see_it() -> None:
    lease = ForegroundLease()
    lease.changed("a", visible=True, focused=True)
    lease.changed("b", visible=True, focused=False)
    assert lease.used("b")
    assert lease.holder == "b"
    lease.changed("a", visible=False, focused=False)
    assert not lease.used("a")
    assert lease.holder == "b"


_PAGES = st.sampled_from("abc")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("changed"), _PAGES, st.booleans(), st.booleans()),
        st.tuples(st.just("gone"), _PAGES),
        st.tuples(st.just("used"), _PAGES),
    ),
    max_size=30,
)


@given(_STEPS)
def test_the_holder_is_visible_and_there_is_one_while_any_page_is(
    steps: list[tuple[str, ...]],
) -> None:
    lease = ForegroundLease()
    for name, page, *seen in steps:
        if name == "changed":
            lease.changed(page, visible=bool(seen[0]), focused=bool(seen[1]))
        elif name == "gone":
            lease.gone(page)
        else:
            lease.used(page)
        assert (lease.holder is not None) == lease.any_visible
        assert lease.holder is None or lease.is_visible(lease.holder)
