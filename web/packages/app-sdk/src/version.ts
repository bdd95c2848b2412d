// The version that the SDK says in its hello.

export const VERSION = "0.1.0";
