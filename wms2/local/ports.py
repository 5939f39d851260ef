"""Free ports on loopback, and who listens where."""

import contextlib
import random
import socket
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

# Below the ports that the kernel hands out for outgoing connections, so that a port stays free while a stack is down.
FIRST, LAST = 20_000, 29_999
LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection that has just ended does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def pick_port(taken: Collection[int] = ()) -> int:
    """A free port that is not one of `taken`. Another program may still be faster: who starts a server looks after."""
    while True:
        port = random.randint(FIRST, LAST)  # noqa: S311 - nothing depends on nobody guessing it
        if port not in taken and is_free(port):
            return port


def listeners() -> dict[str, tuple[str, int]]:
    """Every TCP socket of this machine that listens: its inode, with address and port."""
    found = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        file = Path("/proc/net") / table
        lines = file.read_text().splitlines()[1:] if file.exists() else []
        for line in lines:
            fields = line.split()
            if fields[3] == "0A":  # the state LISTEN
                address, port = fields[1].split(":")
                found[fields[9]] = (_address(address, family), int(port, 16))
    return found


def sockets_of(pids: Iterable[int]) -> set[str]:
    """The inodes of all sockets that these processes hold."""
    targets = (target for pid in pids for target in _open_files(Path(f"/proc/{pid}/fd")))
    return {target[8:-1] for target in targets if target.startswith("socket:[")}


def _open_files(descriptors: Path) -> Iterator[str]:
    """What a process has open. It may close a file, or end, while we look."""
    with contextlib.suppress(OSError):
        for descriptor in descriptors.iterdir():
            with contextlib.suppress(OSError):
                yield str(descriptor.readlink())


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """The addresses and ports on which these processes listen for TCP."""
    held = sockets_of(pids)
    return {place for inode, place in listeners().items() if inode in held}


def _address(text: str, family: socket.AddressFamily) -> str:
    """The kernel prints addresses as 32-bit words in the machine's own byte order."""
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    return socket.inet_ntop(family, b"".join(words))
