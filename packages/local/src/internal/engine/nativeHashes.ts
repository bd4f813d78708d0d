/**
 * SHA-256 of the native kernels by platform, written by `npm run native`: nothing else is loaded.
 *
 * @internal
 */
export const nativeHashes: Readonly<Record<string, string>> = {
  "darwin-arm64": "f0c969add14868055be8cc108b9975bf5cb6c22cdf1121e5c56d5fa265f088e0",
  "darwin-x64": "67752622ebe536f25a51d318baae5a926ef17146f6bdab5d4ab5352d1db1cffb",
  "linux-arm64": "e8c63f3b393e38640e171a85c975d57ae102ec5e7bbefee4b3a3e8850bf61eb7",
  "linux-x64": "42bb463bede4bf693765ee1befa058734afbeb710f75f1e152de9be494cdb1cf",
  "win32-x64": "a623e7073e75205c7eea32943963c2299080b7f04e4c929ab281a68b27e48795"
}
