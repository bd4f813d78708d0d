/**
 * Server-sent events as text, each complete with the empty line that ends it.
 *
 * @since 0.2.0
 */

/**
 * The content type of a stream of events.
 *
 * @since 0.2.0
 * @category constants
 */
export const contentType: string = "text/event-stream"

/**
 * An event of text in one line.
 *
 * @since 0.2.0
 * @category constructors
 */
export const text = (data: string): string => `data: ${data}\n\n`

/**
 * An event that holds JSON.
 *
 * @since 0.2.0
 * @category constructors
 */
export const json = (data: unknown): string => text(JSON.stringify(data))

/**
 * An event with a name that holds JSON.
 *
 * @since 0.2.0
 * @category constructors
 */
export const named = (name: string, data: unknown): string => `event: ${name}\n${json(data)}`
