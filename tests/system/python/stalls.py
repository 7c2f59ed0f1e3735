# SPDX-License-Identifier: Apache-2.0
"""Programs that stall, and programs that only wait. WAY [MORE]; says "ready" before its last wait.

A thread that is to be named waits at a line with the comment "waits".
"""

import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time


def huge():
    """Stacks that are more than a dump has room for."""
    lock = threading.Lock()

    def deep(n):
        if n:
            deep(n - 1)
        else:
            lock.acquire()
    lock.acquire()
    for _ in range(900):
        threading.Thread(target=deep, args=(150,)).start()
    ready()
    deep(150)


def ready():
    print("ready", flush=True)


def listening():
    return socket.create_server(("127.0.0.1", 0))


def connected():
    server = listening()
    a = socket.create_connection(server.getsockname())
    b, _ = server.accept()
    return a, b


# Stalls

def locks():
    a, b = threading.Lock(), threading.Lock()
    met = threading.Barrier(2)

    def crossed(x, y):
        with x:
            met.wait()
            y.acquire()  # waits
    threading.Thread(target=crossed, args=(b, a)).start()
    ready()
    crossed(a, b)


def never_filled():
    jobs = queue.Queue()
    ready()
    jobs.get()  # waits


def barrier():
    gate = threading.Barrier(3)
    threading.Thread(target=gate.wait).start()
    ready()
    gate.wait()  # waits


def executor():
    pool = concurrent.futures.ThreadPoolExecutor(1)

    def outer():
        return pool.submit(abs, 1).result()
    done = pool.submit(outer)
    ready()
    done.result()  # waits


def full_pipe():
    _, w = os.pipe()
    ready()
    os.write(w, bytes(1 << 20))  # waits


def child_full_pipe():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdout.write('x' * (1 << 20))"], stdout=subprocess.PIPE)
    ready()
    child.wait()  # waits


