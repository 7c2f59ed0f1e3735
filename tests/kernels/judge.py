# SPDX-License-Identifier: Apache-2.0
"""What the recordings made in an emulated machine have to look like."""

import copy
import itertools
import json
import re

# Chains, root first. libc has no symbol table there, so what it does before main is an offset.
START = r"_start;(?:(?:libc\.so\.6\+0x[0-9a-f]+|__libc_start[a-z_]*(?:@+[\w.]+)?);){1,3}main"
KERNEL = r"(?:;[^;]+_\[k\])*$"
CHAIN = (r"(?:;chain_1(?:;chain_2(?:;chain_3(?:;chain_4@plt|;chain_4(?:;chain_5@plt|"
         r";chain_5(?:;chain_6@plt|;chain_6)?)?)?)?)?)?")
C_FRAMES = r"(?:;(?![^;]* \([^;]*:\d+\))[^;]+)*"
PYTHON = (r"^[^;]+;_start" + C_FRAMES + r";<module> \(levels\.py:21\);outer \(levels\.py:1[78]\)" +
          C_FRAMES + r"(?:;key \(levels\.py:1[23]\)(?:;inner \(levels\.py:[5-9]\))?" + C_FRAMES +
          r")?$")
OTHER = r"(?:(?!;(?:outer|middle|leaf) ).)*"
ASYNC = (r"^[^;]+;_start;" + OTHER + r"(?:;outer \(tasks\.py:27\)(?:;middle \(tasks\.py:21\)"
         r"(?:;leaf \(tasks\.py:1[5-7]\))?)?" + OTHER + ")?$")
EXPECTED = {
    "async": re.compile(ASYNC),
    "python": re.compile(PYTHON),
    "chain": re.compile("^[^;]+;" + START + CHAIN + KERNEL),
    "made": re.compile("^[^;]+;" + START + ";run_made;made_function" + KERNEL),
    "dive": re.compile("^[^;]+;" + START + r"(?:;dive){0,299}(?:;dive(?:;bottom)?)?" + KERNEL),
}
PARTS = {"a": 5, "b": 10, "c": 15, "d": 20, "e": 25, "f": 25}
MIN_COMPLETE = 99.0
MIN_EXACT = 99.0
MAX_SHARE_POINTS = 1.0
MIN_SHARE_SAMPLES = 3000  # fewer cannot tell one point
MAPS_MIB = 48  # on two CPUs, of what P5 leaves to maps and all else
MAX_VERIFIED = 300000  # instructions; the verifier gives up at a million


def kernel_version(results):
    return tuple(map(int, re.findall(r"\d+", results.facts.get("kernel") or "0.0")[:2]))


class Recording:
    """One case: exit status, stacks with counts, and the statistics."""

    def __init__(self, results, case):
        self.case = case
        self.preempts = kernel_version(results) >= (7, 0)
        self.status = int(results.facts.get(case + ".rc") or -1)
        self.out = [line for line in results.files.get(case + ".out", []) if line.strip()]
        self.stacks = []
        for line in results.files.get(case + ".folded", []):
            stack, _, count = line.rpartition(" ")
            if stack and count.isdigit() and not line.startswith("#"):
                self.stacks.append((stack, int(count)))
        try:
            self.stats = json.loads("\n".join(results.files.get(case + ".json", [])))
        except ValueError:
            self.stats = {}

    def of(self, program, case):
        """What one of its programs has of the recording, under a name of its own."""
        part = copy.copy(self)
        part.case = case
        part.stacks = [(stack, count) for stack, count in self.stacks if stack.startswith(program + ";")]
        return part

    def number(self, *path):
        value = self.stats
        for key in path:
            value = value.get(key, 0) if isinstance(value, dict) else 0
        return value

    @property
    def lost(self):
        """Lost records by reason. From 7.0 on, the kernel may interrupt a program for another thread, and then does not run it
        for that thread on the same CPU: `program_not_run` counts these starts and ends of processes, and is no fault.
        """
        reasons = {reason: n for reason, n in (self.number("lost") or {}).items() if n}
        if self.preempts:
            reasons.pop("program_not_run", None)
        return reasons

    @property
    def samples(self):
        return sum(count for _, count in self.stacks)

    @property
    def clock(self):
        return self.number("clock", "name") or "?"

    def complete_percent(self):
        whole = self.number("stacks", "complete")
        all_stacks = whole + self.number("stacks", "truncated")
        return 100.0 * whole / all_stacks if all_stacks else 0.0

    def share_percent(self, pattern):
        hits = sum(count for stack, count in self.stacks if pattern.search(stack))
        return 100.0 * hits / self.samples if self.samples else 0.0


