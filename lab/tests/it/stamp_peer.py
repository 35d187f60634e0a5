"""One end of STAMP as scapy has it: `reflect PORT_FILE` sends packets back but every tenth, `ask PORT` sends five and prints
what came of them."""

import json
import socket
import sys
import time

from scapy.contrib.stamp import (
    ErrorEstimate,
    STAMPSessionReflectorTestUnauthenticated,
    STAMPSessionSenderTestUnauthenticated,
    STAMPTestTLV,
)

NTP = 2208988800


def ntp():
    return time.time() + NTP


def reflect(port_file):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.bind(("127.0.0.1", 0))
        print(json.dumps({"port": end.getsockname()[1]}), flush=True)
        end.settimeout(20)
        while True:
            data, peer = end.recvfrom(9000)
            received = ntp()
            asked = STAMPSessionSenderTestUnauthenticated(data)
            if asked.seq % 10 == 3:
                continue
            answer = STAMPSessionReflectorTestUnauthenticated(
                seq=asked.seq,
                ts=ntp(),
                err_estimate=ErrorEstimate(S=0, Z=0, scale=20, multiplier=3),
                ssid=asked.ssid,
                ts_rx=received,
                seq_sender=asked.seq,
                ts_sender=asked.ts,
                err_estimate_sender=asked.err_estimate,
                ttl_sender=64,
            )
            # The sender's own timestamp as it came, to the last bit.
            raw = bytearray(bytes(answer)[:44])
            raw[28:36] = data[4:12]
            end.sendto(bytes(raw) + data[44:], peer)


def ask(port):
    said = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.connect(("127.0.0.1", int(port)))
        end.settimeout(5)
        for seq in range(5):
            sent = ntp()
            packet = STAMPSessionSenderTestUnauthenticated(
                seq=seq, ts=sent, ssid=77, tlv_objects=[STAMPTestTLV(flags=0x80, type=1, len=8, value=b"paddings")]
            )
            end.send(bytes(packet))
            data = end.recv(9000)
            came = ntp()
            answer = STAMPSessionReflectorTestUnauthenticated(data)
            said.append(
                {
                    "len": [len(bytes(packet)), len(data)],
                    "seq": answer.seq,
                    "seq_sender": answer.seq_sender,
                    "ssid": answer.ssid,
                    "ttl": answer.ttl_sender,
                    "in_order": bytes(packet)[4:12] <= data[16:24] <= data[4:12],
                    "echoed": data[28:36] == bytes(packet)[4:12],
                    "value": answer.tlv_objects[0].value.decode(),
                    "rtt": came - sent,
                }
            )
    print(json.dumps(said))


{"reflect": reflect, "ask": ask}[sys.argv[1]](sys.argv[2])
