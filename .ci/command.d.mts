export declare const bundleCommand: (directory: string) => Promise<void>
export declare const bundleCreate: (directory: string) => Promise<void>