class Check:
    """One line of the table; problem is None when all is well."""

    def __init__(self, case, recording=None, exact=None, problem=None, note="", skip=None):
        self.case = case
        self.recording = recording
        self.exact = exact
        self.problem = problem
        self.note = note
        self.skip = skip


def first_error(recording):
    for line in recording.out:
        if re.search(r"error|cannot|fail|denied|refused|invalid|needs?\b", line, re.IGNORECASE):
            return line
    return recording.out[-1] if recording.out else "no output"


def judge_recording(got, clock, seconds, chain, hz=99):
    """A target that has so much of a CPU: enough samples, complete, the expected chain, the right clock."""
    case = got.case
    if got.status != 0:
        return Check(case, got, problem=f"exit {got.status}: {first_error(got)}")
    exact = got.share_percent(EXPECTED[chain])
    note = []
    problem = None
    if got.clock != clock:
        problem = f"clock {got.clock}, not {clock}"
    elif got.samples < seconds * hz / 2:
        problem = f"{got.samples} samples of {seconds * hz}"
    elif got.complete_percent() < MIN_COMPLETE:
        problem = f"complete {got.complete_percent():.2f}%: {got.number('stacks', 'reasons')}"
    elif exact < MIN_EXACT:
        wrong = max(((n, s) for s, n in got.stacks if not EXPECTED[chain].search(s)),
                    default=(0, ""))
        problem = f"exact {exact:.2f}%, not so: {wrong[0]} x {wrong[1][:160]}"
    elif clock == "timer" and "ticks_misplaced" not in got.number("clock"):
        problem = "ticks_misplaced is not among the counters"
    elif got.number("clock", "own_frames_unknown") > 0.02 * got.samples:
        problem = f"{got.number('clock', 'own_frames_unknown')} ticks with frames of the clock's own"
    lost = sum((got.number("lost") or {}).values())
    if lost:
        note.append(f"lost {lost}")
    if clock == "timer":
        note.append(f"misplaced {got.number('clock', 'ticks_misplaced')}")
    return Check(case, got, exact, problem, ", ".join(note))


def judge_async(got, clock):
    """Returns the stacks of tasks. It leaves out samples from before the process was known: under emulation there are many."""
    early = got.number("walk", "async_early") or 0
    early += sum((got.number("stacks", "reasons") or {}).values())
    check = judge_recording(got, clock, 2, "async")
    wrong = sum(n for s, n in got.stacks if not EXPECTED["async"].search(s)) if got.status == 0 else 0
    if check.problem and got.status == 0 and got.samples > 100 and early < got.samples / 2 and \
            wrong <= early + got.samples * (100 - MIN_EXACT) / 100:
        check.problem, check.note = None, f"{early} early"
    return check


def judge_loaded(got):
    """A recording that only has to begin and end."""
    return Check(got.case, got, problem=f"exit {got.status}: {first_error(got)}" if got.status else None)


# What each program of the step is called in the table, and its chain.
PROGRAMS = {"chain_dynamic": ("dynamic", "chain"), "chain_static": ("static", "chain"), "dive": ("dive", "dive"),
            "made_code": ("private", "made"), "python3": ("python", "python")}


def judge_programs(results, clock):
    """Five busy programs have two CPUs for 12 s: more than 4 s each."""
    got = Recording(results, "programs-caps")
    return [judge_recording(got.of(program, case + "-caps"), clock, 4, chain)
            for program, (case, chain) in PROGRAMS.items()]


