import * as Server from "./recordingServer.js"

/** A server whose samplers accept and answer everything, unless the handler says otherwise. */
export const make = (answer: object, handler: Server.Handler = () => undefined) =>
  Server.make((seen) => {
    const own = handler(seen)
    if (own !== undefined) return own
    switch (seen.path) {
      case "/api/v1/create_sampling_session":
        return Server.json({ sampling_session_id: `session-1:sample:${seen.json["sampling_session_seq_id"]}` })
      case "/api/v1/asample":
        return Server.json({ request_id: `${seen.json["sampling_session_id"]}:${seen.json["seq_id"]}` })
      case "/api/v1/retrieve_future":
        return Server.json(answer)
      default:
        return undefined
    }
  })
