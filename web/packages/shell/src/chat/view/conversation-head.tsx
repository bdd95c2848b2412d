// The head of an open conversation: its title, which is changed where it stands, and what can be done with all of it.

import { LoopError } from "@lineloop/ui-model";
import { Archive, ArchiveRestore, ChevronLeft, Download, PanelRight, Pencil, Users } from "lucide-react";
import { useEffect, useRef, useState, type ReactNode } from "react";
import type { ChatCore, ConversationRow, ExportFormat } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { announce } from "../../runtime/announce.ts";
import { isComposing } from "./composing.ts";
import { Menu, type MenuEntry } from "./menu.tsx";

export const NAME_CHARS = 200;

export interface ConversationHeadProps {
  readonly core: ChatCore;
  /** null: one that is about to begin. */
  readonly row: ConversationRow | null;
  readonly title: string;
  readonly workOpen: boolean;
  readonly onWork: () => void;
  readonly onList: () => void;
  readonly onMembers: () => void;
}

export function ConversationHead({ core, row, title, workOpen, onWork, onList, onMembers }: ConversationHeadProps) {
  const t = useText();
  const [renaming, setRenaming] = useState<string | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const head = useRef<HTMLElement>(null);
  useRenameKey(row, setRenaming);
  const attempt = async (work: () => Promise<unknown>, done: string) => {
    setFailed(null);
    try {
      await work();
      announce(done);
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      setFailed(error.code);
    }
  };
  const leave = () => {
    setRenaming(null);
    head.current?.querySelector<HTMLElement>("[aria-haspopup=menu]")?.focus();
  };
  const archived = row?.archived_at != null;
  const setArchived = (conversation_id: string, wanted: boolean) =>
    void attempt(
      () => core.dispatch("archive", { conversation_id, archived: wanted }),
      t(wanted ? "chat.archived.done" : "chat.archived.back"),
    );
  const save = (conversation_id: string, format: ExportFormat) =>
    void attempt(async () => fetchAsFile(await core.exportPath(conversation_id, format)), t("chat.saved"));
  const entries: readonly MenuEntry[] =
    row === null
      ? []
      : [
          { id: "rename", label: t("chat.rename"), icon: <Pencil size={15} aria-hidden />, act: () => setRenaming(row.id) },
          { id: "members", label: t("chat.members"), icon: <Users size={15} aria-hidden />, act: onMembers },
          { id: "markdown", label: t("chat.save_markdown"), icon: <Download size={15} aria-hidden />, act: () => save(row.id, "markdown") },
          { id: "json", label: t("chat.save_json"), icon: <Download size={15} aria-hidden />, act: () => save(row.id, "json") },
          archived
            ? { id: "back", label: t("chat.unarchive"), icon: <ArchiveRestore size={15} aria-hidden />, act: () => setArchived(row.id, false) }
            : { id: "archive", label: t("chat.archive"), icon: <Archive size={15} aria-hidden />, act: () => setArchived(row.id, true) },
        ];
  return (
    <>
      <header className="conversation-head" ref={head}>
        <button type="button" className="quiet-button to-list" onClick={onList} aria-label={t("chat.conversations")}>
          <ChevronLeft size={20} aria-hidden />
        </button>
        {row !== null && renaming === row.id ? (
          <Rename
            name={row.name ?? row.title}
            onLeave={leave}
            onName={(name) => {
              leave();
              void attempt(() => core.dispatch("rename", { conversation_id: row.id, name }), t("chat.renamed", { name }));
            }}
          />
        ) : (
          <h1 onDoubleClick={() => setRenaming(row?.id ?? null)}>{title}</h1>
        )}
        {row === null ? null : <Menu label={t("chat.menu")} entries={entries} />}
        <button
          type="button"
          className="quiet-button to-work"
          aria-label={t("chat.work")}
          title={t("chat.work")}
          aria-pressed={workOpen}
          onClick={onWork}
        >
          <PanelRight size={17} aria-hidden />
        </button>
      </header>
      {failed === null ? null : (
        <Note alert>
          {t("chat.change_failed")} <code>{failed}</code>
          <button type="button" className="button small quiet" onClick={() => setFailed(null)}>
            {t("chat.close")}
          </button>
        </Note>
      )}
      {archived && row !== null ? (
        <Note>
          {t("chat.archived.note")}
          <button type="button" className="button small" onClick={() => setArchived(row.id, false)}>
            {t("chat.unarchive")}
          </button>
        </Note>
      ) : null}
    </>
  );
}

/** The browser keeps it where it keeps files; the page stays as it is. */
function fetchAsFile(path: string): void {
  const link = document.createElement("a");
  link.href = path;
  link.download = "";
  link.click();
}

function Note({ alert = false, children }: { readonly alert?: boolean; readonly children: ReactNode }) {
  return (
    <p className="conversation-note" data-bad={alert || undefined} role={alert ? "alert" : undefined}>
      {children}
    </p>
  );
}

interface RenameProps {
  readonly name: string;
  readonly onName: (name: string) => void;
  readonly onLeave: () => void;
}

/** Enter and leaving the field keep the name, Escape the old one. */
function Rename({ name, onName, onLeave }: RenameProps) {
  const t = useText();
  const [value, setValue] = useState(name);
  const field = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  const finish = (keep: boolean) => {
    if (over.current) return;
    over.current = true;
    const wanted = value.trim();
    if (keep && wanted !== "" && wanted !== name) onName(wanted);
    else onLeave();
  };
  return (
    <input
      ref={field}
      className="rename"
      type="text"
      maxLength={NAME_CHARS}
      value={value}
      aria-label={t("chat.rename.field")}
      enterKeyHint="done"
      onChange={(event) => setValue(event.target.value)}
      onBlur={() => finish(true)}
      onKeyDown={(event) => {
        if (isComposing(event)) return;
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        finish(event.key === "Enter");
      }}
    />
  );
}

/** F2 renames, as in every list of files; not while one writes. */
function useRenameKey(row: ConversationRow | null, rename: (id: string) => void): void {
  const id = row?.id ?? null;
  useEffect(() => {
    if (id === null) return undefined;
    const onKeyDown = (event: globalThis.KeyboardEvent) => {
      if (event.key !== "F2" || document.querySelector("dialog[open]") !== null) return;
      event.preventDefault();
      rename(id);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [id, rename]);
}
