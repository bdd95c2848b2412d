// The page of the timer: a ring that empties, the time that is left, and what happened at the end. There is nothing
// to press: the person speaks in the chat. Built from nodes only, because the page may not make markup from text.

import type { Language } from "@lineloop/app-sdk";
import { clockText, shareLeft, type View } from "./model.ts";
import { textsOf, type Texts } from "./texts.ts";

const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 94;
const LENGTH = 2 * Math.PI * RADIUS;

export class Screen {
  readonly #page: Document;
  readonly #main: HTMLElement;
  readonly #label: HTMLElement;
  readonly #time: HTMLElement;
  readonly #caption: HTMLElement;
  readonly #hint: HTMLElement;
  readonly #status: HTMLElement;
  readonly #arc: SVGElement;
  #said = "";

  constructor(root: HTMLElement) {
    this.#page = root.ownerDocument;
    this.#label = this.#element("h1", "label");
    this.#time = this.#element("p", "time");
    this.#time.setAttribute("role", "timer");
    this.#caption = this.#element("p", "caption");
    this.#hint = this.#element("p", "hint");
    this.#status = this.#element("p", "status");
    this.#status.setAttribute("role", "status");
    this.#arc = this.#circle("arc");
    this.#arc.style.strokeDasharray = `${LENGTH}`;
    const face = this.#element("div", "face", this.#time, this.#caption);
    const dial = this.#element("div", "dial", this.#ring(), face);
    this.#main = this.#element("main", "timer", this.#label, dial, this.#hint, this.#status);
    root.replaceChildren(this.#main);
  }

  show(view: View, language: Language): void {
    const texts = textsOf(language);
    this.#page.documentElement.lang = language;
    this.#main.dataset["phase"] = view.phase;
    this.#write(this.#label, headingOf(view, texts));
    const { time, caption } = faceOf(view, texts, language);
    this.#write(this.#time, time);
    this.#main.classList.toggle("long", time.length > 5);
    this.#time.setAttribute("aria-label", view.phase === "running" ? `${texts.remaining}: ${time}` : time);
    this.#write(this.#caption, caption);
    this.#write(this.#hint, view.phase === "empty" ? texts.emptyHint : view.phase === "running" ? texts.stopHint : "");
    this.#arc.style.strokeDashoffset = `${LENGTH * (1 - shareLeft(view))}`;
    this.#page.title = view.phase === "running" ? `${time} · ${view.label ?? texts.title}` : texts.title;
  }

  /** Says it to people who hear the page; the same words twice in a row are said once. */
  announce(words: string): void {
    if (words === this.#said) return;
    this.#said = words;
    this.#status.textContent = words;
  }

  lost(language: Language): void {
    this.#write(this.#hint, textsOf(language).lost);
  }

  #write(node: HTMLElement, text: string): void {
    if (node.textContent !== text) node.textContent = text;
    node.hidden = text === "";
  }

  #element(tag: string, name: string, ...children: Node[]): HTMLElement {
    const made = this.#page.createElement(tag);
    made.className = name;
    made.append(...children);
    return made;
  }

  #ring(): SVGElement {
    const ring = this.#page.createElementNS(SVG, "svg");
    ring.setAttribute("viewBox", "0 0 200 200");
    ring.setAttribute("aria-hidden", "true");
    ring.append(this.#circle("track"), this.#arc);
    return ring;
  }

  #circle(name: string): SVGElement {
    const made = this.#page.createElementNS(SVG, "circle");
    for (const [attribute, value] of Object.entries({ class: name, cx: 100, cy: 100, r: RADIUS })) {
      made.setAttribute(attribute, String(value));
    }
    return made;
  }
}

function headingOf({ phase, label }: View, texts: Texts): string {
  if (phase === "empty") return texts.emptyTitle;
  return label ?? texts.title;
}

function faceOf(view: View, texts: Texts, language: Language): { readonly time: string; readonly caption: string } {
  switch (view.phase) {
    case "running":
      return { time: clockText(view.remainingMs), caption: texts.until(wallTime(view.endsAt, language)) };
    case "completed":
      return { time: texts.completed, caption: texts.completedAfter(texts.length(view.durationMs)) };
    case "interrupted":
      return { time: texts.interrupted, caption: texts.interruptedAfter(texts.length(view.elapsedMs)) };
    case "ended":
      return { time: texts.ended, caption: "" };
    case "starting":
      return { time: "", caption: texts.starting };
    case "connecting":
      return { time: "", caption: texts.connecting };
    case "empty":
      return { time: "0:00", caption: "" };
  }
}

function wallTime(at: string | null, language: Language): string {
  if (at === null) return "";
  // As the chat beside it says the time of day.
  const format = new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en", {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
  return format.format(new Date(at));
}
