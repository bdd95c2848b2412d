// Why an app cannot be built: each broken place, all at once.

export interface Problem {
  /** JSON pointer into the manifest that would be, or a file. */
  readonly pointer: string;
  readonly message: string;
}

export class BuildFailed extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ pointer, message }) => `${pointer || "/"}: ${message}`).join("\n"));
    this.name = "BuildFailed";
    this.problems = problems;
  }
}

/** Writes the name of a field into a pointer (RFC 6901). */
export function below(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