def input_never_closed():
    child = subprocess.Popen(["sh", "-c", "cat; true"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    ready()
    child.wait()  # waits


def two_pipes():
    r1, w1 = os.pipe()
    r2, w2 = os.pipe()
    if os.fork() == 0:
        os.close(w2), os.close(r1)
        os.read(r2, 1)
        os._exit(0)
    os.close(w1), os.close(r2)
    ready()
    os.read(r1, 1)  # waits


def fork_with(a, b):
    """The child waits for data from the parent, by the other end of the socket."""
    if os.fork() == 0:
        a.close()
        b.recv(1)
        os._exit(0)
    b.close()
    ready()


def sockets():
    a, b = socket.socketpair()
    fork_with(a, b)
    a.recv(1)  # waits


def tcp():
    a, b = connected()
    fork_with(a, b)
    a.recv(1)  # waits


def tcp_mapped():
    """IPv6 at one end, IPv4 at the other."""
    server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    a = socket.create_connection(("127.0.0.1", server.getsockname()[1]))
    _kept = server.accept()
    ready()
    a.recv(1)  # waits


def full_socket():
    a, _kept = socket.socketpair()
    ready()
    a.sendall(bytes(1 << 24))  # waits


def stopped():
    ready()
    os.kill(os.getpid(), signal.SIGSTOP)  # waits


def child_stopped():
    child = subprocess.Popen(["sh", "-c", "kill -STOP $$"])
    ready()
    child.wait()


def killed_worker():
    jobs, results = multiprocessing.Queue(), multiprocessing.Queue()

    def work():
        while True:
            results.put(jobs.get())
    workers = [multiprocessing.Process(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    jobs.put(1)
    results.get()
    os.kill(workers[0].pid, signal.SIGKILL)
    ready()
    results.get()  # waits


def shared_lock():
    lock = multiprocessing.Lock()

    def die():
        lock.acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    worker = multiprocessing.Process(target=die)
    worker.start()
    worker.join()
    ready()
    lock.acquire()  # waits


def async_locks():
    async def main():
        a, b = asyncio.Lock(), asyncio.Lock()

        async def crossed(x, y):
            async with x:
                await asyncio.sleep(0)
                await y.acquire()  # waits
        ready()
        await asyncio.gather(crossed(a, b), crossed(b, a))
    asyncio.run(main())


def async_queue():
    async def main():
        jobs = asyncio.Queue()
        ready()
        await jobs.get()  # waits
    asyncio.run(main())


# Programs that only wait

def server():
    s = listening()
    for _ in range(4):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    ready()
    s.accept()


def epoll_server():
    events, s = select.epoll(), listening()
    events.register(s)
    jobs = queue.Queue()
    for _ in range(16):
        threading.Thread(target=jobs.get, daemon=True).start()
    ready()
    events.poll()


def server_in_thread():
    def serve():
        listening().accept()
    thread = threading.Thread(target=serve)
    thread.start()
    ready()
    thread.join()


def sleeps():
    ready()
    time.sleep(1000)


def parked_pool():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(abs, range(100)))
        ready()
        time.sleep(1000)


def process_pool():
    with multiprocessing.Pool(2) as pool:
        pool.map(abs, range(9))
        ready()
        sys.stdin.read()


def process_executor():
    s = listening()
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        list(pool.map(abs, range(9)))
        ready()
        s.accept()


def spins():
    ready()
    while True:
        pass  # waits


def spins_in_child():
    child = multiprocessing.Process(target=spins)
    child.start()
    child.join()


def touches():
    while True:
        bytearray(1 << 24)


def spins_beside():
    """The other child is busy in one line, too, but has page faults."""
    children = [multiprocessing.Process(target=way) for way in (touches, spins)]
    for child in children:
        child.start()
    for child in children:
        child.join()


def first_doubtful():
    """A wait with a time limit; after some time the other child hangs."""
    def hangs():
        end = time.monotonic() + float(sys.argv[2])
        while time.monotonic() < end:
            time.sleep(0.1)
        queue.Queue().get()  # waits
    lock = threading.Lock()
    lock.acquire()
    children = [multiprocessing.Process(target=way) for way in (lambda: lock.acquire(timeout=1000), hangs)]
    for child in children:
        child.start()
    ready()
    for child in children:
        child.join()


def computes():
    """It spins in many lines in turn."""
    code = "".join("for n in range(20000): pass\n" for line in range(60))
    lines = compile(code, "computed.py", "exec")
    ready()
    while True:
        exec(lines)


def busy_pool():
    with multiprocessing.Pool(2) as pool:
        done = pool.apply_async(time.sleep, (1000,))
        ready()
        done.get()


def manager():
    kept = multiprocessing.Manager()
    ready()
    sys.stdin.read()
    kept.shutdown()


def thread_works():
    jobs = queue.Queue()

    def busy():
        while True:
            time.sleep(0.01)
    threading.Thread(target=busy).start()
    ready()
    jobs.get()


def child_works():
    child = subprocess.Popen(["sleep", "1000"])
    ready()
    child.wait()


def pipeline():
    child = subprocess.Popen(["sh", "-c", "sleep 1000 | cat | cat; true"])
    ready()
    child.wait()


def follows():
    child = subprocess.Popen(["sh", "-c", "tail -f /dev/null | cat"])
    ready()
    child.wait()


def child_serves():
    if os.fork() == 0:
        listening().accept()
    ready()
    os.wait()


def coprocess():
    """The child waits for its parent, which waits for its user."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ready()
    sys.stdin.read()
    child.kill()


def looks_again():
    jobs = queue.Queue()
    ready()
    while True:
        try:
            jobs.get(timeout=1)
        except queue.Empty:
            pass


def pauses():
    ready()
    signal.pause()


def polls():
    r, _ = os.pipe()
    ready()
    select.select([r], [], [])


def eventfd():
    number = os.eventfd(0) if hasattr(os, "eventfd") else os.pipe()[0]
    ready()
    select.select([number], [], []) if not hasattr(os, "eventfd") else os.read(number, 8)


def async_sleep():
    async def main():
        ready()
        await asyncio.sleep(1000)
    asyncio.run(main())


def async_server():
    async def main():
        async def serve(reader, _):
            await reader.read()
        serving = await asyncio.start_server(serve, "127.0.0.1", 0)
        waits = asyncio.ensure_future(asyncio.Queue().get())
        ready()
        await serving.wait_closed() if sys.version_info >= (3, 12) else await waits
    asyncio.run(main())


def async_thread():
    async def main():
        ready()
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    asyncio.run(main())


def async_child():
    async def main():
        child = await asyncio.create_subprocess_exec("sleep", "1000")
        ready()
        await child.wait()
    asyncio.run(main())


def empty_loop():
    loop = asyncio.new_event_loop()
    loop.call_soon(ready)
    loop.run_forever()


# Suspicions

def asks_to_end():
    """Waits for the handler of SIGTERM."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    ready()
    asked.wait()  # waits


# Ranks: the first one waits for the second, which does what MORE says

def launcher():
    """MORE: what rank 1 does, and the number of ranks of the whole job."""
    port = str(listening().getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", *sys.argv[2:]],
                              env=dict(os.environ, RANK=str(number), WORLD_SIZE=sys.argv[3], MASTER_PORT=port))
             for number in (0, 1)]
    while any(rank.poll() is None for rank in ranks):
        time.sleep(0.1)


def rank():
    place = "127.0.0.1", int(os.environ["MASTER_PORT"])
    if os.environ["RANK"] == "0":
        other, _ = socket.create_server(place).accept()
        ready()
    else:
        while True:
            try:
                other = socket.create_connection(place)
                break
            except OSError:
                time.sleep(0.05)
        augment(sys.argv[2])
    other.recv(1)  # waits


def augment(how):
    if how == "works":
        while True:
            sum(range(1000))
    elif how == "sleeps":
        time.sleep(1000)
    elif how == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "deadlock":
        queue.Queue().get()
    elif how == "child":
        subprocess.run([sys.executable, "-c", "while True: pass"], check=False)
    elif how == "killed":
        results = multiprocessing.Queue()
        worker = multiprocessing.Process(target=signal.pause)
        worker.start()
        worker.kill()
        results.get()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    globals()[sys.argv[1]]()