def judge_shares(results):
    """Both clocks on one program at the same time."""
    perf = Recording(results, "shares-perf")
    timer = Recording(results, "shares-timer")
    checks = []
    for got, clock in ((perf, "perf"), (timer, "timer")):
        problem = None
        if got.status != 0:
            problem = f"exit {got.status}: {first_error(got)}"
        elif got.clock != clock:
            problem = f"clock {got.clock}, not {clock}"
        elif got.complete_percent() < MIN_COMPLETE:
            problem = f"complete {got.complete_percent():.2f}%: {got.number('stacks', 'reasons')}"
        checks.append(Check(got.case, got, problem=problem))
    if checks[0].problem or checks[1].problem:
        return checks
    apart = 0.0
    from_truth = [0.0, 0.0]
    for part, true in PARTS.items():
        pattern = re.compile(rf";share_{part}(;|$)")
        shares = [got.share_percent(pattern) for got in (perf, timer)]
        apart = max(apart, abs(shares[0] - shares[1]))
        from_truth = [max(worst, abs(share - true)) for worst, share in zip(from_truth, shares)]
    for check, worst in zip(checks, from_truth):
        if worst > 2 * MAX_SHARE_POINTS:
            check.problem = f"shares {worst:.2f} points from the truth"
        check.note = f"at most {worst:.2f} points from the truth"
    checks[1].note += f", {apart:.2f} from perf"
    if apart > MAX_SHARE_POINTS:
        if min(perf.samples, timer.samples) < MIN_SHARE_SAMPLES:
            checks[1].skip = (f"{timer.samples} samples on a loaded host cannot tell one point "
                              f"({apart:.2f})")
        else:
            checks[1].problem = f"shares {apart:.2f} points from the perf clock's"
    return checks


def judge_hotplug(results, step):
    """CPU 1 was away for a while: the program that is bound to it has to be sampled again after."""
    checks = []
    for case in (step + "-perf", step + "-timer"):
        got = Recording(results, case)
        problem = None
        stayed = got.share_percent(re.compile("^chain_static;"))
        returned = got.share_percent(re.compile("^dive;"))
        if got.status != 0:
            problem = f"exit {got.status}: {first_error(got)}"
        elif results.facts.get(step + ".offline") != "0":
            problem = "CPU 1 did not go away"
        elif results.facts.get(step + ".online") != "0-1":
            problem = "CPU 1 did not come back"
        elif returned < 0.6 * stayed:  # were CPU 1 forgotten, it would be a third or less
            problem = f"{returned:.0f}% of the samples on CPU 1, {stayed:.0f}% on CPU 0"
        elif got.complete_percent() < 90:  # other programs come and go
            problem = f"complete {got.complete_percent():.2f}%: {got.number('stacks', 'reasons')}"
        checks.append(Check(case, got, problem=problem,
                            note=f"CPU 0 {stayed:.0f}%, CPU 1 {returned:.0f}%"))
    return checks


def judge_machine(results, clock):
    got = Recording(results, "machine-caps")
    mine = re.compile(r"^chain_dynamic;")
    share = got.share_percent(mine)
    problem = None
    if got.status != 0:
        problem = f"exit {got.status}: {first_error(got)}"
    elif got.clock != clock:
        problem = f"clock {got.clock}, not {clock}"
    elif share < 60:
        problem = f"the busy program has {share:.0f}% of the samples"
    elif got.complete_percent() < 95:
        problem = f"complete {got.complete_percent():.2f}%: {got.number('stacks', 'reasons')}"
    return Check("machine-caps", got, problem=problem, note=f"busy program {share:.0f}%")


def judge_doctor(results, who):
    case = "doctor-" + who
    status = int(results.facts.get(case + ".rc") or -1)
    lines = results.files.get(case + ".out", [])
    fails = [line.strip() for line in lines if re.search(r"\bfail\b", line)]
    problem = None
    if status != 0:
        problem = f"exit {status}: {'; '.join(fails) or (lines or ['no output'])[0]}"
    return Check(case, problem=problem)


