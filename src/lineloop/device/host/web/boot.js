// Runs in a surface's document before the app's own script and takes away what the content policy does not cover.
// A classic script without imports; the app's HTML, made by the Runtime, names it first. Two kinds of things go:
//
//  * What reaches the network without asking the policy: peer connections (RTC*, webkitRTC*), WebTransport*, raw
//    sockets.
//  * What would bring them back. A new document has them again, so the app must not get a document of its own making:
//    its frames are of another origin, the policy loads nothing into them (frame-src 'none'), and Trusted Types keep
//    text from becoming markup (srcdoc, innerHTML, …). XSLT makes markup from nodes past Trusted Types: it goes too.
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
})();
