# SPDX-License-Identifier: Apache-2.0
"""A driver that waits for each of its five tasks before it asks for the next. argv: tasks; or actors, then it
asks one actor for five results at once, too, and at last five actors; or several of these words.

Prints "ready"; for each word waits for a line, works, prints how long that took and its own CPU time; of each function
these, too, how long it was in ray.get(), how often it left its CPU, and of each call the pid that it ran in,
when it began and when it ended; and waits for another line.
"""

import json
import os
import resource
import sys
import time

import ray

waited = 0.0


def spend(seconds):
    begin = time.monotonic_ns()
    time.sleep(seconds)
    return os.getpid(), begin, time.monotonic_ns()


@ray.remote
def fetch(seconds):
    return spend(seconds)


@ray.remote(num_cpus=0)
class Fetcher:
    def fetch(self, seconds):
        return spend(seconds)


def get(refs):
    global waited
    begin = time.perf_counter()
    values = ray.get(refs)
    waited += time.perf_counter() - begin
    return values


def fetch_all(_):
    return [get(fetch.remote(0.5)) for _ in range(5)]


def ask_one(actors):
    return get([actors[0].fetch.remote(0.5) for _ in range(5)])


def ask_five(actors):
    return get([actor.fetch.remote(0.5) for actor in actors])


def off_cpu():
    """How often this thread was taken from its CPU."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nvcsw + usage.ru_nivcsw


def measure(work, actors):
    global waited
    waited, switches, begin, cpu = 0.0, off_cpu(), time.perf_counter(), time.process_time()
    calls = work(actors)
    return {"seconds": time.perf_counter() - begin, "waited": waited, "cpu": time.process_time() - cpu,
            "switches": off_cpu() - switches, "calls": calls}


def main():
    ray.init(num_cpus=5, include_dashboard=False)
    get(fetch.remote(0))
    actors = [Fetcher.remote() for _ in range(5 if "actors" in sys.argv else 0)]
    get([actor.fetch.remote(0) for actor in actors])
    print("ready", flush=True)
    for word in sys.argv[1:]:
        sys.stdin.readline()
        measured = {work.__name__: measure(work, actors)
                    for work in ((fetch_all, ask_one, ask_five) if word == "actors" else (fetch_all,))}
        print(json.dumps({"functions": measured, **{
            key: sum(one[key] for one in measured.values()) for key in ("seconds", "cpu")}}), flush=True)
    sys.stdin.readline()


main()