def judge_dump(results, who):
    """A thread that sleeps and one that runs: Python, native and kernel frames of both. Neither waits for another."""
    case = "dump-" + who
    text = "\n".join(results.files.get(case + ".out", []))
    status = int(results.facts.get(case + ".rc") or -1)
    problem = None
    if status != 0:
        problem = f"exit {status}: {text[:300]}"
    elif not re.search(r"^Alive: each thread runs, or something can end its wait$", text, re.MULTILINE):
        problem = "no verdict: " + text[:300].replace("\n", "|")
    elif not re.search(r"Thread \d+ \(idle\).*\n(    .*_\[k\]\n)+(    .* \(libc.*\)\n)+(    .*\n)*"
                       r"    key \(asleep\.py:8\)\n(    .*\n)+    outer \(asleep\.py:12\)\n"
                       r"    <module> \(asleep\.py:15\)\n(    .*\n)+", text):
        problem = "not the stack of what sleeps: " + text[:600].replace("\n", "|")
    elif not re.search(r"Thread \d+ \(active\): .*\n(    .*\n)*    chain_1 \(.*\)\n"
                       r"    main \(.*\)\n", text):
        problem = "not the stack of what runs: " + text[-600:].replace("\n", "|")
    return Check(case, problem=problem)


def judge_steps(results):
    """Two calls of a worker, one after the other, and nothing of what it did besides."""
    got = Recording(results, "steps-caps")
    found = {m for stack, _ in got.stacks
             for m in re.findall(r";(call_\d+|resting)(?=;|$)", stack)}
    calls = sorted(int(name[5:]) for name in found if name != "resting")
    unseen = any("windows of the profiler (cudaProfilerStart) cannot be seen" in line for line in got.out)
    problem = None
    if got.status != 0:
        problem = f"exit {got.status}: {first_error(got)}"
    elif got.number("steps", "recorded") != 2:
        problem = f"recorded: {got.stats.get('steps')}: {' | '.join(got.out)[-300:]}"
    elif "gpu-caps.rc" in results.facts and unseen != (results.facts["gpu-caps.rc"] == "3"):
        problem = f"windows: {' | '.join(got.out)[-300:]}"
    elif "resting" in found or not calls or len(calls) > 2 or calls[-1] - calls[0] not in (0, 1, 11):
        problem = f"samples of {sorted(found)}"
    return Check("steps-caps", got, problem=problem, note=f"calls {calls}")


def judge_memory(results):
    """Each function holds what the program says, within 3% or four deviations; the OOM killer of a cgroup v2 is named."""
    got = Recording(results, "memory-caps")
    truth = {line.split()[1]: int(line.split()[2]) for line in results.files.get("memory-caps.truth", [])
             if len(line.split()) == 3}
    if got.status != 0:
        return Check(got.case, got, problem=f"exit {got.status}: {first_error(got)}")
    problem, notes = None, []
    for name in ("big", "small", "churn"):
        seen, true = (sum(size for stack, size in got.stacks if f";{name}" in stack), truth.get(name, 0))
        notes.append(f"{name} {seen / 2**20:.1f} of {true / 2**20:.1f} MiB")
        if abs(seen - true) > max(0.03 * true, 4 * (max(true, 2**20) * (16 << 10)) ** 0.5):
            problem = notes[-1]
    if not any("was killed by the OOM killer " in one["text"] and re.search(r"its cgroup used 19[012]( MiB|\.\d+ MiB) of its limit of 192 MiB$", one["text"])
               for one in got.stats.get("findings", [])):
        problem = problem or f"findings: {got.stats.get('findings')}"
    return Check(got.case, got, problem=problem, note=", ".join(notes))


def judge_deaths(results):
    """The sentence of a death, and its whole stack from the signal before the handler ran."""
    got = Recording(results, "deaths-caps")
    if got.status != 0:
        return Check(got.case, got, problem=f"exit {got.status}: {first_error(got)}")
    frames = [line.split(" (")[0].strip() for line in got.out if line.startswith("    ")]
    chain, problem = ["segv_here", "middle", "outer", "main"], None
    if not any(re.match(r"deaths \(pid \d+\) died of SIGSEGV in segv_here \(deaths\)\.$", line) for line in got.out):
        problem = f"no sentence: {' | '.join(got.out)[:300]}"
    elif frames[:4] != chain or "raise_again" not in frames:
        problem = f"frames {frames}"
    return Check(got.case, got, problem=problem, note=" < ".join(frames[:4]))


