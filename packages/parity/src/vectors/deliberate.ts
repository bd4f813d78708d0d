/**
 * Where we mean to differ from the classes of the official SDK, and why. The tests fail on an entry nothing needs.
 */
export interface Deliberate {
  /** `Type.case` of the vectors it is about; `*` for every type. */
  readonly vectors: RegExp
  /** What we do: read what Python refuses, or refuse what Python reads. */
  readonly ours: "read" | "refuse"
  readonly why: string
}

export const deliberate: ReadonlyArray<Deliberate> = [
  {
    vectors: /\.\w+ null$/,
    ours: "read",
    why: "an explicit null where a field has a default means the default: older clients send it"
  },
  {
    vectors: /Response(Internal)?\.type wrong$/,
    ours: "read",
    why: "the tag of an answer says nothing its endpoint does not"
  },
  {
    vectors: /^(JsonTensorData)\.unknown key$/,
    ours: "read",
    why: "tensors occur in answers too, and what we write has no other keys"
  },
  {
    vectors: /^CreateSessionRequest\.user_metadata missing$/,
    ours: "read",
    why: "the Python class wants it said, we say it for the caller"
  },
  {
    vectors: /^RequestFailedResponse\.(error|category) (missing|wrong)$/,
    ours: "read",
    why: "a failure is a failure however little the server says about it"
  },
  {
    vectors: /^TryAgainResponse\.(request_id|queue_state) missing$/,
    ours: "read",
    why: "the poll goes on whatever the queue does"
  },
  { vectors: /^SelfApiKeyResponse\.note missing$/, ours: "read", why: "a key needs no note" },
  { vectors: /^WhoamiResponse\.org_urn missing$/, ours: "read", why: "older tokens do not name the organization" },
  {
    vectors:
      /^(TryAgainResponse\.type|Future(Finished|Failed)\.state|ClientSessionFinish(Errored|Interrupted|Success)\.type) absent$/,
    ours: "refuse",
    why: "it is what tells one answer from another, and the wire always has it"
  },
  {
    vectors: /^(ClientSessionFinished\.reason|SessionSummary\.status) wrong$/,
    ours: "refuse",
    why: "Python takes any object for the first variant"
  },
  {
    vectors: /^(SamplingParams\.unknown key|SampleRequest\.sampling_params wrong)$/,
    ours: "refuse",
    why: "a misspelt parameter is refused rather than lost"
  }
]
