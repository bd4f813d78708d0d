/**
 * How clients begin and end; its twin is `python/scenarios/startup.py`.
 */
import { sampling, scenario } from "./common.js"

export const startup = [
  scenario("startup_key_argument", sampling)
]
