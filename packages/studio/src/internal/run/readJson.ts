/**
 * Files of JSON beside those that are followed.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Json from "../json.js"

/** Content of a file; `undefined` where there is none that can be read. @internal */
export const readJson = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.map(Json.parse),
    Effect.orElseSucceed(() => undefined)
  )
