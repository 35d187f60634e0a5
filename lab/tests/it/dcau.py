# One file by Globus' own client library, with data connections authenticated as asked, which globus-url-copy cannot be told.
# Usage: dcau.py get|put URL FILE DCAU SUBJECT PROT MODE SECONDS, where DCAU is A, S or N, SUBJECT whose data connections have to be
# (S), PROT is C or P, MODE is S or E, and SECONDS is how long to wait. The proxy is that of the environment; the server is /O=Grid/CN=localhost.
import ctypes
import sys
import time
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

way, url, path, how, subject, protection, mode, seconds = sys.argv[1:]
common = ctypes.CDLL("libglobus_common.so.0", ctypes.RTLD_GLOBAL)
client = ctypes.CDLL("libglobus_ftp_client.so.2", ctypes.RTLD_GLOBAL)
common.globus_error_print_friendly.restype = c_char_p
common.globus_error_print_friendly.argtypes = [c_void_p]
common.globus_error_get.restype = c_void_p
common.globus_callback_space_poll.argtypes = [c_void_p, c_int]


class Dcau(ctypes.Structure):
    _fields_ = [("mode", c_int), ("subject", c_char_p)]


def done(result):
    if result != 0:
        sys.exit(common.globus_error_print_friendly(common.globus_error_get(result)).decode())


handle, attributes = c_void_p(), c_void_p()
module = ctypes.c_char.in_dll(client, "globus_i_ftp_client_module")
done(common.globus_module_activate(byref(module)))
done(client.globus_ftp_client_handle_init(byref(handle), None))
done(client.globus_ftp_client_operationattr_init(byref(attributes)))
dcau = Dcau(ord(how), subject.encode())
done(client.globus_ftp_client_operationattr_set_dcau(byref(attributes), byref(dcau)))
named = [None, None, None, None, b"/O=Grid/CN=localhost"]
done(client.globus_ftp_client_operationattr_set_authorization(byref(attributes), *named))
done(client.globus_ftp_client_operationattr_set_data_protection(byref(attributes), ord(protection)))
done(client.globus_ftp_client_operationattr_set_mode(byref(attributes), ord(mode)))

Completed = CFUNCTYPE(None, c_void_p, POINTER(c_void_p), c_void_p)
Moved = CFUNCTYPE(None, c_void_p, POINTER(c_void_p), c_void_p, c_void_p, c_size_t, c_int64, c_int)
ended, failed, got = [], [], bytearray()
buffer = ctypes.create_string_buffer(1 << 20)


def say(error):
    if error:
        failed.append(common.globus_error_print_friendly(error).decode())


@Completed
def complete(_, __, error):
    say(error)
    ended.append(True)


@Moved
def read(_, __, error, start, length, offset, is_end):
    say(error)
    # Blocks of MODE E say where they belong.
    got.extend(bytes(max(0, offset + length - len(got))))
    got[offset : offset + length] = ctypes.string_at(start, length)
    if not is_end and not error:
        done(client.globus_ftp_client_register_read(byref(handle), buffer, c_size_t(1 << 20), read, None))


@Moved
def written(_, __, error, *rest):
    say(error)


if way == "get":
    done(client.globus_ftp_client_get(byref(handle), url.encode(), byref(attributes), None, complete, None))
    done(client.globus_ftp_client_register_read(byref(handle), buffer, c_size_t(1 << 20), read, None))
else:
    data = open(path, "rb").read()
    done(client.globus_ftp_client_put(byref(handle), url.encode(), byref(attributes), None, complete, None))
    done(
        client.globus_ftp_client_register_write(
            byref(handle), data, c_size_t(len(data)), c_int64(0), c_int(1), written, None
        )
    )
until = time.monotonic() + float(seconds)
while not ended:
    common.globus_callback_space_poll(None, -2)
    time.sleep(0.001)
    if time.monotonic() > until:
        sys.exit(f"it did not end within {seconds} s: {len(got)} bytes came")
if failed:
    sys.exit("\n".join(failed))
if way == "get":
    open(path, "wb").write(got)
