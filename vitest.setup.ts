import { it, makeMethods } from "@effect/vitest"

// Before every file. `layer` of @effect/vitest puts methods with its own services and its own clock on the one `it` there is,
// and a worker goes on to other files.
makeMethods(it)
