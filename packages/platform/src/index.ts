/**
 * Byte arrays put together and compared.
 *
 * @since 0.2.0
 */
export * as Bytes from "./Bytes.js"

/**
 * One writer for each directory. Every opener leaves a claim file before it looks at those of others, so of two that open at
 * the same time at least one sees the other; the one whose claim comes later in the order of names withdraws, the other waits
 * until it has. Any opener removes the claim of a process that is gone: no stale lock is ever taken over, so there is no race
 * to take one over.
 *
 * A claim says where its process runs and since when, since containers of one machine number their processes each for
 * itself, and a process id may be used again. It is refreshed while it is held, for readers elsewhere.
 *
 * @since 0.2.0
 */
export * as DirectoryLock from "./DirectoryLock.js"

/**
 * Randomness that nobody can guess, for ids and secrets. Effect's `Random` is a generator whose seed can be recovered from
 * what it made; it stays in use for everything that is not a secret.
 *
 * @since 0.2.0
 */
export * as Entropy from "./Entropy.js"

/**
 * Host names that a server on this machine answers to. A web page can make a name of its own resolve to this machine (DNS
 * rebinding) and then counts as the same origin; so only names that nobody else controls are accepted: loopback, those the
 * server was started with, and, where it listens beyond loopback, IP addresses, which cannot be rebound.
 *
 * @since 0.2.0
 */
export * as HostGuard from "./HostGuard.js"

/**
 * Where the tools of the Hugging Face hub keep what they downloaded: `hf download`, transformers, vLLM and the packages here
 * share one cache.
 *
 * @since 0.2.0
 */
export * as HubDirectory from "./HubDirectory.js"

/**
 * Lines of a file with their byte offsets: streamed from any of them, or read by number. Files whose name ends in `.gz` are
 * decompressed.
 *
 * @since 0.2.0
 */
export * as Lines from "./Lines.js"

/**
 * Completions and chats of OpenAI's API, as far as every server of them agrees: fields of requests that mean the same
 * everywhere, the head and usage of responses, and the end of a stream. What a server refuses, and in which words, is its own.
 *
 * @since 0.2.0
 */
export * as OpenAiWire from "./OpenAiWire.js"

/**
 * A semaphore that never loses a permit, and serves its waiters in the order in which they asked.
 *
 * `Effect.makeSemaphore` (3.22) loses a permit when a fiber is interrupted after it has taken the permit and before it runs
 * its effect, which happens if the scheduler yields at that moment. All later callers then wait forever. It also lets a late
 * caller overtake the waiters. The tests of this module interrupt a fiber at each of its operations.
 *
 * @since 0.2.0
 */
export * as Permits from "./Permits.js"

/**
 * The processes of this machine, as far as a lock has to know about them.
 *
 * @since 0.2.0
 */
export * as Processes from "./Processes.js"

/**
 * Server-sent events as text, each complete with the empty line that ends it.
 *
 * @since 0.2.0
 */
export * as ServerSentEvents from "./ServerSentEvents.js"