def judge_wall(results, how):
    """A shell and a sleeper: each has all of its time, where it waited."""
    got = Recording(results, how + "-caps")
    whole = got.number("duration_seconds")
    waits = got.number("waits")
    problem, times = None, []
    if got.status != 0:
        return Check(got.case, got, problem=f"exit {got.status}: {first_error(got)}")
    for place in ("sys_wait4", "nanosleep"):
        spent = sum(us for stack, us in got.stacks if place in stack) / 1e6
        times.append(f"{place} {spent:.2f} of {whole:.2f} s")
        # Emulated, the shell computes for a good part of its time.
        if not (0.4 if place == "sys_wait4" else 0.98) * whole <= spent <= 1.02 * whole:
            problem = times[-1]
    if how == "wall":
        total = sum(us for _, us in got.stacks) / 1e6
        times.append(f"all {total:.2f} s")
        if abs(total - 2 * whole) > 0.02 * whole:
            problem = f"two threads have {total:.2f} s in {whole:.2f} s"
    if not problem and (not isinstance(waits, dict) or waits["sampled"] < 3):
        problem = f"waits {waits}"
    return Check(got.case, got, problem=problem,
                 note=", ".join(times) + f", {waits['switches']} switches")


def judge_waker(results):
    """The shell's waits are ended by its children, which end; theirs by the timer."""
    got = Recording(results, "waker-caps")
    if got.status != 0:
        return Check(got.case, got, problem=f"exit {got.status}: {first_error(got)}")
    problem, times = None, []
    # The last wait of each goes on.
    for place, waker in (("sys_wait4", "[woken by sleep-"), ("nanosleep", "[woken by an interrupt]")):
        waits = [(stack, us) for stack, us in got.stacks
                 if place in stack and ";--;" in stack]
        spent = sum(us for _, us in waits) / 1e6
        known = sum(us for stack, us in waits if ";" + waker in stack) / 1e6
        times.append(f"{place} {known:.2f} of {spent:.2f} s by {waker}")
        if not spent or known < 0.9 * spent:
            problem = times[-1] + f": {[stack for stack, _ in waits if waker not in stack][:3]}"
    # Innermost first; what an interrupt came upon, behind its entry, may be one of our programs.
    wakers = [stack.partition(";--;")[2].split(";") for stack, _ in got.stacks]
    own = [waker for waker in wakers
           if any("bpf_" in frame or frame.startswith("try_to_wake_up")
                  for frame in itertools.takewhile(lambda name: not name.startswith("asm_"), waker))]
    if own:
        problem = f"frames of our own: {own[:2]}"
    return Check(got.case, got, problem=problem, note=", ".join(times) + f", {got.stats['waits']}")


def gpu_sums(rows, names, columns):
    """{key: sums} of the rows; a key is what they have under the names."""
    found = {}
    for row in rows:
        key = tuple(str(row.get(name)) for name in names)
        found[key] = [a + row[column] for a, column in zip(found.get(key, [0] * len(columns)),
                                                           columns)]
    return found


def gpu_shown(name):
    """A function's name without the version and twin of its export."""
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)


