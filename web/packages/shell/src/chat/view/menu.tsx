// A button with a short menu of actions below it.

import { MoreHorizontal } from "lucide-react";
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

export interface MenuEntry {
  readonly id: string;
  readonly label: string;
  readonly icon: ReactNode;
  readonly act: () => void;
}

export interface MenuProps {
  readonly label: string;
  readonly entries: readonly MenuEntry[];
}

export function Menu({ label, entries }: MenuProps) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const around = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const items = () => [...(around.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
  useEffect(() => {
    if (!open) return undefined;
    items()[0]?.focus();
    const onDown = (event: PointerEvent) => {
      if (!around.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", onDown);
    return () => document.removeEventListener("pointerdown", onDown);
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = items();
    const place = all.indexOf(document.activeElement as HTMLElement);
    const last = all.length - 1;
    const next = { ArrowDown: place === last ? 0 : place + 1, ArrowUp: place <= 0 ? last : place - 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") close();
    else if (event.key === "Tab") return setOpen(false);
    else if (next !== undefined) all[next]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="menu-around" ref={around}>
      <button
        ref={button}
        type="button"
        className="quiet-button"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!open)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown" || open) return;
          event.preventDefault();
          setOpen(true);
        }}
      >
        <MoreHorizontal size={18} aria-hidden />
      </button>
      {open ? (
        <div id={id} className="menu" role="menu" aria-label={label} onKeyDown={onKeyDown}>
          {entries.map((entry) => (
            <button
              key={entry.id}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                close();
                entry.act();
              }}
            >
              {entry.icon}
              {entry.label}
            </button>
          ))}
        </div>
      ) : null}
    </div>
  );
}
