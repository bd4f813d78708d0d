/** Maps in protobuf: a repeated message of a key and a value. */
import { Reader } from "./reader.js"

/**
 * An entry of a map: key 1, value 2. `value` reads the field it is called at.
 *
 * @internal
 */
export const readEntry = <A>(
  message: Reader,
  into: Map<string, A>,
  value: (message: Reader | undefined, key: string) => A
): void => {
  let key = ""
  let held: Reader | undefined
  while (message.next()) {
    if (message.field === 1) {
      if (message.isLength()) key = message.text()
    } else if (message.field === 2) {
      held = message.fork()
      message.skip()
    } else message.skip()
  }
  into.set(key, value(held, key))
}

/** @internal */
export const readNumber = (held: Reader | undefined): number => held?.isDouble() === true ? held.double() : 0

const noMessage = new Reader(new Uint8Array(0))

/**
 * The message a map entry holds, or an empty one.
 *
 * @internal
 */
export const heldMessage = (held: Reader | undefined): Reader => held?.isLength() === true ? held.message() : noMessage
