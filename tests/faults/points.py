"""Signals at named points of the shipped program: a worker sends itself a signal when one of its
threads enters a function.

The program needs no hook for this. In the memory of one process a jump replaces the function's
first instructions. Its target calls kill(getpid(), NUMBER), executes the replaced instructions and
jumps back; it overwrites the function ROOM, which a training worker never calls. The process is
stopped for the millisecond that this takes. Functions have their readelf names, or
"file.c:function" where several share a name.
"""
import functools, os, re, signal, struct, subprocess, time

from ring import QRINGD, until

ROOM = "qr_settings_markdown"  # only --print-settings calls it
JUMP = 5                       # bytes of jmp rel32


@functools.cache
def symbols():
    """Functions of the program: {name or file:name: (address, size)}."""
    found, file = {}, ""
    for line in subprocess.run(["readelf", "-sW", QRINGD], capture_output=True, text=True, check=True).stdout.splitlines():
        word = line.split()
        if len(word) == 8 and word[3] == "FILE": file = word[7]
        if len(word) != 8 or word[3] != "FUNC" or word[6] == "UND": continue
        at, name = (int(word[1], 16), int(word[2], 0)), re.sub(r"\.(isra|constprop)\.\d+$", "", word[7])
        found.setdefault(name, at)
        if word[4] == "LOCAL": found[f"{file}:{name}"] = at
    return found


@functools.cache
def replaced(function):
    """Instructions that a jump replaces: (address, their bytes, ends of those that contain a 32-bit
    offset relative to the instruction's end)."""
    address, size = symbols()[function]
    text = subprocess.run(["objdump", "-d", "-w", f"--start-address={address}", f"--stop-address={address + min(size, 32)}", QRINGD],
                          capture_output=True, text=True, check=True).stdout
    code, relative = b"", []
    for byte, what in re.findall(r"^ *[0-9a-f]+:\t([0-9a-f ]+?) *\t(.*)$", text, re.M):
        one = bytes.fromhex(byte)
        far_jump = one[0] in (0xE8, 0xE9) or (one[0] == 0x0F and one[1] & 0xF0 == 0x80)
        if re.match(r"j|ret|loop|bnd", what) and not far_jump or ("(%rip)" in what and "$" in what): break
        code += one
        if far_jump or "(%rip)" in what: relative.append(len(code))
        if len(code) >= JUMP: return address, code, relative
    raise LookupError(f"{function} begins with instructions that cannot be moved:\n{text}")


def moved(function, here):
    """The replaced instructions, relocated to `here`."""
    address, code, relative = replaced(function)
    code = bytearray(code)
    for end in relative: struct.pack_into("<i", code, end - 4, struct.unpack_from("<i", code, end - 4)[0] + address - here)
    return bytes(code)


def threads(pid):
    for t in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{t}/stat") as f: state = f.read().rpartition(") ")[2][0]
            with open(f"/proc/{pid}/task/{t}/syscall") as f: at = f.read().split()[-1]
            yield state, int(at, 16) if at.startswith("0x") else 0
        except OSError: pass


def stopped(pid):
    states = [state for state, _ in threads(pid)]
    return bool(states) and all(s in "TtXZ" for s in states)


def base_of(pid):
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            if line.rstrip().endswith(os.path.realpath(QRINGD)): return int(line.split("-")[0], 16)
    return None  # the process has not executed QRINGD yet


def write(pid, address, code):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as f:
        f.seek(address)
        if f.write(code) != len(code): raise OSError(f"cannot write the memory of process {pid}")


def trampoline(function, number, closing, here):
    """Code that sends the signal. closing: only when the function's second argument is 0."""
    keep = bytes.fromhex("50 51 56 57 41 53")                 # push rax, rcx, rsi, rdi, r11
    ask = bytes.fromhex("b8 27 00 00 00 0f 05")               # getpid()
    send = bytes.fromhex("89 c7 be") + struct.pack("<I", number) + bytes.fromhex("b8 3e 00 00 00 0f 05")  # kill(pid, number)
    if closing: ask = bytes.fromhex("48 85 f6 75") + bytes([len(ask + send)]) + ask  # test rsi, rsi; jne past both calls
    give = bytes.fromhex("41 5b 5f 5e 59 58")
    body = keep + ask + send + give
    body += moved(function, here + len(body))
    address, code, _ = replaced(function)
    return body + b"\xe9" + struct.pack("<i", address + len(code) - (here + len(body) + JUMP))


def change(process, function, pieces):
    """Writes [(address, bytes)] while the process is stopped with no thread inside the replaced
    bytes."""
    pid, (address, code, _) = process.pid, replaced(function)
    for _ in range(200):
        os.kill(pid, signal.SIGSTOP)
        if not until(lambda: stopped(pid), 2, 0.0005): raise TimeoutError(f"{pid} does not stop")
        base = base_of(pid)
        if base is not None and not any(address < at - base < address + len(code) for _, at in threads(pid)):
            for at, piece in pieces: write(pid, base + at, piece)
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.001)
    raise TimeoutError(f"{pid} is no {QRINGD}, or is always in {function}")


def arm(process, function, number=signal.SIGKILL, closing=False):
    """From now on a thread that enters the function sends the signal to its process."""
    address, room = replaced(function)[0], symbols()[ROOM][0] + 16
    jump = b"\xe9" + struct.pack("<i", room - (address + JUMP))
    change(process, function, [(room, trampoline(function, number, closing, room)), (address, jump)])
    os.kill(process.pid, signal.SIGCONT)


def disarm(process, function):
    """Restores the function. A process that stopped itself continues; one that exited is left as
    is."""
    try: change(process, function, [replaced(function)[:2]])
    except (OSError, TimeoutError):
        if process.poll() is None: raise
    if process.poll() is None: os.kill(process.pid, signal.SIGCONT)


def is_stopped(process):
    """Returns whether the process has stopped itself."""
    return process.poll() is None and stopped(process.pid)
