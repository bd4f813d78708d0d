/**
 * The public method a request is sent for, named as the Python SDK names it. The service counts by it who still calls
 * what before it retires an endpoint. Requests of background loops are sent for nobody.
 *
 * @since 0.2.0
 */

interface From {
  readonly module: string
  readonly method: string
}

/** Methods whose counterpart has another name, or belongs to another class. */
const counterparts: Readonly<Record<string, string>> = {
  "RestClient.getServerCapabilities": "RestClient.get_server_capabilities",
  "SamplingClient.baseModel": "SamplingClient.get_base_model",
  // The first sample of a copy asks for the copy's number.
  "SamplingClient.join": "SamplingClient.sample",
  "SamplingClient.make": "ServiceClient.create_sampling_client",
  "ServiceClient.finish": "ServiceClient.close",
  "ServiceClient.serverCapabilities": "ServiceClient.get_server_capabilities",
  "TrainingClient.makeFromState": "ServiceClient.create_training_client_from_state",
  "TrainingClient.makeLora": "ServiceClient.create_lora_training_client",
  "TrainingClient.tokenizerId": "TrainingClient.get_tokenizer",
  "UploadedLoss.make": "ServiceClient.create_custom_loss"
}

const background: ReadonlySet<string> = new Set(["SamplingClient.cancel", "TrainingClient.submit"])

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const known = new Map<string, string | undefined>()

const find = ({ method, module }: From, name: string): string | undefined => {
  if (background.has(name)) return undefined
  if (module === "TrainingClient" || module === "SamplingClient") {
    return counterparts[name] ?? `${module}.${snakeCase(method)}`
  }
  return counterparts[name]
}

/** @internal */
export const of = (from: From | undefined): string | undefined => {
  if (from === undefined) return undefined
  const name = `${from.module}.${from.method}`
  if (known.has(name)) return known.get(name)
  const found = find(from, name)
  // Names are those of our own methods, so there are few.
  known.set(name, found)
  return found
}
