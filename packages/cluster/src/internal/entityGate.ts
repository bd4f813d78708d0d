/**
 * Holds back what is stored for a worker until there is somebody to give it to. The engine reads messages as soon as it has
 * shards, and warns of those for which no entity is registered yet: every restart of a worker would warn.
 */
import * as MessageStorage from "@effect/cluster/MessageStorage"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** After which messages are read all the same: entities may be others than those of rollouts. */
const patience = "1 minute"

/** Whether messages are read. Open, unless a worker provides one. @internal */
export class EntityGate extends Context.Reference<EntityGate>()("@effect-tinker/cluster/internal/EntityGate", {
  defaultValue: (): { isOpen: boolean } => ({ isOpen: true })
}) {}

/** A closed one, which opens by itself after a while. @internal */
export const layer: Layer.Layer<EntityGate> = Layer.scoped(
  EntityGate,
  Effect.gen(function*() {
    const gate = { isOpen: false }
    const open = Effect.sync(() => {
      gate.isOpen = true
    })
    yield* Effect.forkScoped(Effect.delay(open, patience))
    return gate
  })
)

/** The storage, from which nothing is read while the gate is closed. @internal */
export const layerStorage: Layer.Layer<
  MessageStorage.MessageStorage,
  never,
  MessageStorage.MessageStorage
> = Layer.effect(
  MessageStorage.MessageStorage,
  Effect.gen(function*() {
    const storage = yield* MessageStorage.MessageStorage
    const gate = yield* EntityGate
    return MessageStorage.MessageStorage.of({
      ...storage,
      unprocessedMessages: (shards) => gate.isOpen ? storage.unprocessedMessages(shards) : Effect.succeed([])
    })
  })
)
