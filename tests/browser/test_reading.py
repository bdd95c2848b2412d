"""Reading a long conversation of which only the rows near what is seen stand in the document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.blackbox.system import System
from tests.browser.shell import Shell
from tests.browser.streaming import LOAD_ALL, TITLE, LongConversation

MESSAGES = 110
QUESTION = "May I begin with the report?"
# Far enough that what was in sight leaves the document.
SCROLL = """(down) => {
  const log = document.querySelector("[role=log]");
  log.scrollTop = down ? log.scrollHeight : 0;
}"""
FIRST_WORDS = """(words) => {
  const rows = [...document.querySelectorAll("[role=log] .row-body")];
  const row = rows.find((one) => one.innerText.includes(words));
  return row && document.createTreeWalker(row, NodeFilter.SHOW_TEXT).nextNode();
}"""
AWAY = "() => document.querySelectorAll('[role=log] .page-away').length"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Shell]:
    """A conversation that begins with a question, which the person answers when it has become long."""
    with (
        closing(System(tmp_path_factory.mktemp("reading"), "web").start()) as system,
        browser.new_context(locale="en-US", viewport={"width": 1280, "height": 800}) as context,
    ):
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        with LongConversation(system, 1) as conversation:
            question = conversation.ask(QUESTION)
            for number in range(1, MESSAGES):
                conversation.speak(number)
            answer = {"reply_to_id": question, "value": "accepted"}
            system.call("POST", f"/questions/{question}/answer", answer)
            shell = Shell(system, context).open()
            expect(shell.transcript.get_by_text(f"Message {MESSAGES - 1}.")).to_be_visible()
            shell.page.evaluate(LOAD_ALL, MESSAGES)
            yield shell


@pytest.fixture
def page(shell: Shell) -> Page:
    """At its end."""
    shell.page.get_by_role("button", name=TITLE).first.click()
    shell.page.evaluate(SCROLL, True)
    expect(shell.transcript.get_by_text(f"Message {MESSAGES - 1}.")).to_be_in_viewport()
    return shell.page


@pytest.mark.requirement("L186")
def test_the_link_of_a_reply_leads_to_its_question_however_far_back(shell: Shell, page: Page) -> None:
    question = shell.transcript.locator("article[data-purpose=question]")
    expect(question).to_have_count(0)
    page.get_by_role("link", name=QUESTION).click()
    expect(question).to_be_in_viewport()
    expect(question).to_be_focused()
    assert shell.errors == []


def test_what_is_marked_over_many_rows_is_copied_whole(shell: Shell, page: Page) -> None:
    # Rows come and go while older pages arrive.
    page.wait_for_function(
        f"""() => {{
          ({SCROLL})(false);
          const first = ({FIRST_WORDS})('Message 5.');
          if (first) getSelection().collapse(first, 8);
          return Boolean(first);
        }}"""
    )
    page.evaluate("() => getSelection().extend(getSelection().anchorNode, 9)")
    page.evaluate(SCROLL, True)
    last = f"Message {MESSAGES - 1}."
    expect(shell.transcript.get_by_text(last)).to_be_in_viewport()
    assert page.evaluate("() => getSelection().toString()") == "5"
    page.wait_for_function(
        f"""() => {{
          const words = ({FIRST_WORDS})({last!r});
          if (words) getSelection().extend(words, {len(last) - 1});
          return Boolean(words);
        }}"""
    )
    assert page.evaluate(AWAY) > 0
    page.keyboard.press("Control+c")
    copied: list[str] = page.evaluate("() => navigator.clipboard.readText()").split("\n\n")
    page.evaluate("() => getSelection().removeAllRanges()")
    assert copied[0].startswith("5. It has some words")
    assert [words.split(".")[0] for words in copied[1:]] == [f"Message {n}" for n in range(6, MESSAGES)]
    assert copied[-1] == last[:-1]


def test_where_the_keyboard_is_does_not_go_away_when_one_scrolls(shell: Shell, page: Page) -> None:
    page.wait_for_function(f"() => {{ ({SCROLL})(false); return ({FIRST_WORDS})('Message 5.'); }}")
    button = shell.transcript.locator(".row", has_text="Message 5.").get_by_role("button", name="Copy")
    button.focus()
    page.evaluate(SCROLL, True)
    expect(shell.transcript.get_by_text(f"Message {MESSAGES - 1}.")).to_be_in_viewport()
    expect(button).to_be_focused()
    expect(button).not_to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(shell.transcript.locator(":focus")).to_be_in_viewport()


def test_the_keys_lead_through_all_of_it_and_no_empty_place_is_seen(shell: Shell, page: Page) -> None:
    log = shell.transcript
    log.focus()
    page.keyboard.press("Home")
    expect(log.get_by_text("Message 0.")).to_be_in_viewport()
    for _ in range(4):
        before = log.evaluate("(element) => element.scrollTop")
        page.keyboard.press("PageDown")
        page.wait_for_function("(top) => document.querySelector('[role=log]').scrollTop > top", arg=before)
        expect(log.locator(".page-away").first).not_to_be_in_viewport()
    page.keyboard.press("End")
    expect(log.get_by_text(f"Message {MESSAGES - 1}.")).to_be_in_viewport()
    expect(log.locator(".page-away").last).not_to_be_in_viewport()


def test_on_paper_stands_all_of_it(shell: Shell, page: Page) -> None:
    assert page.evaluate(AWAY) > 0
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("() => { dispatchEvent(new Event('beforeprint')); }")
    try:
        assert page.evaluate(AWAY) == 0
        expect(page.get_by_role("textbox", name="Write a message")).to_be_hidden()
        assert shell.transcript.evaluate("(log) => log.scrollHeight <= log.clientHeight")
        ink = "() => getComputedStyle(document.querySelector('.row-body')).color"
        assert page.evaluate(ink) == "rgb(30, 31, 29)"
    finally:
        page.evaluate("() => { dispatchEvent(new Event('afterprint')); }")
        page.emulate_media(media="screen", color_scheme="light")
