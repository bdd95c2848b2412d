"""Writing in the shell: what is too long is said at once and never stands in the way of what follows."""

from __future__ import annotations

import json
import time

import pytest
from playwright.sync_api import expect
from tests.blackbox.system import System
from tests.browser.shell import Shell

TOO_LONG = 2_000_000


def test_what_is_too_long_stays_in_the_composer_and_the_next_message_goes(shell: Shell) -> None:
    shell.say("hello")
    shell.expect_said("demo, not AI")
    shell.say("a" * TOO_LONG)
    expect(shell.page.get_by_role("alert")).to_contain_text("it is too long")
    assert len(shell.composer.input_value()) == TOO_LONG
    shell.say("and this one goes")
    shell.expect_said("and this one goes")
    expect(shell.page.get_by_text("Waits for this device")).to_have_count(0)
    expect(shell.composer).to_have_value("")


def test_what_lay_in_the_browser_too_long_is_refused_and_holds_nothing_back(shell: Shell) -> None:
    shell.say("the first words")
    shell.expect_said("demo, not AI", 30)  # by now the conversation has been made
    open_conversation = shell.page.evaluate("localStorage.getItem('lineloop.conversation')")
    old = {"key": "say_old", "conversation_id": open_conversation, "text": "b" * TOO_LONG, "number": 1}
    old |= {"created_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), "state": "waiting"}
    shell.page.evaluate("text => localStorage.setItem('lineloop.outbox.say_old', text)", json.dumps(old))
    shell.page.reload()
    expect(shell.page.get_by_text("Not sent: it is too long")).to_be_visible()
    shell.say("and this one goes, too")
    shell.expect_said("and this one goes, too")
    expect(shell.page.get_by_text("Waits for this device")).to_have_count(0)
    shell.page.get_by_role("button", name="Discard").click()
    expect(shell.page.get_by_text("Not sent: it is too long")).to_have_count(0)


def test_a_suggestion_that_is_double_clicked_is_there_once(shell: Shell) -> None:
    shell.page.get_by_role("button", name="What can you do here?").dblclick()
    expect(shell.composer).to_have_value("What can you do here?")


@pytest.mark.requirement("L184")
def test_first_words_while_nothing_is_there_make_one_conversation_when_it_is_back(
    shell: Shell, system: System
) -> None:
    expect(shell.page.get_by_text("Online")).to_be_visible()
    system.keep_ports()
    system.kill()
    expect(shell.page.get_by_text("Lineloop is not running").first).to_be_visible(timeout=15_000)
    shell.say("the first words")
    expect(shell.transcript.get_by_text("Waits for this device")).to_be_visible()
    shell.say("and more of them")
    system.start()
    shell.expect_said("demo, not AI", 30)
    for words in ("the first words", "and more of them"):
        expect(shell.transcript.locator(".row-person", has_text=words)).to_have_count(1)
    [conversation] = system.call("GET", "/conversations")["items"]
    messages = system.call("GET", f"/conversations/{conversation['id']}/messages?limit=100")
    said = [one for one in messages["items"] if one["purpose"] == "input"]
    assert len(said) == 2
