/** Work that pauses; it yields nothing but the chance to do something else. @internal */
export type Work<A> = Generator<void, A, void>
