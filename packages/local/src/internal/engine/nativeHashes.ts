/**
 * SHA-256 of the native kernels by platform, written by `npm run native`: nothing else is loaded.
 *
 * @internal
 */
export const nativeHashes: Readonly<Record<string, string>> = {
  "darwin-arm64": "72c73e8cc5c65475a8576b5477f5bfc9f41ea4df4c2e56854f31e9cdd69cb214",
  "darwin-x64": "e9e298483845052bc7a267ec66e1f54f3391fb83c98427dbc268a457df86d99e",
  "linux-arm64": "cb4df39f5a1e081ab1cdbe6a706ff07563c7b8471ab582dd2beef7127293cf64",
  "linux-x64": "8febc5090625afeff970c37b3e6ddc6e550fa4d0269e069918ff29ad6568f1ac",
  "win32-x64": "bb8103a27c9e25f3a727324ceb54b9b9fe82b7b9b89c21b8d781e6f5aa8128f1"
}
