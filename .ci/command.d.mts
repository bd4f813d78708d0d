export declare const bundleCommand: (directory: string) => Promise<void>