def gpu_wrong(seen, folded, truth):
    """What is not as the program says that it was, or None. Mangled names may be shown readably."""
    def named(rows):
        return [dict(row, kernel=re.sub(r"^\w*fused\w*softmax.*|^fused::softmax.*", "softmax",
                                        row["kernel"])) for row in rows]

    exported = {name: [one["calls"], one["bytes"]] for name, one in truth["calls"].items()}
    pairs = {
        "launches": [gpu_sums([row for row in named(rows)
                               if not row["exported"].startswith("cuGraph")],
                              ("kernel", "exported", "grid", "block", "stream"), ("calls",))
                     for rows in (seen["launches"], truth["launches"])],
        "calls": [{key[0]: sums for key, sums in gpu_sums(seen["calls"], ("exported",),
                                                          ("calls", "bytes")).items()
                   if key[0] in exported}, exported],
        "collectives": [gpu_sums(rows, ("operation", "datatype", "op", "root", "peer", "comm",
                                        "stream"), ("calls", "bytes"))
                        for rows in (seen["collectives"], truth["collectives"])],
        "tensors": [{"memory": one.get("tensor_memory")} for one in (seen, truth)
                    if "tensor_memory" in truth] or [{}, {}],
        "stacks": [{where: sum(count for stack, count in folded if where in stack and
                               any(gpu_shown(name) in stack[-2:] for name in calls))
                    for where, calls in truth["where"].items()},
                   {where: sum(calls.values()) for where, calls in truth["where"].items()}],
    }
    for what, (found, wanted) in pairs.items():
        for key in {**found, **wanted}:
            if found.get(key) != wanted.get(key):
                return f"{what}: {key}: {found.get(key)}, not {wanted.get(key)}"
    return None


def judge_gpu_counts(results, who):
    """Counts, bytes and stacks of four programs are what those say."""
    got = Recording(results, f"gpu-{who}")
    if got.status != 0:
        return Check(got.case, problem=f"exit {got.status}: {first_error(got)}")
    folded = [(stack.split(";"), count) for stack, count in got.stacks]
    problem = None
    calls = 0
    for scenario in ("launches", "copies", "nccl", "tensors"):
        lines = results.files.get(f"gpu-{who}-{scenario}.truth", [])
        truth = next((json.loads(line) for line in lines if line.startswith("{")), None)
        if not truth:
            problem = problem or f"{scenario}: {' | '.join(lines)[:200] or 'said nothing'}"
            continue
        calls += sum(one["calls"] for one in truth["calls"].values())
        seen = [one for one in got.stats.get("processes", []) if one["pid"] == truth["pid"]]
        wrong = gpu_wrong(seen[0], folded, truth) if seen else "not seen"
        problem = problem or (wrong and f"{scenario}: {wrong}")
    if got.lost and not problem:
        problem = f"lost: {got.lost}"
    return Check(got.case, problem=problem,
                 note=f"{calls} calls, {got.number('stacks', 'taken')} stacks")


def judge_gpu_trace(results):
    """A trace has each call of the same programs, but for what PyTorch tells."""
    got = Recording(results, "gpu-trace")
    if got.status != 0:
        return Check(got.case, problem=f"exit {got.status}: {first_error(got)}")
    found = {}
    for line in results.files.get("gpu-trace.calls", []):
        if line.strip():
            count, pid, name = line.split()
            found[int(pid), name] = int(count)
    problem, calls = None, 0
    for scenario in ("launches", "copies", "nccl"):
        lines = results.files.get(f"gpu-caps-{scenario}.truth", [])
        truth = next((json.loads(line) for line in lines if line.startswith("{")), None)
        wanted = {}
        for name, one in (truth or {"calls": {}})["calls"].items():
            key = truth["pid"], gpu_shown(name)
            wanted[key] = wanted.get(key, 0) + one["calls"]
        calls += sum(wanted.values())
        wrong = [f"{key}: {found.get(key)}, not {n}" for key, n in wanted.items()
                 if found.get(key) != n]
        problem = problem or (not wanted and "no truth") or (wrong and wrong[0]) or None
    if (got.lost or not got.stats) and not problem:
        problem = f"lost: {got.lost}" if got.stats else "no statistics"
    return Check(got.case, problem=problem, note=f"{calls} calls")


