/** The test projects: every package, the examples and the recipes. */
export default ["packages/*", "examples", "recipes"]
