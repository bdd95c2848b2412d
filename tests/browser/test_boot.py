"""The boot shim in a real browser, under the real headers: what it takes away does not come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Frame
from tests.browser.launched import BOOT, Stand

SILENT = b"// No shim: what the browser gives by itself.\n"
NOTE = "globalThis.told = []; addEventListener('message', (event) => told.push(event.data));"

MANIFEST = """{
  "format": "lineloop.app.v1", "app_scope": "prober", "version": "1.0.0", "title": "Prober",
  "runtime_sdk": {"api_version": "1"}, "entrypoints": [{"id": "main", "kind": "contextual"}],
  "surface": {"entry": "surface/main.js"}
}"""
TELL = "parent.postMessage({child: typeof RTCPeerConnection}, '*');\n"
FILES = {
    "manifest.json": MANIFEST,
    "surface/main.js": "globalThis.ready = true;\n",
    "surface/tell.js": TELL,
    "surface/picture.svg": (
        '<svg xmlns="http://www.w3.org/2000/svg"><script href="tell.js"/><rect width="9" height="9"/></svg>'
    ),
    "surface/page.html": '<!doctype html><script src="tell.js"></script>',
}

# What the attempts share: markup of a frame that runs the app's own file, and what such a frame told.
TOOLS = """
globalThis.told = [];
addEventListener("message", (event) => told.push(event.data));
globalThis.own = (name) => document.querySelector("script[type=module]").src.replace("main.js", name);
globalThis.page = `<!doctype html><script src="${own("tell.js")}"></scr` + "ipt>";
globalThis.framed = `<iframe srcdoc="${page.replaceAll('"', "&quot;")}"></iframe>`;
globalThis.frame = (change) => {
  const made = document.createElement("iframe");
  change?.(made);
  document.body.append(made);
  return made;
};
"""

XSLT = """
const space = "http://www.w3.org/1999/XSL/Transform";
const sheet = document.implementation.createDocument(space, "xsl:stylesheet");
sheet.documentElement.setAttribute("version", "1.0");
const add = (where, name, attributes) => {
  const made = sheet.createElementNS(space, "xsl:" + name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  where.append(made);
  return made;
};
const template = add(sheet.documentElement, "template", { match: "/" });
const iframe = add(template, "element", { name: "iframe", namespace: "http://www.w3.org/1999/xhtml" });
add(iframe, "attribute", { name: "srcdoc" }).textContent = page;
const processor = new XSLTProcessor();
processor.importStylesheet(sheet);
const source = document.implementation.createDocument(null, "source");
document.body.append(processor.transformToFragment(source, document));
"""

# Each way to a document of the app's own making. A path that throws is as good as one that leads nowhere.
DOCUMENTS = {
    "a blank frame's window": "told.push({child: typeof frame().contentWindow.RTCPeerConnection})",
    "a blank frame by index": "frame(); told.push({child: typeof window[0].RTCPeerConnection})",
    "a blank frame's document": (
        "told.push({child: typeof frame().contentDocument.defaultView.RTCPeerConnection})"
    ),
    "srcdoc": "frame((made) => { made.srcdoc = page; })",
    "srcdoc as attribute": "frame((made) => made.setAttribute('srcdoc', page))",
    "srcdoc as attribute node": (
        "const node = document.createAttribute('srcdoc'); node.value = page;"
        "frame((made) => made.setAttributeNode(node))"
    ),
    "srcdoc in another document": (
        "const made = document.implementation.createHTMLDocument('').createElement('iframe');"
        "made.srcdoc = page; document.body.append(made)"
    ),
    "innerHTML": "document.body.innerHTML = framed",
    "innerHTML in a template": (
        "const made = document.createElement('template'); made.innerHTML = framed;"
        "document.body.append(made.content)"
    ),
    "document.write": "document.write(framed)",
    "a parsed document": (
        "document.body.append(new DOMParser().parseFromString(framed, 'text/html').body.firstChild)"
    ),
    "setHTML": (
        "const made = document.createElement('div'); document.body.append(made);"
        "made.setHTML(framed, {sanitizer: {elements: [{name: 'iframe', attributes: ['srcdoc']}]}})"
    ),
    "setHTMLUnsafe": "document.body.setHTMLUnsafe(framed)",
    "execCommand": (
        "document.body.contentEditable = 'true'; document.body.focus();"
        "document.execCommand('insertHTML', false, framed)"
    ),
    "XSLT": XSLT,
    "a frame on a file of the app": "frame((made) => { made.src = own('page.html'); })",
    "a frame on a picture of the app": "frame((made) => { made.src = own('picture.svg'); })",
    "a blank frame sent to a picture": "frame().contentWindow.location = own('picture.svg')",
    "a frame on a blob": (
        "frame((made) => { made.src = URL.createObjectURL(new Blob([page], {type: 'text/html'})); })"
    ),
    "an object on a picture": (
        "const made = document.createElement('object'); made.data = own('picture.svg');"
        "document.body.append(made)"
    ),
    "a window": "told.push({child: typeof open('about:blank').RTCPeerConnection})",
}


@pytest.fixture
def surface(tmp_path: Path, context: BrowserContext) -> Iterator[Callable[[bytes], Frame]]:
    """Opens the prober's surface with a given boot script and gives its frame."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    stands: list[Stand] = []

    def open_with(boot: bytes) -> Frame:
        stands.append(Stand(tmp_path, script=NOTE, boot=boot))
        _, frame = stands[-1].open(context)
        frame.wait_for_function("() => globalThis.ready === true")
        frame.evaluate(TOOLS)
        return frame

    yield open_with
    for stand in stands:
        stand.close()


def told(frame: Frame, attempt: str, wait_ms: int = 500) -> list[Any]:
    """What any new document said within a while, wherever it said it."""
    frame.evaluate(f"() => {{ try {{ {attempt} }} catch (error) {{ globalThis.thrown = String(error); }} }}")
    page = frame.page
    page.wait_for_timeout(wait_ms)
    heard = page.evaluate("told")
    if frame.evaluate("Array.isArray(globalThis.told)"):
        heard += frame.evaluate("told")
    return [one for one in heard if isinstance(one, dict) and "child" in one]


@pytest.mark.requirement("F11")
def test_peer_connections_transports_and_xslt_are_gone_and_cannot_be_defined_again(
    surface: Callable[[bytes], Frame],
) -> None:
    frame = surface(BOOT)
    left = frame.evaluate(
        "() => Object.getOwnPropertyNames(globalThis)"
        ".filter((name) => /^(webkit)?(RTC|WebTransport|XSLT)/.test(name) && globalThis[name] !== undefined)"
    )
    assert left == []
    again = """() => {
      "use strict";
      const failed = [];
      for (const change of [
        () => { globalThis.RTCPeerConnection = function () {}; },
        () => Object.defineProperty(globalThis, "RTCPeerConnection", { value: 1 }),
        () => { delete globalThis.RTCPeerConnection; },
      ]) {
        try { change(); } catch (error) { failed.push(error.name); }
      }
      return [failed, typeof globalThis.RTCPeerConnection];
    }"""
    assert frame.evaluate(again) == [["TypeError"] * 3, "undefined"]


def test_without_the_shim_they_are_there_and_xslt_makes_a_document_past_trusted_types(
    surface: Callable[[bytes], Frame],
) -> None:
    frame = surface(SILENT)
    assert frame.evaluate("[typeof RTCPeerConnection, typeof WebTransport]") == ["function", "function"]
    assert told(frame, XSLT) == [{"child": "function"}]


@pytest.mark.requirement("F11")
def test_no_new_document_brings_them_back(surface: Callable[[bytes], Frame]) -> None:
    frame = surface(BOOT)
    brought = {way: told(frame, attempt, 50) for way, attempt in DOCUMENTS.items()}
    assert brought == {way: [] for way in DOCUMENTS}
    assert told(frame, "") == [], "one of them, late"


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("file", ["picture.svg", "page.html", "tell.js"])
def test_a_file_of_the_surface_is_never_a_document(surface: Callable[[bytes], Frame], file: str) -> None:
    assert told(surface(BOOT), f"location.href = own('{file}')") == []
