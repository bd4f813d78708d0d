import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Api from "../../Api.js"
import * as Checkpoint from "../../Checkpoint.js"
import * as TinkerError from "../../TinkerError.js"
import * as ErrorChannel from "../transport/errorChannel.js"
import type { Call, Caller } from "./caller.js"
import { module } from "./caller.js"

/** When a redirect does not say how long its address lives. */
const unsaidLife = Duration.minutes(15)

/**
 * Where a checkpoint's archive lies, whether the server says so in a body or in a redirect.
 *
 * @internal
 */
export const archiveUrl: (
  caller: Caller,
  path: Checkpoint.ParsedPath
) => Call<Checkpoint.CheckpointArchiveUrlResponse> = Effect.fnUntraced(
  function*({ begin, via }, { checkpointId, trainingRunId }) {
    const from = { module, method: "getCheckpointArchiveUrl" }
    yield* begin
    const answer = yield* via.response(Api.checkpointArchive, { checkpointId, trainingRunId }, {
      from,
      headers: { accept: "application/json" }
    })
    if (answer.status < 300) {
      return yield* Either.mapLeft(
        Api.checkpointArchive.response.decode(answer.body, answer.headers["content-type"]),
        (description) => new TinkerError.MalformedResponse({ ...from, status: answer.status, description })
      )
    }
    const location = answer.headers["location"]
    if (location === undefined) {
      return yield* new TinkerError.MalformedResponse({
        ...from,
        status: answer.status,
        description: "a redirect that does not say where to"
      })
    }
    const now = yield* Clock.currentTimeMillis
    const stated = Date.parse(answer.headers["expires"] ?? "")
    return new Checkpoint.CheckpointArchiveUrlResponse({
      url: location,
      expires: DateTime.unsafeMake(Number.isNaN(stated) ? now + Duration.toMillis(unsaidLife) : stated)
    })
  },
  ErrorChannel.request
)
