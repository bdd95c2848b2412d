"""Words of others in the shell: shown, never run, and nothing is asked for on their behalf."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.blackbox.system import Json, System, eventually
from tests.browser.shell import Shell
from tests.browser.sink import Sink

MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def speak(system: System, conversation: str, key: str, blocks: list[Json], **more: object) -> None:
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": blocks}
    token = system.call("POST", "/tokens", {"actor": {"kind": "operator", "key": "stranger"}})["token"]
    path = f"/conversations/{conversation}/messages"
    invited = {"key": f"invite-{key}", "text": "hello", "target": {"kind": "operator", "key": "stranger"}}
    system.call("POST", path, invited)
    system.call("POST", path, {"key": key, "content": content, **more}, token=token)


def conversation_of(system: System, name: str) -> str:
    return str(system.call("POST", "/conversations", {"name": name})["id"])


@pytest.mark.requirement("X01")
def test_markup_in_names_titles_messages_and_errors_is_text(
    hostile_system: System, hostile_shell: Shell
) -> None:
    conversation = conversation_of(hostile_system, f"talk {MARKUP}")
    name = {"display_name": MARKUP, "lease_ms": 60_000}
    hostile_system.call("PUT", "/actors/operator/stranger", name)
    blocks: list[Json] = [
        {"id": "a", "type": "text", "content": f"plain {MARKUP}"},
        {"id": "b", "type": "markdown", "content": f"marked {MARKUP} <b onclick=alert(1)>bold</b>"},
        {"id": "c", "type": "tool", "name": MARKUP, "state": MARKUP, "arguments": {"a": MARKUP}},
        {"id": "d", "type": MARKUP, "what": MARKUP},
        {"id": "e", "type": "code", "language": MARKUP, "content": MARKUP},
        {"id": "f", "type": "error", "code": MARKUP, "message": MARKUP},
        {"id": "g", "type": "record", "app_scope": MARKUP, "title": MARKUP, "params": {"label": MARKUP}},
    ]
    speak(hostile_system, conversation, "markup", blocks, meta={"error": {"code": MARKUP, "message": MARKUP}})
    hostile_shell.page.get_by_role("button", name="talk").first.click()
    hostile_shell.expect_said("plain <img")
    expect(hostile_shell.transcript.locator("img, script, [onclick], [onerror]")).to_have_count(0)
    assert hostile_shell.page.title() == "Lineloop"
    assert not hostile_shell.errors


@pytest.mark.requirement("X02")
def test_markdown_asks_for_nothing_and_its_links_show_where_they_lead(
    hostile_system: System, hostile_shell: Shell, sink: Sink
) -> None:
    conversation = conversation_of(hostile_system, "links")
    text = f"""![picture]({sink.url}/?picture) <img src="{sink.url}/?html">
[safe]({sink.url}/?link) [script](javascript:document.title='owned') [data](data:text/html,x)
<{sink.url}/?auto> [ref][r] <svg><image href="{sink.url}/?svg"/></svg>
<iframe src="{sink.url}/?frame"></iframe> <link rel=stylesheet href="{sink.url}/?css">
<a href="{sink.url}/?ping" ping="{sink.url}/?ping">x</a> <style>@import "{sink.url}/?import";</style>

[r]: {sink.url}/?ref
"""
    speak(hostile_system, conversation, "links", [{"id": "a", "type": "markdown", "content": text}])
    hostile_shell.page.get_by_role("button", name="links").first.click()
    hostile_shell.expect_said("safe")
    hostile_shell.page.wait_for_timeout(700)
    assert sink.hits == []
    links = hostile_shell.transcript.locator("a")
    hrefs = [links.nth(at).get_attribute("href") or "" for at in range(links.count())]
    assert hrefs
    assert all(href.startswith("http") for href in hrefs), hrefs
    expect(hostile_shell.transcript.get_by_text("127.0.0.1").first).to_be_visible()
    for at in range(links.count()):
        assert "noopener" in (links.nth(at).get_attribute("rel") or "")
    assert hostile_shell.page.title() == "Lineloop"


@pytest.mark.requirement("X05")
def test_control_characters_of_messages_and_apps_are_encoded_in_the_log(
    hostile_system: System, hostile_shell: Shell
) -> None:
    conversation = conversation_of(hostile_system, "controls \u202e\x1b[31m")
    speak(
        hostile_system,
        conversation,
        "controls",
        [{"id": "a", "type": "text", "content": "\x1b[2J\r\nfake: line"}],
    )
    eventually(hostile_system.log_file.exists, "the log")
    log = hostile_system.log_file.read_bytes()
    assert b"\x1b" not in log
    assert not [line for line in log.splitlines() if line.startswith(b"fake:")]
    assert hostile_shell.page.title() == "Lineloop"
