export interface Installed {
  readonly require: NodeJS.Require
  readonly missing?: undefined
}

export interface Missing {
  readonly missing: string
  readonly require?: undefined
}

export declare const install: (name: string) => Promise<Installed | Missing>
