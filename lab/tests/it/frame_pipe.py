"""Sends each line of its input, in hexadecimal, as a frame by the device that it is told, and prints what comes back of the
same type."""

import socket
import sys
import threading

KIND = 0x88B5


def told(end):
    end.settimeout(20)
    while True:
        print(end.recv(65536).hex(), flush=True)


with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as end:
    end.bind((sys.argv[1], KIND))
    threading.Thread(target=told, args=(end,), daemon=True).start()
    for line in sys.stdin:
        end.send(bytes.fromhex(line))
