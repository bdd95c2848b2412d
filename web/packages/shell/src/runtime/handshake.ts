// How this page and the Runtime prove to each other that they know one secret, without saying it (spec §10.3).
//
// Decides what is computed, nothing of when. The Runtime proves itself first: whoever listens on its port in its
// place learns nothing that would let it in anywhere.

import type { JsonObject } from "@lineloop/ui-model";

/** One try to be let in. */
export interface Proof {
  /** What the first frame says: the secret's public name, and a nonce of this page. */
  readonly hello: { readonly name: string; readonly nonce: string };
  /** The page's proof, or null when whoever answered does not know the secret. */
  answer(challenge: JsonObject): Promise<string | null>;
  /** The key to come back with, when the secret was a code and `answer` was taken. */
  key(): Promise<string>;
}

/** Begins a try with a code or a key, for pages of `origin`. */
export type Prover = (secret: string) => Promise<Proof>;

export function proverFor(origin: string, newNonce: () => string = randomNonce): Prover {
  return async (secret) => {
    // The label is the key: a plain digest of the secret, as older devices stored it, leads nowhere.
    const root = await mac(bytesOf("lineloop shell root"), secret);
    const name = hex(await mac(root, "lineloop shell name")).slice(0, 32);
    const nonce = newNonce();
    let said = "";
    return {
      hello: { name, nonce },
      async answer(challenge) {
        const theirs = challenge["nonce"];
        if (typeof theirs !== "string") return null;
        const text = ["lineloop shell 3", origin, name, nonce, theirs].join("\n");
        const device = await mac(root, "lineloop shell device");
        if (challenge["proof"] !== hex(await mac(device, text))) return null;
        said = text;
        const page = await mac(root, "lineloop shell page");
        const mask = await mac(await digest(page), text);
        return hex(page.map((byte, at) => byte ^ (mask[at] ?? 0)));
      },
      async key() {
        return base64url(await mac(await mac(root, "lineloop shell page"), `lineloop shell key\n${said}`));
      },
    };
  };
}

function randomNonce(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

async function mac(key: Uint8Array<ArrayBuffer>, text: string): Promise<Uint8Array<ArrayBuffer>> {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, bytesOf(text)));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
