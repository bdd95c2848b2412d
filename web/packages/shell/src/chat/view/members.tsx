// Who takes part in a conversation: seen by everyone in it, changed by its owner; whoever does not own it may leave.

import { LoopError, isObject } from "@lineloop/ui-model";
import { Bot, Laptop, Plus, User, X } from "lucide-react";
import { useCallback, useEffect, useState, type FormEvent } from "react";
import type { ActorName, ChatCore, ChatState } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { announce } from "../../runtime/announce.ts";
import { useStore } from "../../runtime/store.ts";
import { Modal } from "../../workspace/modal.tsx";
import { visibleLine } from "../../workspace/visible-text.ts";
import { nameOf } from "../model/memory.ts";
import "./members.css";

/** The end of a device's long name tells it from another one. */
const DEVICE_CHARS = 6;

interface Member extends ActorName {
  readonly owner: boolean;
  readonly display_name: string | null;
}

export interface MembersProps {
  readonly core: ChatCore;
  readonly conversationId: string;
  readonly onClose: () => void;
}

export function Members({ core, conversationId, onClose }: MembersProps) {
  const t = useText();
  const state = useStore(core.state);
  const [members, setMembers] = useState<readonly Member[] | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const attempt = useCallback(async (work: () => Promise<unknown>) => {
    setFailed(null);
    try {
      await work();
      return true;
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      setFailed(error.code);
      return false;
    }
  }, []);
  const look = useCallback(
    () => attempt(async () => setMembers(membersIn(await core.request("participants.list", { conversation_id: conversationId })))),
    [attempt, core, conversationId],
  );
  useEffect(() => void look(), [look]);

  const me = state?.person;
  const isMe = (one: ActorName) => one.kind === me?.kind && one.key === me.key;
  const mine = members?.some((one) => one.owner && isMe(one)) ?? false;
  const act = async (action: string, participant: ActorName, told: string) => {
    const { kind, key } = participant;
    if (!(await attempt(() => core.dispatch(action, { conversation_id: conversationId, participant: { kind, key } })))) return;
    announce(told);
    if (action === "take_out" && isMe(participant)) onClose();
    else await look();
  };
  const name = (one: Member) => {
    if (isMe(one)) return t("chat.you");
    if (one.kind === "runtime") return t("chat.members.device", { end: visibleLine(one.key).slice(-DEVICE_CHARS) });
    return visibleLine(one.display_name ?? known(state, one) ?? one.key, 60);
  };

  return (
    <Modal className="members" labelledBy="members-title" onEscape={onClose}>
      <header>
        <h1 id="members-title">{t("chat.members")}</h1>
        <button type="button" className="button quiet square" aria-label={t("chat.close")} onClick={onClose}>
          <X aria-hidden size={20} />
        </button>
      </header>
      {failed === null ? null : (
        <p role="alert" className="members-failed">
          {t("chat.change_failed")} <code>{failed}</code>
        </p>
      )}
      <ul className="member-list" aria-label={t("chat.members")}>
        {members?.map((one) => (
          <li key={nameOf(one)}>
            <Sign kind={one.kind} />
            <span className="member-name">{name(one)}</span>
            <span className="muted">{one.owner ? t("chat.members.owner") : t(kindText(one.kind))}</span>
            {mine && !one.owner && one.kind !== "runtime" ? (
              <button
                type="button"
                className="button small quiet"
                aria-label={t("chat.members.remove_named", { name: name(one) })}
                onClick={() => void act("take_out", one, t("chat.members.removed", { name: name(one) }))}
              >
                {t("chat.members.remove")}
              </button>
            ) : null}
            {!one.owner && isMe(one) ? (
              <button type="button" className="button small quiet" onClick={() => void act("take_out", one, t("chat.members.left"))}>
                {t("chat.members.leave")}
              </button>
            ) : null}
          </li>
        ))}
      </ul>
      {mine ? (
        <Add
          candidates={(state?.recipients ?? []).filter((one) => !members?.some((other) => nameOf(other) === nameOf(one)))}
          onAdd={(who, label) => void act("invite", who, t("chat.members.added", { name: label }))}
        />
      ) : members === null ? null : (
        <p className="muted">{t("chat.members.not_owner")}</p>
      )}
    </Modal>
  );
}

interface AddProps {
  readonly candidates: ChatState["recipients"];
  readonly onAdd: (who: ActorName, label: string) => void;
}

const PERSON = "user";

/** Agents that are known by name, and people by the name under which the server knows them. */
function Add({ candidates, onAdd }: AddProps) {
  const t = useText();
  const [person, setPerson] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const key = person.trim();
    if (key === "") return;
    onAdd({ kind: PERSON, key }, key);
    setPerson("");
  };
  return (
    <section className="member-add" aria-labelledby="members-add">
      <h2 id="members-add">{t("chat.members.add")}</h2>
      {candidates.length > 0 ? (
        <ul className="member-candidates" aria-label={t("chat.members.agents")}>
          {candidates.map((one) => (
            <li key={nameOf(one)}>
              <button type="button" className="button small" onClick={() => onAdd(one, one.display_name || one.key)}>
                <Plus size={14} aria-hidden />
                {visibleLine(one.display_name || one.key, 40)}
              </button>
            </li>
          ))}
        </ul>
      ) : null}
      <form className="member-person" onSubmit={submit}>
        <input
          type="text"
          value={person}
          maxLength={120}
          aria-label={t("chat.members.person")}
          placeholder={t("chat.members.person")}
          autoComplete="off"
          onChange={(event) => setPerson(event.target.value)}
        />
        <button type="submit" className="button small" disabled={person.trim() === ""}>
          {t("chat.members.add_person")}
        </button>
      </form>
      <p className="muted">
        {t("chat.members.code")} <code>lineloop user create</code>
      </p>
    </section>
  );
}

function Sign({ kind }: { readonly kind: string }) {
  const Icon = kind === PERSON ? User : kind === "runtime" ? Laptop : Bot;
  return <Icon size={17} aria-hidden />;
}

const kindText = (kind: string) =>
  kind === PERSON ? "chat.members.kind_person" : kind === "runtime" ? "chat.members.kind_device" : "chat.members.kind_agent";

const known = (state: ChatState | null, one: ActorName): string | null =>
  state?.recipients.find((other) => other.kind === one.kind && other.key === one.key)?.display_name || null;

/** People first, then agents, then devices. */
function membersIn(answer: { readonly [name: string]: unknown }): readonly Member[] {
  const items = Array.isArray(answer["items"]) ? answer["items"] : [];
  const members = items.filter((item) => isObject(item) && typeof item["kind"] === "string") as unknown as readonly Member[];
  const place = (one: Member) => (one.owner ? 0 : one.kind === PERSON ? 1 : one.kind === "runtime" ? 3 : 2);
  return [...members].sort((one, other) => place(one) - place(other));
}
