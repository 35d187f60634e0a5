# A client over FTPS whose data port strangers connect to before it does.
# Usage: strangers.py HOST PORT CA PATH OUT HOW, where HOW is close, junk, silent, many or flood: then strangers
# go on connecting, and the client is far away.
import collections
import ftplib
import socket
import ssl
import sys
import threading
import time

host, port, authority, path, out, how = sys.argv[1:]
strangers = []


def stranger(at):
    other = socket.create_connection(at)
    if how == "close":
        other.close()
        return
    if how == "junk":
        other.sendall(b"USER anonymous\r\n" * 100)
    strangers.append(other)


def flood(at):
    kept = collections.deque(maxlen=300)
    while True:
        try:
            kept.append(socket.create_connection(at, 1))
        except OSError:
            pass
        time.sleep(0.002)


class Far:
    """A data connection under TLS to which every reply takes a while."""

    def __init__(self, client, at):
        self.bio = ssl.MemoryBIO(), ssl.MemoryBIO()
        name, session = client.host, client.sock.session
        self.tls = client.context.wrap_bio(*self.bio, server_hostname=name, session=session)
        self.socket = socket.create_connection(at, 20)
        self.begun = self.done(self.tls.do_handshake)

    def done(self, what):
        try:
            return what() or True
        except ssl.SSLWantReadError:
            return None
        finally:
            sent = self.bio[1].read()
            if sent:
                self.socket.sendall(sent)

    def goes_on(self, what):
        while (result := self.done(what)) is None:
            time.sleep(0.7)
            came = self.socket.recv(1 << 16)
            assert came, "its place was another's"
            self.bio[0].write(came)
        return result

    def save(self, file):
        self.goes_on(self.tls.do_handshake)
        while True:
            try:
                plain = self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                came = self.socket.recv(1 << 16)
                assert came, "it ends without TLS's goodbye"
                self.bio[0].write(came)
                continue
            if not plain:
                return
            file.write(plain)


class Client(ftplib.FTP_TLS):
    def far(self, command, file):
        at = self.makepasv()
        threading.Thread(target=flood, args=(at,), daemon=True).start()
        time.sleep(0.5)
        data = Far(self, at)
        self.putcmd(command)
        reply = self.getresp()
        assert reply[0] == "1", reply
        data.save(file)
        self.voidresp()

    def ntransfercmd(self, command, rest=None):
        at = self.makepasv()
        for _ in range(12 if how == "many" else 2):
            stranger(at)
        data = socket.create_connection(at, 20)
        self.putcmd(command)
        data = self.context.wrap_socket(
            data, server_hostname=self.host, session=self.sock.session
        )
        reply = self.getresp()
        assert reply[0] == "1", reply
        return data, None


context = ssl.create_default_context(cafile=authority)
client = Client(context=context, timeout=20)
client.connect(host, int(port))
client.login("alice", "secret")
client.prot_p()
with open(out, "wb") as file:
    if how == "flood":
        client.far("RETR " + path, file)
    else:
        client.retrbinary("RETR " + path, file.write)
client.quit()
