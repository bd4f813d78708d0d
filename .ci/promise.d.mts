export declare const bundlePromise: (directory: string, dist?: string) => Promise<void>
