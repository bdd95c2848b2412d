// Runs in a surface's document before the app's own script and takes away what the content policy does not cover.
// A classic script without imports; the app's HTML, made by the Runtime, names it first. Three kinds of things go:
//
//  * What reaches the network without asking the policy: peer connections (RTC*, webkitRTC*), WebTransport*, raw
//    sockets.
//  * What would bring them back. A new document has them again, so the app must not get a document of its own making:
//    its frames are of another origin, the policy loads nothing into them (frame-src 'none'), and Trusted Types keep
//    text from becoming markup (srcdoc, innerHTML, …). XSLT makes markup from nodes past Trusted Types: it goes too.
//  * The power to take the focus from the shell while a person types there. Whatever moves the focus by script works
//    only in a document that has it; the person gives it by a click or a key. Other ways are left to the shell, which
//    takes the focus back and ends an app that goes on.
//
// Nothing here can be undone by the app: the names are fixed at `undefined`, and no object that it can reach leads back
// to what they named.
"use strict";
(() => {
  const gone = /^(webkit|moz)?(RTC|WebTransport|XSLT|(TCP|UDP)(Server)?Socket)/i;
  // `in` as well as own names: a browser may keep a constructor on a prototype of the window.
  for (let holder = globalThis; holder !== null; holder = Object.getPrototypeOf(holder)) {
    for (const name of Object.getOwnPropertyNames(holder)) {
      if (!gone.test(name)) continue;
      delete holder[name];
      Object.defineProperty(globalThis, name, { value: undefined, writable: false, enumerable: false, configurable: false });
    }
  }

  // Taken now: what the app puts in their place later must not count.
  const { apply } = Reflect;
  const { hasFocus } = Document.prototype;
  const page = document;
  const withFocusOnly = (holder, name) => {
    const native = holder?.[name];
    if (typeof native !== "function") return;
    const kept = {
      [name](...given) {
        return apply(hasFocus, page, []) ? apply(native, this, given) : undefined;
      },
    };
    Object.defineProperty(holder, name, { value: kept[name], writable: false, configurable: false });
  };
  const { get: typeOf } = Object.getOwnPropertyDescriptor(Event.prototype, "type");
  const dispatch = EventTarget.prototype.dispatchEvent;
  // A click that is made up activates like a real one: a label's field gets the focus.
  Object.defineProperty(EventTarget.prototype, "dispatchEvent", {
    value: function dispatchEvent(event) {
      const idle = event instanceof Event && apply(typeOf, event, []) === "click" && !apply(hasFocus, page, []);
      return idle ? false : apply(dispatch, this, [event]);
    },
    writable: false,
    configurable: false,
  });
  withFocusOnly(globalThis, "focus");
  for (const kind of ["HTMLElement", "SVGElement", "MathMLElement"]) withFocusOnly(globalThis[kind]?.prototype, "focus");
  for (const kind of ["HTMLInputElement", "HTMLTextAreaElement"]) withFocusOnly(globalThis[kind]?.prototype, "select");
  for (const name of ["click", "showPopover", "togglePopover"]) withFocusOnly(HTMLElement.prototype, name);
  for (const name of ["show", "showModal"]) withFocusOnly(globalThis.HTMLDialogElement?.prototype, name);
  for (const holder of Object.getOwnPropertyNames(globalThis)) {
    if (/^HTML|^ElementInternals$/.test(holder)) withFocusOnly(globalThis[holder]?.prototype, "reportValidity");
  }
})();
