// The SDK inside the logic container. Runs before the app's logic.js in every context.
//
// It gives the app three names: `defineAgentTools`, `lineloop` and `console`. It speaks bridge frames
// {"v":1,"id"?,"type","payload"} with the Runtime and never touches anything else: a context has no I/O at all.
// It evaluates to the host function `(op, text) => string`, which only the container's process can call:
//   0 deliver one frame and return what was written · 1 return what was written since
//   2 the id of the call whose code ran last        · 3 the `tools.register` frame
//
// A handler is `(params, context) => result`, plain or async. `context` has
//   callId, conversationId
//   session.get() / replace({data, expected_revision}) / subscribe(listener)
//   id()             the next deterministic id of this call, "<call id>/<n>": the same after a second delivery
//   progress(value)  reports progress;  open()  keeps the call open until lineloop.tools.complete or .fail
//   fail(message)    ends the call with the app's own public words
//   cancelled, onCancel(listener)
(function () {
  "use strict";
  const { parse, stringify } = JSON;
  const MESSAGE_CHARS = 500;
  const MAX_PROGRESS = 1000;

  const out = [];
  const tools = new Map(); // "method\n contract version" → handler
  const calls = new Map(); // call id → call, until it is settled
  const requests = new Map(); // request id → {resolve, reject}
  const subscriptions = new Map(); // subscription number → subscription
  let app = null;
  let current = "";
  let requestCount = 0;
  let subscriptionCount = 0;

  function emit(type, payload, id) {
    const frame = id === undefined ? { v: 1, type, payload } : { v: 1, id, type, payload };
    out[out.length] = stringify(frame);
  }

  function drain() {
    if (out.length === 0) return "";
    const text = out.join("\n");
    out.length = 0;
    return text;
  }

  // ------------------------------------------------------------------ requests to the Runtime

  class RuntimeError extends Error {
    constructor(error) {
      super(error.message);
      this.name = "RuntimeError";
      this.code = error.code;
      this.context = error.context ?? {};
    }
  }

  function request(type, payload, owner) {
    const id = owner === undefined ? `s/${(requestCount += 1)}` : owner.nextId();
    return new Promise((resolve, reject) => {
      requests.set(id, { resolve, reject });
      emit(type, payload, id);
    });
  }

  function reply(frame) {
    const waiting = requests.get(frame.reply_to);
    if (waiting === undefined) return;
    requests.delete(frame.reply_to);
    if (frame.error !== undefined) waiting.reject(new RuntimeError(frame.error));
    else waiting.resolve(frame.ok);
  }

  // ------------------------------------------------------------------ session data

  // One subscription: repeats and older revisions are dropped; after a jump or a new connection the data are
  // read again and the subscription is made again, so that a listener sees one rising sequence.
  class Subscription {
    constructor(listener) {
      this.listener = listener;
      this.revision = -1;
      this.live = true;
      this.name = "";
    }

    open() {
      if (this.name !== "") subscriptions.delete(this.name);
      this.name = `sub/${(subscriptionCount += 1)}`;
      subscriptions.set(this.name, this);
      return request("session.subscribe", { subscription: this.name });
    }

    take(snapshot) {
      if (!this.live || snapshot.revision <= this.revision) return;
      this.revision = snapshot.revision;
      guarded(() => this.listener({ data: snapshot.data, revision: snapshot.revision }));
    }

    changed(frame) {
      if (this.revision >= 0 && frame.revision > this.revision + 1) {
        this.resume();
        return;
      }
      this.take(frame);
    }

    resume() {
      emit("session.unsubscribe", { subscription: this.name }, `s/${(requestCount += 1)}`);
      subscriptions.delete(this.name);
      request("session.get", {}).then((snapshot) => {
        this.take(snapshot);
        return this.live ? this.open() : undefined;
      }).catch(report);
    }

    close() {
      if (!this.live) return;
      this.live = false;
      subscriptions.delete(this.name);
      emit("session.unsubscribe", { subscription: this.name }, `s/${(requestCount += 1)}`);
    }
  }

  function sessionData(owner) {
    return {
      get: () => request("session.get", {}, owner),
      replace: ({ data, expected_revision }) => {
        const payload = { data, expected_revision };
        return request("session.replace", payload, owner);
      },
      subscribe: (listener) => {
        const subscription = new Subscription(listener);
        subscription.open().catch(report);
        return () => subscription.close();
      },
    };
  }

  // ------------------------------------------------------------------ tools

  class AppFailure extends Error {}

  class Call {
    constructor(payload) {
      this.id = payload.call_id;
      this.count = 0;
      this.progressCount = 0;
      this.open = false;
      this.cancelled = false;
      this.cancelListeners = [];
    }

    nextId() {
      return `${this.id}/${(this.count += 1)}`;
    }

    context() {
      const call = this;
      return {
        callId: call.id,
        conversationId: app.conversation_id,
        session: sessionData(call),
        id: () => call.nextId(),
        progress: (value) => {
          if (!calls.has(call.id) || call.progressCount >= MAX_PROGRESS) return;
          emit("tool.progress", { call_id: call.id, number: (call.progressCount += 1), value: value ?? null });
        },
        open: () => {
          call.open = true;
        },
        fail: (message) => {
          throw new AppFailure(String(message));
        },
        get cancelled() {
          return call.cancelled;
        },
        onCancel: (listener) => {
          call.cancelListeners.push(listener);
        },
      };
    }
  }

  function toolKey(method, contractVersion) {
    return `${method}\n${contractVersion}`;
  }

  function defineAgentTools(declarations) {
    for (const [method, declaration] of Object.entries(declarations)) {
      const handler = typeof declaration === "function" ? declaration : declaration.handler;
      const version = String(declaration.contractVersion ?? "1");
      if (typeof handler !== "function") throw new TypeError(`${method}: handler is not a function`);
      if (tools.has(toolKey(method, version))) throw new TypeError(`${method}@${version} is defined twice`);
      tools.set(toolKey(method, version), handler);
    }
  }

  function invoke(payload) {
    const handler = tools.get(toolKey(payload.method, payload.contract_version));
    const call = new Call(payload);
    if (handler === undefined) {
      failed(call, "not_registered", `no handler for ${payload.method}`);
      return;
    }
    calls.set(call.id, call);
    current = call.id;
    let value;
    try {
      value = handler(payload.params, call.context());
    } catch (error) {
      threw(call, error);
      return;
    }
    if (value !== null && typeof value === "object" && typeof value.then === "function") {
      value.then((result) => settled(call, result), (error) => threw(call, error));
    } else {
      settled(call, value);
    }
  }

  function settled(call, result) {
    if (!calls.has(call.id)) return;
    if (call.open) {
      emit("tool.open", { call_id: call.id });
      return;
    }
    complete(call, result);
  }

  function complete(call, result) {
    let frame;
    try {
      frame = stringify({ v: 1, type: "tool.complete", payload: { call_id: call.id, result: result ?? null } });
    } catch (error) {
      failed(call, "output_invalid", messageOf(error));
      return;
    }
    calls.delete(call.id);
    out[out.length] = frame;
  }

  function failed(call, reason, message) {
    calls.delete(call.id);
    emit("tool.fail", { call_id: call.id, reason, message: String(message).slice(0, MESSAGE_CHARS) });
  }

  function threw(call, error) {
    if (!calls.has(call.id)) return;
    if (error instanceof AppFailure) {
      failed(call, "app", error.message);
      return;
    }
    const memory = error instanceof InternalError && error.message === "out of memory";
    failed(call, memory ? "memory_limit" : "threw", messageOf(error));
    report(error);
  }

  function cancel(payload) {
    const call = calls.get(payload.call_id);
    if (call === undefined) return;
    call.cancelled = true;
    current = call.id;
    for (const listener of call.cancelListeners) guarded(listener);
    if (calls.has(call.id)) failed(call, "cancelled", "the call was cancelled");
  }

  function openCall(callId) {
    const call = calls.get(callId);
    if (call === undefined || !call.open) throw new Error("no open call has this id");
    return call;
  }

  // ------------------------------------------------------------------ diagnostics

  function messageOf(error) {
    if (error instanceof Error) return error.message || error.name;
    return typeof error === "string" ? error : "the handler threw something that is not an error";
  }

  function log(level, words) {
    const text = words.map((word) => (typeof word === "string" ? word : describe(word))).join(" ");
    emit("diagnostics.log", { level, message: text.slice(0, 2000) });
  }

  function describe(value) {
    if (value instanceof Error) return `${value.name}: ${value.message}\n${value.stack ?? ""}`;
    try {
      return stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  }

  function report(error) {
    log("error", [error]);
  }

  function guarded(work) {
    try {
      const value = work();
      if (value !== null && typeof value === "object" && typeof value.then === "function") {
        value.then(undefined, report);
      }
    } catch (error) {
      report(error);
    }
  }

  // ------------------------------------------------------------------ the host's side

  const receivers = {
    init: (payload) => {
      const again = app !== null;
      app = payload;
      if (again) for (const subscription of [...subscriptions.values()]) subscription.resume();
    },
    "tool.invoke": invoke,
    "tool.cancel": cancel,
    "session.changed": (payload) => subscriptions.get(payload.subscription)?.changed(payload),
  };

  function deliver(text) {
    const frame = parse(text);
    if (frame.reply_to !== undefined) reply(frame);
    else receivers[frame.type]?.(frame.payload);
    return drain();
  }

  function register() {
    const registered = [];
    for (const key of tools.keys()) {
      const [method, contract_version] = key.split("\n");
      registered.push({ method, contract_version });
    }
    emit("tools.register", { tools: registered });
    return drain();
  }

  delete globalThis.Atomics;
  delete globalThis.SharedArrayBuffer;
  globalThis.defineAgentTools = defineAgentTools;
  globalThis.console = {
    debug: (...words) => log("debug", words),
    log: (...words) => log("info", words),
    info: (...words) => log("info", words),
    warn: (...words) => log("warning", words),
    error: (...words) => log("error", words),
  };
  globalThis.lineloop = {
    defineAgentTools,
    get app() {
      return { ...app };
    },
    sessionData: sessionData(),
    tools: {
      complete: (callId, result) => complete(openCall(callId), result),
      fail: (callId, message) => failed(openCall(callId), "app", message),
    },
  };

  return function host(op, text) {
    if (op === 0) return deliver(text);
    if (op === 1) return drain();
    if (op === 2) return current;
    return register();
  };
})();
