// A dialog of the browser: everything behind it is inert, the focus stays inside, and it is drawn above all else.

import { useEffect, useRef, type ReactNode } from "react";

export interface ModalProps {
  readonly className: string;
  readonly labelledBy: string;
  /** Escape was pressed. The dialog stays until its owner takes it away. */
  readonly onEscape: () => void;
  readonly children: ReactNode;
}

export function Modal({ className, labelledBy, onEscape, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    if (element === null) return undefined;
    const before = document.activeElement;
    element.showModal();
    // Nothing inside is chosen by being first: the sheet itself has the focus.
    element.focus({ preventScroll: true });
    return () => {
      element.close();
      if (before instanceof HTMLElement && before.isConnected && !(before instanceof HTMLIFrameElement)) {
        before.focus({ preventScroll: true });
      }
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`modal ${className}`}
      aria-labelledby={labelledBy}
      tabIndex={-1}
      onCancel={(event) => event.preventDefault()}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        onEscape();
      }}
    >
      {children}
    </dialog>
  );
}
