# So many sessions at once of one user over TLS: each says, on a line, how its login was answered; ends with its input.
# Usage: sessions.py HOST PORT CA USER PASSWORD COUNT
import ftplib
import ssl
import sys

host, port, authority, user, password, count = sys.argv[1:]
sessions = []
for _ in range(int(count)):
    ftp = ftplib.FTP_TLS(context=ssl.create_default_context(cafile=authority), timeout=20)
    ftp.connect(host, int(port))
    try:
        print(ftp.login(user, password), flush=True)
        sessions.append(ftp)
    except ftplib.Error as error:
        print(error, flush=True)
sys.stdin.read()
