# A client over FTPS whose data port strangers connect to before it does.
# Usage: strangers.py HOST PORT CA PATH OUT HOW, where HOW is close, junk, silent or many.
import ftplib
import socket
import ssl
import sys

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


class Client(ftplib.FTP_TLS):
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
    client.retrbinary("RETR " + path, file.write)
client.quit()
