# SPDX-License-Identifier: Apache-2.0
"""Pools of processes and threads, a queue that is often empty, a server, and pipelines of a shell. argv: seconds."""

import concurrent.futures
import http.server
import multiprocessing
import queue
import random
import subprocess
import sys
import threading
import time
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


def work(seconds):
    started = time.time()
    while time.time() < started + seconds:
        pass


def produce(items):
    while True:
        items.put(1)
        time.sleep(random.choice([0.1, 2, 30]))


def main():
    end = time.time() + float(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    items = queue.Queue(2)
    with multiprocessing.Pool(3) as pool, concurrent.futures.ThreadPoolExecutor(4) as threads, \
            concurrent.futures.ProcessPoolExecutor(2) as processes:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threading.Thread(target=produce, args=(items,), daemon=True).start()
        while time.time() < end:
            pool.map(work, [0.1] * 4)
            list(threads.map(time.sleep, [0.1, 1, 3]))
            list(processes.map(work, [0.2, 0.1]))
            items.get()
            urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port).read()
            subprocess.run(["sh", "-c", "sleep %d | cat" % random.choice([0, 3, 28])], check=False)


main()
