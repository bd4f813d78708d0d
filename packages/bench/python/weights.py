"""The cookbook's merge on command: a line names base, adapter and output; the answer is one JSON object."""

import json
import logging
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from tinker_cookbook.weights import build_hf_model  # noqa: E402

for line in sys.stdin:
    base, adapter, output = line.rstrip("\n").split("\t")
    start = time.perf_counter()
    build_hf_model(base_model=base, adapter_path=adapter, output_path=output)
    seconds = time.perf_counter() - start
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "rss": rss}), flush=True)
