/** The AI SDK as this directory has it: version 7. */
export * from "ai"