def judge_gpu(results):
    """From Linux 6.6 on calls are counted; before that by full root, to others it is said what is missing."""
    able = kernel_version(results) >= (6, 6)
    if able:
        checks = [judge_gpu_counts(results, "caps"), judge_gpu_trace(results)]
    else:
        got = Recording(results, "gpu-caps")
        check = Check("gpu-caps", note=got.out[0][:160] if got.out else "")
        if got.status != 3:
            check.problem = f"exit {got.status}, not 3: {first_error(got)}"
        elif len(got.out) != 1 or not re.search(r"uprobe_multi.*Linux 6\.6.*CAP_SYS_ADMIN", got.out[0]):
            check.problem = f"not one sentence of what is missing: {' | '.join(got.out)[:300]}"
        checks = [check, judge_gpu_counts(results, "root")]
    # The step "doctor" of the same guest, if that was run.
    lines = results.files.get("doctor-caps.out", [])
    if lines:
        said = next((line.strip() for line in lines if re.match(r"\w+ +gpu_calls\b", line)), "")
        checks.append(Check("gpu-doctor", note=said[:160]))
        if not said.startswith("ok" if able else "warn"):
            checks[-1].problem = f"gpu_calls: {said or 'not told: ' + ' '.join(lines)[:200]}"
    return checks + [judge_gpu_record(results, "gpu-cpu-" + clock) for clock in ("timer", "perf")]


def judge_gpu_record(results, case):
    """Samples and calls in one run of full root."""
    got = Recording(results, case)
    maps = got.number("agent", "bpf_map_bytes") / (1 << 20)
    check = Check(case, note="startup %.1f s, maps %.1f MiB" %
                  (got.number("agent", "startup_seconds"), maps))
    if got.status != 0:
        check.problem = f"exit {got.status}: {first_error(got)}"
    elif "gpu" not in got.stats or not got.number("samples", "total"):
        check.problem = f"samples {got.number('samples')}, calls {got.number('gpu')}"
    elif not 30 < maps < MAPS_MIB:
        check.problem = f"maps of {maps:.1f} MiB, as they are told"
    return check


def judge_allocations(results):
    """What each function holds, byte for byte; without uprobe_multi (up to 6.5) one sentence and exit 3."""
    got = Recording(results, "allocations")
    # The step "doctor" of the same guest, if that was run.
    lines = results.files.get("doctor-caps.out", [])
    able = "ok" if got.status == 0 else "warn"
    if lines and not any(re.match(able + r" +allocations\b", line.strip()) for line in lines):
        return Check("allocations", got, problem="doctor says otherwise: " + " ".join(lines)[:300])
    if got.status == 3 and re.search(r"uprobe_multi|first thread|seccomp", " ".join(got.out[:1])):
        return Check("allocations", note=got.out[0][:120])
    if got.status != 0:
        return Check("allocations", got, problem=f"exit {got.status}: {first_error(got)}")
    mib = {name: sum(count for stack, count in got.stacks if f";{name} (" in stack or f";{name};" in stack
                     or stack.endswith(";" + name)) / (1 << 20) for name in ("big", "churn", "of_thread")}
    wrong = mib["big"] != 40 or mib["churn"] or abs(mib["of_thread"] - 32) > 0.2
    return Check("allocations", problem=f"MiB held: {mib}" if wrong else None, note=f"MiB held: {mib}")


def judge_verified(results):
    """The largest program is far from what the verifier of this kernel gives up at, a million instructions."""
    most = {}
    for line in results.files.get("verified", []):
        name, _, count = line.partition(" ")
        if count.isdigit():
            most[name] = int(count)
    if not most:
        return Check("verified", problem="no program was seen")
    name, count = max(most.items(), key=lambda item: item[1])
    note = f"{name} {count}"
    return Check("verified", note=note, problem=note if count > MAX_VERIFIED else None)


def judge_refused(results):
    """Too old: one sentence that says so, exit 3, and doctor says it too."""
    record = Recording(results, "refused-record")
    checks = []
    problem = None
    if record.status != 3:
        problem = f"exit {record.status}, not 3: {first_error(record)}"
    elif len(record.out) != 1:
        problem = f"{len(record.out)} lines, not one: {' | '.join(record.out)[:300]}"
    elif not re.search(r"too old|6\.1", record.out[0]):
        problem = f"does not say that the kernel is too old: {record.out[0]}"
    checks.append(Check("refused-record", problem=problem,
                        note=record.out[0][:120] if record.out else ""))
    doctor = Recording(results, "refused-doctor")
    problem = None if doctor.status == 3 else f"exit {doctor.status}, not 3"
    checks.append(Check("refused-doctor", problem=problem))
    return checks
