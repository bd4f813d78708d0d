/**
 * The callbacks behind the `send` functions of transports. A callback belongs to its function, not to a transport: an
 * object with another `send` has no callback, however it was made.
 *
 * @since 0.2.0
 */
import type { Service, UnsafeSend } from "../../TinkerTransport.js"

const known = new WeakMap<Service["send"], UnsafeSend>()

/** @internal */
export const remember = (send: Service["send"], unsafeSend: UnsafeSend): void => {
  known.set(send, unsafeSend)
}

/**
 * The callback behind the function, if it was made from one.
 *
 * @internal
 */
export const of = (send: Service["send"]): UnsafeSend | undefined => known.get(send)
