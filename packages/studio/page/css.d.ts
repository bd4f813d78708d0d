// Style sheets are imported for their effect; TypeScript 7 asks what they are.
declare module "*.css"
