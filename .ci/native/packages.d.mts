/** Writes the packages of native kernels into a folder; their directories. */
export const writePackages: (folder: string) => ReadonlyArray<string>
/** Names them in what is published. */
export const addDependencies: () => void
/** Takes the names out again. */
export const removeDependencies: () => void
