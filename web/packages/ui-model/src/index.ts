export * from "./envelopes.ts";
export * from "./errors.ts";
export { ERRORS, type ErrorCode } from "./errors.generated.ts";
export { isDeeperThan, isObject, type Json, type JsonObject } from "./json.ts";
export * from "./machines.ts";
export * from "./patches.ts";
export * from "./session-data.ts";
export * from "./stream.ts";
export * from "./strict-json.ts";
